//! A way in which a program publishes metrics.

use crate::harness::dice::Dice;

/// Names of metrics with a meaning, as readers see them.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    pub(super) counters: Vec<String>,
    pub(super) gauges: Vec<String>,
    /// A counter without instances.
    pub(super) total: Option<String>,
    pub(super) histogram: Option<String>,
}

pub(super) trait Target: Sync {
    fn metrics(&self) -> &Metrics;
    fn name(&self, instance: u64) -> String;
    fn histogram_name(&self, _instance: u64) -> String {
        String::new()
    }
    fn add(&self, counter: usize, instance: u64, delta: u64);
    fn set(&self, gauge: usize, instance: u64, value: u64);
    fn add_total(&self, _delta: u64) {}
    fn record(&self, _instance: u64, _value: u64) {}
    fn remove(&self, _instance: u64) {}
    fn removes(&self) -> bool {
        false
    }
    /// Changes the order of instances, where the numbers of instances follow it.
    fn reorder(&self, _dice: &mut Dice) {}
    /// Returns whether instances are created when they are first used.
    fn grows(&self) -> bool {
        false
    }
}
