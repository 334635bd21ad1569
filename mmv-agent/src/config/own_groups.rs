//! The groups that log the agent's own metrics if no other one does.

use std::time::Duration;

use super::settings::{Group, LogMode, Settings};

/// How often most of them are logged.
const OFTEN: Duration = Duration::from_secs(60);
/// How often those are that need much room or rarely change.
const RARELY: Duration = Duration::from_secs(600);

/// What is logged rarely: metrics and subtrees below `mmv.agent`. Histograms have an
/// instance for each bucket that was hit.
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
    /// The groups of the agent's own metrics. Those that show losses are logged every minute,
    /// the others every ten minutes, or with each sample if samples are rarer. Together they
    /// need less than 2 MB a day. There are no groups if the metrics are not published.
    pub(crate) fn own_groups(&self) -> Vec<Group> {
        if !self.fixed.own_metrics {
            return Vec::new();
        }
        // Of one agent, and of a second one on the same directory.
        let below = |name: &&str| {
            let others = [format!("mmv.agent_?.{name}"), format!("mmv.agent_?.{name}.*")];
            [format!("mmv.agent.{name}")].into_iter().chain(others)
        };
        let rare = RARE.iter().flat_map(below).collect();
        let all = vec!["mmv.agent".to_owned(), "mmv.agent_?.*".to_owned()];
        vec![self.own("mmv-agent rarely", rare, RARELY), self.own("mmv-agent", all, OFTEN)]
    }

    /// A group with an interval that is a multiple of the default one, so that no tick is
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
