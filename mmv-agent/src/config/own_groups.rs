//! Groups for the agent's own metrics that no configured group has.

use std::time::Duration;

use super::settings::{Group, LogMode, Settings};

/// Interval of most of the agent's own metrics.
const OFTEN: Duration = Duration::from_secs(60);
/// Interval of metrics that need much space or rarely change.
const RARELY: Duration = Duration::from_secs(600);

/// Metrics and subtrees below `mmv.agent` that are logged rarely. Histograms have an instance for
/// each bucket that was hit.
const RARE: [&str; 7] = [
    "ticks.duration",
    "ticks.lateness",
    "sync.duration",
    "happened",
    "compression",
    "archives",
    "queue.limit",
];

impl Settings {
    /// Returns the groups of the agent's own metrics; none if the metrics are not published.
    /// Metrics that show losses are logged every minute, the others every ten minutes, or with
    /// each sample if samples are rarer. Together they need less than 2 MB a day.
    pub(crate) fn own_groups(&self) -> Vec<Group> {
        if !self.fixed.own_metrics {
            return Vec::new();
        }
        // For this agent, and for a second one on the same directory.
        let mut rare = Vec::new();
        for name in RARE {
            rare.push(format!("mmv.agent.{name}"));
            rare.push(format!("mmv.agent_?.{name}"));
            rare.push(format!("mmv.agent_?.{name}.*"));
        }
        let all = vec!["mmv.agent".to_owned(), "mmv.agent_?.*".to_owned()];
        vec![self.own("mmv-agent rarely", rare, RARELY), self.own("mmv-agent", all, OFTEN)]
    }

    /// Returns a group with an interval that is a multiple of the default one, so that no tick is
    /// for it alone.
    fn own(&self, name: &str, metrics: Vec<String>, wanted: Duration) -> Group {
        let interval = self.reloadable.interval;
        let every = wanted.as_nanos().div_ceil(interval.as_nanos().max(1));
        let every = u32::try_from(every.max(1)).unwrap_or(u32::MAX);
        Group {
            name: name.to_owned(),
            metrics,
            instances: Vec::new(),
            interval: Some(interval.saturating_mul(every)),
            log: LogMode::Every,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_metrics_are_logged_at_multiples_of_the_interval() {
        for (millis, often, rarely) in [
            (100, 60_000, 600_000),
            (1_000, 60_000, 600_000),
            (7_000, 63_000, 602_000),
            (300_000, 300_000, 600_000),
            (3_600_000, 3_600_000, 3_600_000),
        ] {
            let mut settings = Settings::default();
            settings.reloadable.interval = Duration::from_millis(millis);
            let groups = settings.own_groups();
            let intervals: Vec<_> = groups.iter().map(|group| group.interval).collect();
            let expected = [rarely, often].map(|millis| Some(Duration::from_millis(millis)));
            assert_eq!(intervals, expected);
        }
    }
}
