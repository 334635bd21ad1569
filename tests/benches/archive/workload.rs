//! Archives whose values change as those of programs do, made without a program: one metric with
//! instances, one record a second.

use std::path::Path;

use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{InDom, Instance, InstanceId, OwnedValue};

use crate::made::{Result, Shape};
use crate::random::Random;

const RECORDS: u64 = 2_000;
/// Requests that a program answers in a second, on average.
const REQUESTS: u64 = 2_000;
/// Buckets of a histogram: eight for each doubling.
const BUCKETS_PER_DOUBLING: f64 = 8.0;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Workload {
    /// Counters that are idle for a minute and busy for ten seconds, on average.
    Bursts,
    /// Gauges that change once in half a minute, on average.
    HeldGauges,
    /// Buckets of eight histograms, of log-normal latencies.
    Latencies,
    /// Counters of requests by label, popular by Zipf's law.
    Labels,
    /// Counters of which one in ten counts.
    MostlyIdle,
}

impl Workload {
    pub(crate) const ALL: [Self; 5] =
        [Self::Bursts, Self::HeldGauges, Self::Latencies, Self::Labels, Self::MostlyIdle];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bursts => "counters with bursts",
            Self::HeldGauges => "gauges that hold",
            Self::Latencies => "log-normal latencies",
            Self::Labels => "labels by Zipf's law",
            Self::MostlyIdle => "one counter in ten active",
        }
    }

    const fn series(self) -> u64 {
        match self {
            Self::Latencies => 8 * 96,
            _ => 1_000,
        }
    }

    pub(crate) const fn values(self) -> u64 {
        self.series() * RECORDS
    }

    const fn is_counter(self) -> bool {
        !matches!(self, Self::HeldGauges)
    }

    pub(crate) fn write(self, base: &Path) -> Result<()> {
        let empty = Shape { metrics: 0, instances: 0, records: 0, marks: 0 };
        let (mut writer, _) = empty.writer(base)?;
        let indom = InDom::new(70, 1)?;
        let mut desc = Shape::desc(u32::from(!self.is_counter()))?;
        desc.indom = Some(indom);
        writer.declare_metric(&desc, &["bench.program"])?;
        let mut instances = Vec::new();
        for number in 0..self.series() {
            let id = InstanceId::new(i32::try_from(number)?)?;
            instances.push(Instance { id, name: format!("series-{number}").into() });
        }
        writer.declare_indom(indom, &instances)?;
        let mut program = Program::new(self);
        for record in 0..RECORDS {
            program.run_for_a_second();
            let values = instances.iter().zip(&program.values).map(|(instance, value)| {
                let value = if self.is_counter() {
                    OwnedValue::U64(*value)
                } else {
                    OwnedValue::I64(value.cast_signed())
                };
                (Some(instance.id), value)
            });
            writer.write_result(&FetchResult {
                timestamp: Shape::timestamp(record)?,
                value_sets: vec![ValueSet { pmid: desc.pmid, values: Ok(values.collect()) }],
            })?;
        }
        writer.finish()?;
        Ok(())
    }
}

struct Program {
    workload: Workload,
    random: Random,
    values: Vec<u64>,
    /// Events a second of each counter; 0 while it is idle.
    rates: Vec<u64>,
    /// Sums of the probabilities of labels.
    popularity: Vec<f64>,
}

impl Program {
    fn new(workload: Workload) -> Self {
        let series = workload.series() as usize;
        let mut total = 0.0;
        let mut popularity = Vec::with_capacity(series);
        for rank in 1..=series {
            total += 1.0 / (rank as f64).powf(1.1);
            popularity.push(total);
        }
        for sum in &mut popularity {
            *sum /= total;
        }
        let mut random = Random::new(1);
        let rates = (0..series as u64).map(|number| match workload {
            Workload::MostlyIdle if number % 10 == 0 => 1 + random.skewed(100_000),
            _ => 0,
        });
        let rates = rates.collect();
        Self { workload, random, values: vec![0; series], rates, popularity }
    }

    fn run_for_a_second(&mut self) {
        match self.workload {
            Workload::Bursts => self.start_and_end_bursts(),
            Workload::HeldGauges => self.change_gauges(),
            Workload::Latencies => self.record_latencies(),
            Workload::Labels => self.count_labels(),
            Workload::MostlyIdle => {}
        }
        for (value, rate) in self.values.iter_mut().zip(&self.rates) {
            if *rate > 0 {
                // The number of events in a second is about normal, with the rate as its variance.
                let events = *rate as f64 + (*rate as f64).sqrt() * self.random.normal();
                *value += events.round().max(0.0) as u64;
            }
        }
    }

    fn start_and_end_bursts(&mut self) {
        for rate in &mut self.rates {
            if *rate == 0 && self.random.below(60) == 0 {
                *rate = 1 + self.random.skewed(100_000);
            } else if *rate > 0 && self.random.below(10) == 0 {
                *rate = 0;
            }
        }
    }

    fn change_gauges(&mut self) {
        for value in &mut self.values {
            if self.random.below(30) == 0 {
                *value = self.random.skewed(10_000);
            }
        }
    }

    fn record_latencies(&mut self) {
        let histograms = 8;
        let buckets = self.values.len() / histograms;
        for _ in 0..REQUESTS {
            let histogram = self.random.skewed(histograms as u64) as usize;
            // A median of 5 ms from 0.1 ms on, in units of 0.1 ms.
            let latency = (50.0_f64.ln() + 0.8 * self.random.normal()).exp().max(1.0);
            let bucket = (latency.log2() * BUCKETS_PER_DOUBLING) as usize;
            self.values[histogram * buckets + bucket.min(buckets - 1)] += 1;
        }
    }

    fn count_labels(&mut self) {
        for _ in 0..REQUESTS {
            let drawn = self.random.unit();
            let label = self.popularity.partition_point(|sum| *sum <= drawn);
            self.values[label] += 1;
        }
    }
}
