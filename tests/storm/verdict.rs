//! Checks that each value of the honest programs is one that they had, under its own name and
//! number, and that none is missing.
//!
//! The agent reads values after it took the timestamp of a record, soon after it, and before it
//! takes that of the next one: some moment in that time must be one at which the value was there.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use pcp_archive::{Archive, Pmid, Value};

use super::honest::{CONSTANT, INSTANCES, Lives, RETURNING, STANDS, STEADY};

const PMCD: u32 = 2;

/// Longest time in microseconds between the timestamp of a record and the reading of its values.
/// With debug assertions, the usual time is granted many times over.
const SOON: u64 = if cfg!(debug_assertions) { 250_000 } else { 50_000 };

const MAX_COMPLAINTS: usize = 20;

/// Values of one record: the last part of the metric's name, the instance, the value.
type Values = Vec<(String, Option<String>, u64)>;

/// A start of the program that returns, in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restart {
    /// Time when it had published.
    pub(super) started: u64,
    /// The timestamp of the first record with its values.
    pub(super) seen: Option<u64>,
    pub(super) ended: u64,
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) complaints: Vec<String>,
    /// Timestamps of the records with the steady program, in microseconds since 1970.
    pub(super) times: Vec<u64>,
    /// The longest time from a record's timestamp until a value in it was set.
    pub(super) latest_value: Duration,
    pub(super) restarts: Vec<Restart>,
}

impl Findings {
    pub(super) fn longest_gap(&self) -> Duration {
        let gaps = self.times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        Duration::from_micros(gaps.max().unwrap_or(0))
    }
}

#[derive(Debug)]
pub(super) struct Verdict {
    lives: Lives,
    late: HashMap<u64, u64>,
    pmids: HashMap<String, HashSet<Pmid>>,
    pending: Option<(u64, Values)>,
    complaints: Vec<String>,
    /// Timestamps of records with values of the steady program, in microseconds.
    times: Vec<u64>,
    /// Records without, between those with values of the steady program.
    without: u64,
    /// The last record without the steady program.
    lacking: String,
    /// Records without the steady program since the last one with it.
    since: u64,
    /// The interval of the agent, in microseconds.
    interval: u64,
    /// The longest time from a timestamp until a value was set, in microseconds.
    latest: u64,
    returned: u64,
    first_of_life: HashMap<u64, u64>,
    /// The fewest records that each program must be in.
    pub(super) fewest: (usize, u64),
}

impl Verdict {
    pub(super) fn new(lives: Lives, interval: Duration) -> Self {
        Self {
            late: lives.late.iter().copied().collect(),
            lives,
            pmids: HashMap::new(),
            pending: None,
            complaints: Vec::new(),
            times: Vec::new(),
            without: 0,
            lacking: String::new(),
            since: 0,
            interval: interval.as_micros() as u64,
            latest: 0,
            returned: 0,
            first_of_life: HashMap::new(),
            fewest: (100, 10),
        }
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(complaint);
        }
    }

    pub(super) fn read(&mut self, base: &Path) {
        let archive = Archive::open(base);
        let archive = match archive {
            Ok(archive) => archive,
            // An archive that was begun and has no record yet.
            Err(pcp_archive::Error::NoData { .. }) => return,
            Err(error) => return self.complain(format!("{}: {error}", base.display())),
        };
        let metadata = archive.metadata();
        let mut names = HashMap::new();
        for metric in metadata.metrics() {
            let name = metric.display_name();
            for program in [STEADY, RETURNING] {
                let Some(last) = name.strip_prefix(&format!("mmv.{program}.")) else { continue };
                let last = last.to_owned();
                names.insert(metric.desc.pmid, (program, last, metric.desc));
                self.pmids.entry(name.clone()).or_default().insert(metric.desc.pmid);
            }
        }
        let mut records = archive.records().expect("records");
        loop {
            let record = match records.next() {
                Ok(Some(record)) => record,
                Ok(None) => return,
                Err(error) => return self.complain(format!("{}: {error}", base.display())),
            };
            // The agent writes values of pmcd's metrics at the start of an archive.
            if record.is_mark() || record.value_sets().all(|set| set.pmid().domain() == PMCD) {
                continue;
            }
            let timestamp = record.timestamp();
            let at = u64::try_from(timestamp.as_nanos()).expect("a time after 1970");
            let mut values: HashMap<&str, Values> = HashMap::new();
            for set in record.value_sets() {
                let Some((program, last, desc)) = names.get(&set.pmid()) else { continue };
                for value in set.values(desc.value_type) {
                    let Ok((id, Value::U64(number))) = value else {
                        self.complain(format!("{program}.{last} is {value:?} at {at}"));
                        continue;
                    };
                    let history = desc.indom.and_then(|indom| metadata.indom_history(indom));
                    let name = history.zip(id).and_then(|(history, id)| {
                        history.name_at(id, timestamp).map(str::to_owned)
                    });
                    values.entry(program).or_default().push((last.clone(), name, number));
                }
            }
            if !values.contains_key(STEADY) {
                let metrics: Vec<_> = record.value_sets().map(|set| set.pmid()).collect();
                self.lacking = format!("at {at} in {}: {metrics:.200?}", base.display());
            }
            self.take(at, values.remove(STEADY), &values.remove(RETURNING).unwrap_or_default());
        }
    }

    fn take(&mut self, at: u64, steady: Option<Values>, returning: &Values) {
        self.judge_pending(at);
        match steady {
            Some(values) => {
                let without = std::mem::take(&mut self.since);
                // Between two ticks there are records of last values alone.
                let before = self.times.last().copied().unwrap_or(0);
                if at / 1000 - before > self.interval * 3 / 2 {
                    self.without += without;
                }
                self.times.push(at / 1000);
                self.pending = Some((at, values));
            }
            // Before it is harvested for the first time, none is missing.
            None => self.since += u64::from(!self.times.is_empty()),
        }
        self.returned += u64::from(!returning.is_empty());
        for (metric, instance, value) in returning {
            let is_known = metric == "constant" && [0, CONSTANT].contains(value);
            if metric == "now"
                && let Some((born, _)) =
                    self.lives.returning.iter().find(|(born, end)| born <= value && value <= end)
            {
                self.first_of_life.entry(*born).or_insert(at / 1000);
            }
            let is_own = self.lives.returning.iter().any(|(born, end)| {
                let is_name = match instance {
                    Some(name) => metric == "by" && INSTANCES.contains(&name.as_str()),
                    None => metric == "now",
                };
                is_name && born <= value && value <= end
            });
            if !is_known && !is_own {
                self.complain(format!("mmv.{RETURNING}.{metric}[{instance:?}] = {value} at {at}"));
            }
        }
    }

    fn judge_pending(&mut self, next: u64) {
        let Some((at, values)) = self.pending.take() else { return };
        let mut seen = Vec::new();
        for (metric, instance, value) in &values {
            seen.push(instance.as_ref().map_or(metric.clone(), |name| format!("{metric}[{name}]")));
            if metric == "constant" && *value == CONSTANT {
                continue;
            }
            self.latest = self.latest.max(value.saturating_sub(at / 1000));
            let until = self.late.get(value).copied().unwrap_or(value + STANDS);
            let latest = (next / 1000).min(at / 1000 + SOON);
            let is_true = metric != "constant" && *value <= latest && at / 1000 <= until;
            if !is_true {
                self.complain(format!("mmv.{STEADY}.{metric} = {value} at {at}, next {next}"));
            }
        }
        seen.sort();
        let mut expected = vec!["constant".to_owned(), "now".to_owned()];
        expected.extend(INSTANCES.map(|name| format!("by[{name}]")));
        expected.sort();
        if seen != expected {
            self.complain(format!("{seen:?} in place of {expected:?} at {at}"));
        }
    }

    pub(super) fn finish(mut self) -> Findings {
        let end = self.lives.steady.1 * 1000;
        self.judge_pending(end);
        let (steady, without, returned) = (self.times.len(), self.without, self.returned);
        if without > 0 {
            let mut last = std::mem::take(&mut self.lacking);
            last.truncate(300);
            self.complain(format!("{without} records lack mmv.{STEADY}; the last {last}"));
        }
        if steady < self.fewest.0 || returned < self.fewest.1 {
            self.complain(format!("only {steady} and {returned} records have the programs"));
        }
        for (name, pmids) in std::mem::take(&mut self.pmids) {
            if pmids.len() > 1 {
                self.complain(format!("{name} has several numbers: {pmids:?}"));
            }
        }
        let mut restarts = Vec::new();
        for (born, ended) in self.lives.returning.iter().copied().skip(1) {
            let starts = &self.lives.started;
            let Some(started) = starts.iter().find(|at| born < **at && **at < ended) else {
                continue;
            };
            let seen = self.first_of_life.get(&born).copied();
            restarts.push(Restart { started: *started, seen, ended });
        }
        let latest_value = Duration::from_micros(self.latest);
        let Self { complaints, times, .. } = self;
        Findings { complaints, times, latest_value, restarts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn verdict() -> Verdict {
        let lives = Lives {
            steady: (0, 100 * SECOND),
            returning: vec![(10 * SECOND, 20 * SECOND)],
            started: vec![11 * SECOND],
            late: vec![(50 * SECOND, 51 * SECOND)],
        };
        Verdict::new(lives, Duration::from_millis(500))
    }

    fn values(value: u64) -> Values {
        let mut values = vec![("now".to_owned(), None, value)];
        values.extend(INSTANCES.map(|name| ("by".to_owned(), Some(name.to_owned()), value)));
        values.push(("constant".to_owned(), None, CONSTANT));
        values
    }

    /// Returns the complaints if the program has these values at these times, besides too few.
    fn complaints(records: &[(u64, Option<Values>)], returning: &Values) -> Vec<String> {
        let mut verdict = verdict();
        for (at, values) in records {
            verdict.take(at * 1000, values.clone(), returning);
        }
        let all = verdict.finish().complaints.into_iter();
        all.filter(|line| !line.starts_with("only ")).collect()
    }

    #[test]
    fn true_values_are_no_reason_to_complain() {
        let records = [30, 31, 32].map(|s| (s * SECOND, Some(values(s * SECOND - 1000))));
        assert_eq!(complaints(&records, &values(15 * SECOND)), [""; 0]);
        let late = [(50 * SECOND + STANDS + 5, Some(values(50 * SECOND)))];
        assert_eq!(complaints(&late, &Values::new()), [""; 0], "by the journal");
        let value = |at: u64| (at, Some(values(at)));
        let between = [value(30 * SECOND), (30 * SECOND + 7, None), value(30 * SECOND + 500_000)];
        assert_eq!(complaints(&between, &Values::new()), [""; 0], "last values of another file");
    }

    #[test]
    fn the_longest_gap_the_latest_value_and_restarts_are_found() {
        let mut verdict = verdict();
        verdict.lives.returning.push((30 * SECOND, 40 * SECOND));
        verdict.lives.started.push(31 * SECOND);
        for (at, returning) in [(29, 15), (32, 31), (33, 33)] {
            let at = at * SECOND;
            verdict.take(at * 1000, Some(values(at + 7)), &values(returning * SECOND));
        }
        let found = verdict.finish();
        assert_eq!(found.longest_gap(), Duration::from_secs(3));
        assert_eq!(found.latest_value, Duration::from_micros(7));
        let [Restart { started, seen, .. }] = found.restarts[..] else { panic!("{found:?}") };
        assert_eq!((started, seen), (31 * SECOND, Some(32 * SECOND)));
    }

    #[test]
    fn what_is_lost_replaced_or_renamed_is_found() {
        let good = |second: u64| (second * SECOND, Some(values(second * SECOND)));
        let one = |records: &[(u64, Option<Values>)]| {
            let complaints = complaints(records, &Values::new());
            assert_eq!(complaints.len(), 1, "{complaints:?}");
        };
        one(&[good(30), (31 * SECOND, None), good(32)]);
        let mut replaced = values(30 * SECOND);
        replaced[0].2 = 666;
        one(&[(30 * SECOND, Some(replaced)), good(31)]);
        let mut renamed = values(30 * SECOND);
        renamed[1].1 = Some("mauve".to_owned());
        one(&[(30 * SECOND, Some(renamed)), good(31)]);
        one(&[(30 * SECOND, Some(values(30 * SECOND)[1..].to_vec())), good(31)]);
        let read_late = (30 * SECOND, Some(values(30 * SECOND + SOON + 1)));
        assert_eq!(complaints(&[read_late, good(32)], &Values::new()).len(), 4, "read late");
        assert_eq!(complaints(&[good(30)], &values(25 * SECOND)).len(), 4, "after its end");
    }
}
