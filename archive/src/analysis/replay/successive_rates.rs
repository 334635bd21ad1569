//! Rates of counters from each record to the next, for readers that have one record at a time.

use hashbrown::HashMap;

use super::Gaps;
use crate::analysis::growth::lifetime::CounterDomains;
use crate::analysis::growth::number::{Number, with_number};
use crate::analysis::growth::strand::{Link, Strand};
use crate::analysis::growth::walls::{MetricWalls, RunState, Walls};
use crate::reader::follow::FollowedRecord;
use crate::scan::programs::{ProgramEvent, events_metric};
use crate::scan::{Column, SelectedMetric};
use crate::{InstanceId, OwnedValue, Pmid, Timestamp, Value, ValueType};

/// Rates of counters from each record that has them to the next.
///
/// The rules are those of [`summary`](crate::summary): no value continues over a mark, or over the
/// end of a program's run, and a counter that is known to have begun at 0 counts from there.
#[derive(Debug)]
pub struct SuccessiveRates {
    gaps: Gaps,
    span: Option<[Timestamp; 2]>,
    /// Walls in the newest record.
    walls: Walls,
    /// Walls of all records, for metrics that come later.
    all_walls: Walls,
    /// Event arrays with boundaries after the newest record, and up to when they were taken.
    later: Vec<(Timestamp, OwnedValue)>,
    metrics: HashMap<Pmid, MetricState>,
}

#[derive(Debug)]
struct MetricState {
    metric: SelectedMetric,
    run: RunState,
    instances: HashMap<Option<InstanceId>, Strand<Last>>,
    domains: CounterDomains,
    /// The version of the metadata that the domains are of.
    metadata_version: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    word: u64,
    at: Timestamp,
}

impl SuccessiveRates {
    /// Begins without records. With [`Gaps::Join`] only marks and resets end a counter's growth.
    pub fn new(gaps: Gaps) -> Self {
        Self {
            gaps,
            span: None,
            walls: Walls::default(),
            all_walls: Walls::default(),
            later: Vec::new(),
            metrics: HashMap::new(),
        }
    }

    /// Takes the next record: its mark, or its events.
    pub fn begin_record(&mut self, followed: &FollowedRecord<'_>) {
        let now = followed.record.timestamp();
        let before = self.span.map(|[_, newest]| newest);
        let oldest = self.span.map_or(now, |[oldest, _]| oldest);
        self.span = Some([oldest, now]);
        self.walls = Walls::default();
        if followed.record.is_mark() {
            self.walls.add_mark(now);
            self.all_walls.add_mark(now);
        }
        if self.gaps == Gaps::Keep {
            for (since, array) in std::mem::take(&mut self.later) {
                self.take_events(array.as_value(), Some(since), before);
            }
            for value in event_arrays(followed) {
                self.take_events(value, None, before);
            }
        }
        if !self.walls.is_empty() {
            for state in self.metrics.values_mut() {
                state.interrupt(&self.walls, now);
            }
        }
    }

    /// Adds those boundaries of an event array that are not after the newest record, and are after
    /// `since`; keeps the array if there are later ones.
    fn take_events(
        &mut self,
        array: Value<'_>,
        since: Option<Timestamp>,
        before: Option<Timestamp>,
    ) {
        let Some([_, now]) = self.span else { return };
        let mut has_later = false;
        for event in ProgramEvent::all(array) {
            let Some(boundary) = event.boundary() else { continue };
            if boundary.at > now {
                has_later = true;
            } else if since.is_none_or(|since| boundary.at > since) {
                self.walls.add_event(&event, &[now], before);
                self.all_walls.add_event(&event, &[now], before);
            }
        }
        if has_later {
            self.later.push((now, array.to_owned()));
        }
    }

    /// Returns whether the counters of a metric were 0 in the record before, if its values in the
    /// newest record do not continue earlier ones; else `None`.
    pub fn interruption(&self, metric: &SelectedMetric) -> Option<bool> {
        let walls = MetricWalls::new(&self.walls, metric, &[], &[], None, RunState::default());
        walls.all.last().map(|wall| wall.zero().is_some())
    }

    /// Takes the values that the newest record has of a counter
    /// ([`SelectedMetric::has_rates`]), and returns the rate of each.
    pub fn rates(
        &mut self,
        metric: &SelectedMetric,
        values: &[(Option<InstanceId>, Value<'_>)],
        followed: &FollowedRecord<'_>,
    ) -> Vec<Option<f64>> {
        let Some([oldest, now]) = self.span else { return vec![None; values.len()] };
        let state = self.metrics.entry(metric.desc.pmid).or_insert_with(|| {
            let mut state = MetricState::new(metric);
            state.interrupt(&self.all_walls, oldest);
            state
        });
        if state.metadata_version != Some(followed.metadata_version) {
            state.domains = CounterDomains::of_metric(metric, followed.metadata, self.gaps);
            state.metadata_version = Some(followed.metadata_version);
        }
        let columns: Vec<Column> = values
            .iter()
            .map(|(instance, value)| {
                let mut column = Column::new(*instance, metric.desc.value_type);
                column.push(0, *value);
                column
            })
            .collect();
        state.add(&columns, now)
    }
}

impl MetricState {
    fn new(metric: &SelectedMetric) -> Self {
        Self {
            metric: metric.clone(),
            run: RunState::default(),
            instances: HashMap::new(),
            domains: CounterDomains::default(),
            metadata_version: None,
        }
    }

    /// Ends the growth of all instances at the walls of a record.
    fn interrupt(&mut self, walls: &Walls, at: Timestamp) {
        let timestamps = [at];
        let walls = MetricWalls::new(walls, &self.metric, &timestamps, &[], None, self.run);
        for wall in &walls.all {
            for strand in self.instances.values_mut() {
                strand.interrupt(wall.at, self.run.resolve(wall.origin));
            }
        }
        self.run.pass(&walls);
    }

    /// Adds the values of a record, a column each, and returns their rates.
    fn add(&mut self, columns: &[Column], at: Timestamp) -> Vec<Option<f64>> {
        let timestamps = [at];
        let presences = self.domains.presences(&self.metric);
        let none = Walls::default();
        let walls =
            MetricWalls::new(&none, &self.metric, &timestamps, columns, presences, self.run);
        let mut rates = Vec::new();
        for column in columns {
            let strand = self.instances.entry(column.instance());
            let strand = strand.or_insert_with(|| Strand::new(self.run.origin(), self.run.wall));
            for birth in walls.births_of(column, || strand.last().map(|last| last.at)) {
                strand.interrupt(birth.at, birth.origin);
            }
            let word = column.words().first().copied();
            rates.push(word.and_then(|word| add_word(strand, Last { word, at }, &self.metric)));
        }
        self.run.pass(&walls);
        rates
    }
}

/// Adds a value of a counter and returns its rate since what it follows.
fn add_word(strand: &mut Strand<Last>, next: Last, metric: &SelectedMetric) -> Option<f64> {
    with_number!(
        metric.desc.value_type,
        N => add_number::<N>(strand, next, metric.rate_time_scale()),
        else None
    )
}

fn add_number<N: Number>(
    strand: &mut Strand<Last>,
    next: Last,
    time_scale: Option<f64>,
) -> Option<f64> {
    let number = N::from_word(next.word);
    if number.is_nan() {
        return None;
    }
    let before = match strand.link() {
        // Of two values at one time the first counts.
        Link::Value(last) if next.at <= last.at => return None,
        Link::Value(last) => Some(last),
        Link::Zero(at) => Some(Last { word: 0, at }),
        Link::Nothing => None,
    };
    strand.add(next);
    let before = before?;
    let growth = N::from_word(before.word).growth_to(number, false)?;
    let seconds = next.at.seconds_since(before.at);
    (seconds > 0.0).then_some(growth * time_scale? / seconds)
}

fn event_arrays<'f>(followed: &FollowedRecord<'f>) -> Vec<Value<'f>> {
    let desc = followed.metadata.metric(events_metric()).map(|metric| metric.desc);
    let value_type = desc.map_or(ValueType::Event, |desc| desc.value_type);
    let mut arrays = Vec::new();
    for set in followed.record.value_sets().filter(|set| set.pmid() == events_metric()) {
        arrays.extend(set.values(value_type).flatten().map(|(_, value)| value));
    }
    arrays
}

#[cfg(test)]
mod tests {
    use test_archives::{Builder, at};

    use super::*;
    use crate::follow::Follower;
    use crate::format::event::{EventArrayBuilder, EventFlags};
    use crate::scan::programs::items;

    /// Returns the rates of a counter with 10, 12, 15 and 19 at 0, 1, 2 and 3 s. A new run was
    /// noticed at a time, which is logged at 2 s.
    fn rates_with_restart(noticed: f64) -> Vec<Option<f64>> {
        let parameter = |item| Pmid::new(70, 0, item).unwrap();
        let mut array = EventArrayBuilder::new();
        array.record(at(noticed), EventFlags::POINT).unwrap();
        for (item, text) in [(items::KIND, "restarted"), (items::FILE, "shop")] {
            array.parameter(parameter(item), Value::String(text.as_bytes())).unwrap();
        }
        let OwnedValue::Event(events) = array.finish() else { panic!("an event array") };
        let archive = Builder::new()
            .metric_with(Pmid::from_raw(events_metric().raw()), "mmv.agent.events", "event instant")
            .metric("mmv.shop.orders", "u64 counter count")
            .row(0, [("mmv.shop.orders", 10)])
            .row(1, [("mmv.shop.orders", 12)])
            .row(2, [("mmv.agent.events", events)])
            .row(2, [("mmv.shop.orders", 15)])
            .row(3, [("mmv.shop.orders", 19)])
            .finish();
        let mut follower = Follower::open(archive.base()).unwrap();
        let mut rates = SuccessiveRates::new(Gaps::Keep);
        let mut found = Vec::new();
        while let Some(followed) = follower.next().unwrap() {
            rates.begin_record(&followed);
            let described = followed.metadata.metric_by_name("mmv.shop.orders").unwrap();
            let metric =
                SelectedMetric { name: "mmv.shop.orders".to_owned(), desc: described.desc };
            for set in followed.record.value_sets().filter(|set| set.pmid() == metric.desc.pmid) {
                let values: Vec<_> = set.values(ValueType::U64).map(Result::unwrap).collect();
                found.extend(rates.rates(&metric, &values, &followed));
            }
        }
        found
    }

    #[test]
    fn rate_after_boundary_that_is_known_too_late_is_unknown() {
        let known = |noticed| rates_with_restart(noticed)[1..].to_vec();
        assert_eq!(known(1.5), [Some(2.0), Some(30.0), Some(4.0)], "since it was noticed");
        assert_eq!(known(2.0), [Some(2.0), Some(15.0), Some(4.0)], "since the record before");
        // The rate at 1 s was already returned, and how many of the 15 came after it is unknown.
        assert_eq!(known(0.5), [Some(2.0), None, Some(4.0)]);
    }
}
