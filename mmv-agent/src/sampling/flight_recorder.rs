//! The sampler's part of the flight recorder: a group with a schedule and a queue of its own.
//!
//! Input: the values at each tick of its interval. Output: samples for the [flight recorder's
//! thread](crate::flight_recorder). Samples that it drops or misses are no loss of the archives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pcp_types::Timestamp;

use super::group_state::GroupState;
use super::schedule::Timer;
use crate::config::{FlightRecorderSettings, Group, LogMode, Settings};
use crate::flight_recorder::RecorderLink;
use crate::loading::partition::{GroupId, GroupShape};
use crate::loading::recorder_plan::RecorderPlan;
use crate::loading::update::RetiredObjects;
use crate::logging::{ChangedValues, LastKnownValues, Offer, Sample};
use crate::metadata::{Catalog, RecordShape};
use crate::source::Values;
use crate::telemetry::{Events, FlightRecorderStatus};

#[derive(Debug)]
pub(crate) struct FlightRecorder {
    link: RecorderLink,
    /// `None` if it is off.
    settings: Option<FlightRecorderSettings>,
    group: GroupState,
    catalog: Arc<Catalog>,
    /// Set if a mark belongs before the next sample.
    mark: bool,
    /// Times of the first and the last sample.
    span: Option<(Timestamp, Timestamp)>,
    missed: u64,
    dropped: u64,
}

impl FlightRecorder {
    /// Creates a flight recorder without metrics.
    pub(super) fn new(link: RecorderLink, settings: &Settings) -> Self {
        let config = Group {
            name: "flight recorder".to_owned(),
            metrics: Vec::new(),
            instances: Vec::new(),
            interval: None,
            log: LogMode::Every,
        };
        // The driver has its timer.
        let timer = Timer::new(Duration::ZERO);
        let version = settings.fixed.archive_version;
        let mut recorder = Self {
            link,
            settings: None,
            group: GroupState::new(GroupId::Default, config, timer, version),
            catalog: Arc::default(),
            mark: false,
            span: None,
            missed: 0,
            dropped: 0,
        };
        recorder.change(settings.reloadable.flight_recorder.clone());
        recorder
    }

    /// Returns the interval of its samples; `None` if it is off.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.settings.as_ref().map(|settings| settings.interval)
    }

    /// Applies settings. The metrics change with the next plan.
    pub(super) fn change(&mut self, settings: Option<FlightRecorderSettings>) {
        if let Some(changed) = settings.as_ref().filter(|_| settings != self.settings) {
            self.link.change(changed.clone());
        }
        self.settings = settings;
    }

    /// Sets what is sampled from now on, of this many sources.
    pub(super) fn set_plan(
        &mut self,
        plan: Option<RecorderPlan>,
        sources: usize,
        retired: &mut RetiredObjects,
    ) {
        let (every, catalog) = plan.map(|plan| (plan.shape, plan.catalog)).unwrap_or_default();
        let share = GroupShape { every, on_change: RecordShape::default() };
        self.group.set_share(share, sources, retired);
        retired.push(std::mem::replace(&mut self.catalog, catalog));
    }

    /// Returns true if it records values of source number `source`.
    pub(super) fn needs(&self, source: usize) -> bool {
        self.group.needs(source)
    }

    /// Adds the sources with values of the same metrics.
    pub(super) fn add_joined(&self, sources: &mut BTreeSet<usize>) {
        self.group.add_joined(sources);
    }

    /// Notes that the record needs another shape, since other values of these sources are present
    /// or strings have other lengths.
    pub(super) fn reshape(&mut self, sources: &[usize]) {
        if sources.iter().any(|source| self.needs(*source)) {
            self.group.drop_recorder();
        }
    }

    pub(super) fn note_gap(&mut self) {
        self.mark = true;
    }

    /// Counts skipped ticks.
    pub(super) fn note_missed(&mut self, ticks: u64) {
        self.missed += ticks;
    }

    /// Hands over a sample of the sources' values.
    pub(super) fn take(&mut self, timestamp: Timestamp, values: &[Option<&Values>]) {
        let Self { link, group, .. } = self;
        let template = group.template();
        link.queue.collect(|used| template == Some(used));
        let Some((record, _)) = group.record(timestamp, values, &mut link.queue) else { return };
        let offer = link.queue.offer(Sample {
            timestamp,
            catalog: Arc::clone(&self.catalog),
            records: vec![record],
            changes: ChangedValues::default(),
            last_known: LastKnownValues::default(),
            events: Events::default(),
            mark: self.mark,
            unobserved: false,
        });
        self.mark = offer == Offer::Full;
        match offer {
            Offer::Taken => self.span.get_or_insert((timestamp, timestamp)).1 = timestamp,
            Offer::Full => self.dropped += 1,
            // The agent is about to end.
            Offer::Gone => {}
        }
    }

    /// Returns its status; `None` if it is off.
    pub(super) fn status(&self) -> Option<FlightRecorderStatus> {
        let settings = self.settings.as_ref()?;
        let written = self.link.shared.archive_status();
        let kept = self.link.shared.kept();
        let span = self.span.map(|(first, last)| {
            let oldest = kept.oldest.and_then(|oldest| Timestamp::new(oldest, 0).ok());
            last.seconds_since(oldest.unwrap_or(first))
        });
        Some(FlightRecorderStatus {
            directory: self.link.directory.display().to_string(),
            interval: settings.interval.as_secs_f64(),
            values: self.group.status().values,
            samples: written.written,
            span: span.unwrap_or_default(),
            bytes: kept.bytes,
            limit: settings.memory as u64,
            missed: self.missed,
            dropped: self.dropped,
            lost: written.lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::unbounded;

    use super::*;
    use crate::config::Destination;
    use crate::loading::recorder_plan::tests::{catalog, shape};
    use crate::logging::{QueueReceiver, WriterMessage, queue};
    use crate::telemetry::SharedStatus;

    /// A flight recorder whose queue has room for two samples.
    fn recorder() -> (FlightRecorder, QueueReceiver) {
        let (queue, jobs) = queue(0);
        let (sender, _) = unbounded();
        let shared = Arc::<SharedStatus>::default();
        let link = RecorderLink { queue, settings: sender, shared, directory: "/r".into() };
        let destination = Destination::Directory("/a".into());
        let mut settings = Settings::new("/m".into(), destination, Duration::from_secs(1));
        let memory = 0;
        settings.reloadable.flight_recorder =
            Some(FlightRecorderSettings { memory, ..FlightRecorderSettings::default() });
        let mut recorder = FlightRecorder::new(link, &settings);
        let plan = RecorderPlan::new(&[], shape(1), &catalog(&["mmv.a"]));
        recorder.set_plan(Some(plan), 1, &mut RetiredObjects::default());
        (recorder, jobs)
    }

    #[test]
    fn samples_beyond_the_queue_are_dropped_and_marked() {
        let (mut recorder, jobs) = recorder();
        let values = Values::of_words(&[7]);
        let mut take = |second| {
            recorder.take(Timestamp::new(second, 0).unwrap(), &[Some(&values)]);
            recorder.status().unwrap().dropped
        };
        assert_eq!([1, 2, 3, 4].map(&mut take), [0, 0, 1, 2]);
        let next = || match jobs.waiting() {
            Some(WriterMessage::Write(sample)) => sample,
            job => panic!("{job:?}"),
        };
        for second in [1, 2] {
            let sample = next();
            assert_eq!((sample.timestamp.seconds(), sample.mark), (second, false));
            jobs.done(sample);
        }
        assert_eq!([5, 6].map(&mut take), [2, 2]);
        let marks = [next(), next()].map(|sample| (sample.timestamp.seconds(), sample.mark));
        assert_eq!(marks, [(5, true), (6, false)]);
    }
}
