//! Metrics of tokio about a runtime.

use std::time::Duration;

use mmv_writer::{Error, Gauge, Metrics, Registry, Units};
use tokio::runtime::{Handle, RuntimeMetrics};

/// Metrics of a tokio runtime, in the branch `tokio`: those that tokio has without
/// `tokio_unstable`.
///
/// ```
/// use mmv_runtime::TokioMetrics;
/// use mmv_writer::Registry;
/// use tokio::runtime::Runtime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let registry = Registry::builder("shop");
/// # let registry = registry.directory(directory.path());
/// let registry = registry.build()?;
/// let runtime = Runtime::new()?;
/// let tokio = TokioMetrics::new(&registry, runtime.handle())?;
///
/// tokio.update(); // in a loop of the program's, or with `mmv_runtime::every`
/// # Ok(())
/// # }
/// ```
///
/// | metric | semantics | units |
/// |---|---|---|
/// | `tokio.workers` | instant | count |
/// | `tokio.tasks` | instant | count |
/// | `tokio.global_queue` | instant | count |
/// | `tokio.busy` | counter | microseconds |
/// | `tokio.parks` | counter | count |
///
/// The rate of `tokio.busy` is the number of workers that are busy on average. They hold
/// 0 until the first update. Where a machine has no atomic operations of 64 bits, the last
/// two stay 0.
#[derive(Debug)]
pub struct TokioMetrics {
    values: Values,
    runtime: RuntimeMetrics,
}

#[derive(Debug, Metrics)]
struct Values {
    /// Worker threads of the runtime.
    #[metric(units = Units::count())]
    workers: Gauge<u64>,
    /// Tasks that were spawned and have not ended.
    #[metric(units = Units::count())]
    tasks: Gauge<u64>,
    /// Tasks that wait in the global queue for a worker.
    #[metric(units = Units::count())]
    global_queue: Gauge<u64>,
    /// Time that all workers have been busy.
    #[metric(units = Units::microseconds(), semantics = counter)]
    busy: Gauge<u64>,
    /// How often a worker had nothing to do and waited.
    #[metric(units = Units::count(), semantics = counter)]
    parks: Gauge<u64>,
}

impl TokioMetrics {
    /// Registers the metrics of a runtime.
    ///
    /// # Errors
    ///
    /// The errors of [`mmv_writer::MetricBuilder::build`]; [`Error::NameTaken`] if the metrics are
    /// registered already.
    pub fn new(registry: &Registry, runtime: &Handle) -> Result<Self, Error> {
        let values = Values::register_under(registry, "tokio")?;
        Ok(Self { values, runtime: runtime.metrics() })
    }

    /// Sets all values to the current ones. Takes less than a microsecond for some workers.
    pub fn update(&self) {
        let Self { values, runtime } = self;
        let workers = runtime.num_workers();
        values.workers.set(workers as u64);
        values.tasks.set(runtime.num_alive_tasks() as u64);
        values.global_queue.set(runtime.global_queue_depth() as u64);
        let (busy, parks) = busy_and_parks(runtime, workers);
        values.busy.set(busy.as_micros() as u64);
        values.parks.set(parks);
    }
}

#[cfg(target_has_atomic = "64")]
fn busy_and_parks(runtime: &RuntimeMetrics, workers: usize) -> (Duration, u64) {
    let busy = (0..workers).map(|worker| runtime.worker_total_busy_duration(worker)).sum();
    let parks = (0..workers).map(|worker| runtime.worker_park_count(worker)).sum();
    (busy, parks)
}

#[cfg(not(target_has_atomic = "64"))]
fn busy_and_parks(_: &RuntimeMetrics, _: usize) -> (Duration, u64) {
    (Duration::ZERO, 0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn values_follow_what_the_runtime_does() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
        let metrics = TokioMetrics::new(&registry, runtime.handle()).unwrap();
        assert!(matches!(
            TokioMetrics::new(&registry, runtime.handle()),
            Err(Error::NameTaken { .. })
        ));
        let values = &metrics.values;
        metrics.update();
        assert_eq!((values.workers.value(), values.tasks.value()), (3, 0));
        let sleep = async || tokio::time::sleep(Duration::from_secs(60)).await;
        let sleeping: Vec<_> = (0..5).map(|_| runtime.spawn(sleep())).collect();
        metrics.update();
        assert_eq!(values.tasks.value(), 5);
        sleeping.iter().for_each(tokio::task::JoinHandle::abort);
        let work = runtime.spawn(async {
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        });
        runtime.block_on(work).unwrap();
        let since = Instant::now();
        // A worker adds its time when it goes to sleep.
        while values.busy.value() < 20_000 || values.parks.value() == 0 || values.tasks.value() > 0
        {
            assert!(since.elapsed() < Duration::from_secs(60), "{values:?}");
            std::thread::yield_now();
            metrics.update();
        }
        assert_eq!(values.global_queue.value(), 0);
    }
}
