//! Guards of static metrics: they belong to the static, so what they count when they
//! are dropped is counted where the static counts then.

use std::time::Instant;

use super::Static;
use crate::metric::{Gauge, Histogram, Number, Timer};

/// A running measurement of a time for a static timer or histogram; see
/// [`Static::<Timer>::start`](Static#method.start).
#[derive(Debug)]
pub struct StaticTiming {
    metric: Timed,
    since: Instant,
}

/// The metric that gets the time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Timed {
    Timer(&'static Static<Timer>),
    Histogram(&'static Static<Histogram>),
}

impl StaticTiming {
    pub(super) fn new(metric: Timed) -> Self {
        Self { metric, since: Instant::now() }
    }

    /// Ends without counting the time.
    pub fn discard(self) {
        std::mem::forget(self);
    }
}

impl Drop for StaticTiming {
    fn drop(&mut self) {
        let time = self.since.elapsed();
        match self.metric {
            Timed::Timer(timer) => timer.add(time),
            Timed::Histogram(histogram) => histogram.record_duration(time),
        }
    }
}

/// A unit of work in progress, subtracted from the gauge on drop; see [`Static::guard`].
#[derive(Debug)]
pub struct StaticGaugeGuard<T: Number> {
    gauge: &'static Static<Gauge<T>>,
}

impl<T: Number> StaticGaugeGuard<T> {
    pub(super) fn new(gauge: &'static Static<Gauge<T>>) -> Self {
        gauge.add(T::ONE);
        Self { gauge }
    }
}

impl<T: Number> Drop for StaticGaugeGuard<T> {
    fn drop(&mut self) {
        self.gauge.sub(T::ONE);
    }
}
