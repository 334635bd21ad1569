//! Checks that each value logged is one that its program had at that time.
//!
//! A value is the time when it was set. It was in its place until the next update,
//! which comes within [`STANDS`] or is in the program's journal. The agent reads
//! after it took the timestamp of a record and before it takes that of the next one. So
//! there is no slack: some moment between the two timestamps must be one at which the
//! value was there. The last value of a program that died lasts until its end is
//! known, and is logged once more.

use std::collections::{HashMap, HashSet};

use super::agent_runs::Run;
use super::archives::{Entry, Logged};
use super::program::STANDS;
use super::programs::{Journal, Life};
use super::shape::STEADY;

const ENOUGH: usize = 20;

/// A life, with the journal of its program.
struct Known {
    life: Life,
    journal: Journal,
    /// The newest of its values that was logged.
    newest: u64,
    after_end: HashSet<u64>,
    /// Number of records that it is in.
    seen: u64,
}

/// A value that lasted longer than usual: permitted only for the last update of a life,
/// or for the one before if the program was killed during the last.
struct Stale {
    program: usize,
    life: usize,
    /// The newest value of the program in that record.
    newest: u64,
    complaint: String,
}

pub(super) struct Verdict<'r> {
    runs: &'r [Run],
    known: Vec<Vec<Known>>,
    pending: Option<(u64, Vec<Logged>)>,
    stale: Vec<Stale>,
    complaints: Vec<String>,
    pub(super) values: u64,
    /// Greatest delay of a value after its record's timestamp, and greatest age before it, in
    /// microseconds.
    pub(super) latest: u64,
    pub(super) oldest: u64,
}

impl<'r> Verdict<'r> {
    pub(super) fn new(runs: &'r [Run], lives: Vec<Vec<Life>>) -> Self {
        let known = |life: Life| {
            let journal = life.journal();
            Known { life, journal, newest: 0, after_end: HashSet::new(), seen: 0 }
        };
        let known = lives.into_iter().map(|lives| lives.into_iter().map(known).collect());
        Self {
            runs,
            known: known.collect(),
            pending: None,
            stale: Vec::new(),
            complaints: Vec::new(),
            values: 0,
            latest: 0,
            oldest: 0,
        }
    }

    pub(super) fn take(&mut self, entry: Entry) {
        let Entry::Sample { timestamp, values } = entry else { return };
        self.judge_pending(timestamp);
        self.pending = Some((timestamp, values));
    }

    /// Judges the pending record. The last record has no next one, but its run has an end.
    fn judge_pending(&mut self, next: u64) {
        let Some((timestamp, values)) = self.pending.take() else { return };
        let run = self.runs.iter().find(|run| timestamp / 1000 <= run.ended);
        let end = run.map_or(u64::MAX, |run| (run.ended + 1) * 1000);
        let mut steady = HashMap::new();
        let mut present = HashSet::new();
        for value in &values {
            self.values += 1;
            if value.is_steady() {
                *steady.entry(value.program).or_insert(0) += 1;
            }
            present.insert(value.program);
            let own = values.iter().filter(|other| other.program == value.program);
            let newest = own.map(|other| other.value).max().unwrap_or(0);
            if let Some(complaint) = self.judge(value, newest, timestamp, next.min(end)) {
                self.complain(format!("{complaint}: {value:?} at {timestamp}, the next at {next}"));
            }
        }
        let is_of_tick = !steady.is_empty();
        for program in (0..STEADY as usize).filter(|_| is_of_tick) {
            let shape = &self.known[program][0].life.shape;
            let expected = 1 + shape.more.len() + shape.by.len();
            if steady.get(&program) != Some(&expected) {
                let found = steady.get(&program).copied().unwrap_or(0);
                let file = shape.file.clone();
                self.complain(format!("{file} has {found} values of {expected} at {timestamp}"));
            }
        }
        for program in present {
            let lives = &mut self.known[program];
            let at = timestamp / 1000;
            if let Some(known) = lives.iter_mut().find(|known| at <= known.life.reaped) {
                known.seen += 1;
            }
        }
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < ENOUGH {
            self.complaints.push(complaint);
        }
    }

    /// Returns what is wrong with a value that was read between two moments.
    fn judge(
        &mut self,
        logged: &Logged,
        newest_here: u64,
        from: u64,
        to: u64,
    ) -> Option<&'static str> {
        let lives = &mut self.known[logged.program];
        let series = match &logged.instance {
            Some(instance) => format!("{}[{instance}]", logged.metric),
            None => logged.metric.clone(),
        };
        let value = logged.value;
        if value == 0 {
            return (!lives.iter().any(|known| {
                let unset = known.journal.unset.get(&series);
                unset.is_some_and(|(new, set)| {
                    let set = (*set).min(known.life.reaped);
                    new * 1000 <= to && from < (set + 1) * 1000
                })
            }))
            .then_some("nothing was 0 then");
        }
        let Some(number) =
            lives.iter().position(|known| known.life.born <= value && value <= known.life.reaped)
        else {
            return Some("no program ran then");
        };
        let Known { life, journal, newest, after_end, .. } = &mut lives[number];
        if life.shape.value_type(&logged.metric) != Some(logged.value_type) {
            return Some("it had no such metric in that life");
        }
        let unset = journal.unset.get(&series).copied();
        let gone = journal.gone.get(&series).copied();
        if let Some(instance) = &logged.instance {
            let is_there = match logged.metric.as_str() {
                "by" => life.shape.by.contains(instance),
                _ => {
                    unset.is_some_and(|(new, _)| new <= value)
                        && gone.is_none_or(|(_, after)| value <= after)
                }
            };
            if !is_there {
                return Some("it had no such instance then");
            }
        }
        if value * 1000 > to {
            return Some("it was set after it was read");
        }
        *newest = value.max(*newest);
        self.latest = self.latest.max(value.saturating_sub(from / 1000));
        let until = match gone {
            Some((last, after)) if last == value => after,
            _ => journal.late.get(&value).copied().unwrap_or(value + STANDS),
        };
        if from < (until + 1) * 1000 {
            self.oldest = self.oldest.max((from / 1000).saturating_sub(value));
            return None;
        }
        if from > (life.reaped + 1) * 1000 {
            after_end.insert(from);
        }
        let complaint = format!("it had been set again: {logged:?} at {from}");
        let (program, newest) = (logged.program, newest_here);
        self.stale.push(Stale { program, life: number, newest, complaint });
        None
    }

    /// Returns the complaints, and the number of lives of which values were logged.
    pub(super) fn finish(mut self) -> (Vec<String>, u64) {
        self.judge_pending(u64::MAX);
        for Stale { program, life, newest, complaint } in std::mem::take(&mut self.stale) {
            if newest != self.known[program][life].newest {
                self.complain(complaint);
            }
        }
        let mut seen = 0;
        let known = std::mem::take(&mut self.known);
        for Known { life, after_end, seen: records, .. } in known.iter().flatten() {
            seen += u64::from(*records > 0);
            if after_end.len() > 1 {
                let records = after_end.len();
                let file = &life.shape.file;
                self.complain(format!("{records} records have {file} after its end: {life:?}"));
            }
        }
        (self.complaints, seen)
    }
}

#[cfg(test)]
mod tests {
    use pcp_archive::ValueType;

    use super::super::shape::{PROGRAMS, Shape};
    use super::*;

    /// The program of the tests; it lives from second 10 to second 20.
    const PROGRAM: u64 = 9;
    const SECOND: u64 = 1_000_000;

    fn shape(program: u64) -> Shape {
        Shape { now: ValueType::U64, ..Shape::of(1, program, 0) }
    }

    /// Returns the complaints if these are the values of `now`: the time of reading, and the
    /// value.
    fn complaints(journal: &str, values: &[(u64, u64)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("journal");
        std::fs::write(&file, journal).unwrap();
        let runs = [Run { ended: 100 * SECOND, log: String::new(), is_cut: false }];
        let lives = (0..PROGRAMS).map(|program: u64| {
            let born = if program == PROGRAM { 10 * SECOND } else { 0 };
            vec![Life::new(shape(program), born, 20 * SECOND, file.clone())]
        });
        let mut verdict = Verdict::new(&runs, lives.collect());
        for (at, value) in values {
            let logged = |program: u64, metric: &str, instance: Option<&str>, value: u64| Logged {
                program: program as usize,
                metric: metric.to_owned(),
                instance: instance.map(str::to_owned),
                value_type: ValueType::U64,
                value,
            };
            let mut values = vec![logged(PROGRAM, "now", None, *value)];
            for program in 0..STEADY {
                let shape = shape(program);
                let set = *at.min(&(20 * SECOND));
                values.push(logged(program, "now", None, set));
                let more = shape.more.iter().map(|number| format!("more{number}"));
                values.extend(more.map(|metric| logged(program, &metric, None, set)));
                let by = shape.by.iter();
                values.extend(by.map(|name| logged(program, "by", Some(name), set)));
            }
            verdict.take(Entry::Sample { timestamp: at * 1000, values });
        }
        let all = verdict.finish().0.into_iter();
        all.filter(|line| line.contains("program: 9") || line.contains("have p09")).collect()
    }

    #[track_caller]
    fn assert_wrong(complaints: &[String], expected: &str) {
        assert!(complaints.iter().any(|line| line.contains(expected)), "{complaints:?}");
    }

    const NOON: u64 = 15 * SECOND;

    #[test]
    fn a_value_that_stood_when_it_was_read_is_true() {
        let values = [(NOON, NOON - STANDS), (NOON + 1, NOON), (NOON + 10, NOON + 9)];
        assert!(complaints("", &values).is_empty());
    }

    #[test]
    fn value_set_again_is_false_unless_in_the_journal() {
        let values = [(NOON, NOON - 2 * STANDS), (NOON + 1, NOON)];
        assert_wrong(&complaints("", &values), "it had been set again");
        let late = format!("late {} {}\n", NOON - 2 * STANDS, NOON);
        assert!(complaints(&late, &values).is_empty());
    }

    #[test]
    fn a_value_of_the_time_after_its_record_is_false() {
        let values = [(NOON, NOON + 2), (NOON + 1, NOON + 1)];
        assert_wrong(&complaints("", &values), "set after it was read");
    }

    #[test]
    fn last_value_of_a_dead_program_is_logged_once() {
        let (last, end) = (20 * SECOND - 10, 20 * SECOND);
        let once = [(last, last), (end + SECOND, last)];
        assert!(complaints("", &once).is_empty());
        let twice = [once[0], once[1], (end + 2 * SECOND, last)];
        assert_wrong(&complaints("", &twice), "2 records have p09 after its end");
        assert_wrong(&complaints("", &[(NOON, 5 * SECOND)]), "no program ran then");
    }

    #[test]
    fn a_zero_is_true_only_before_the_first_update() {
        let unset = format!("new now {}\nset now {}\n", NOON, NOON + 20);
        assert!(complaints(&unset, &[(NOON + 10, 0), (NOON + 30, NOON + 30)]).is_empty());
        let values = [(NOON + 30, 0), (NOON + 40, NOON + 40)];
        assert_wrong(&complaints(&unset, &values), "nothing was 0 then");
    }
}
