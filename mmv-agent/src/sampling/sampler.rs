//! One tick: all values that are due, a record for each group.
//!
//! Input: the moment of a tick, what is due, and the loader's updates. Output: a sample for the
//! writer thread, one for the flight recorder, and findings about sources. No clock is read here.
//!
//! Invariant: a tick costs what is harvested, however long files take to be loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::Sender;

use super::SamplerReport;
use super::delivery::Delivery;
use super::flight_recorder::FlightRecorder;
use super::groups::{DueGroups, Groups};
use super::harvest::{Harvest, PassTime};
use super::pass_clock::PassClock;
use super::schedule::shortest;
use crate::config::Settings;
use crate::flight_recorder::RecorderLink;
use crate::housekeeping::Task;
use crate::loading::last_values::LastValuesRequest;
use crate::loading::loader::Request;
use crate::loading::partition::GroupId;
use crate::loading::update::{Plan, RetiredObjects, Update};
use crate::loading::{LAST_WAIT, LoaderHandle, Reporter, RequestNumber};
use crate::logging::{QueueSender, Sample};
use crate::metadata::Catalog;
use crate::moment::Moment;
use crate::source::{SourceFinding, Ticket};
use crate::telemetry::{EventKind, FileReport, SharedStatus, Status};

/// Limit on repetitions of a pass over the sources at one tick. Each repetition leaves out the
/// files that disturbed the pass before, unless the machine did.
const MAX_REPEATS: u32 = 4;

/// Interval at which events are counted for the agent's own metrics.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// The sampler's state between ticks.
#[derive(Debug)]
pub(crate) struct Sampler {
    reporter: Reporter,
    harvest: Harvest,
    catalog: Arc<Catalog>,
    pub groups: Groups,
    /// The flight recorder; `None` for an agent without a runtime directory.
    pub flight_recorder: Option<FlightRecorder>,
    pub delivery: Delivery,
    /// Records of each group since the loader was informed, weighted by the compression ratio.
    charged: BTreeMap<GroupId, u64>,
    /// Second, since the start, in which the loader was informed.
    informed: u64,
    loading: LoaderHandle,
    /// Time from midnight to the start; set while the loader has settings without a plan.
    awaited: Option<Duration>,
    /// A plan for other settings; the tick that found it still samples the groups before.
    other: Option<Plan>,
    /// Set if the next tick is the last one.
    ending: bool,
    /// Sources whose last values were read, which the loader does not know yet.
    last: Vec<(Ticket, SourceFinding)>,
    /// Time at which events were last counted.
    counted: Option<Duration>,
    /// Number of events of each kind at that time.
    events: [u64; EventKind::NAMES.len()],
    links: SamplerLinks,
    clock: PassClock,
}

/// The sampler's channels to other threads than the writer and the loader.
#[derive(Debug)]
pub(crate) struct SamplerLinks {
    pub housekeeper: Sender<Task>,
    pub shared: Arc<SharedStatus>,
    /// The flight recorder's thread, if there is one.
    pub recorder: Option<RecorderLink>,
}

impl Sampler {
    /// Creates the sampler of the files that the loader finds.
    pub(crate) fn new(
        settings: &Settings,
        loading: LoaderHandle,
        queue: QueueSender,
        mut links: SamplerLinks,
    ) -> Self {
        let recorder = links.recorder.take();
        Self {
            reporter: Reporter::new(settings.fixed.events),
            harvest: Harvest::default(),
            catalog: Arc::default(),
            groups: Groups::new(settings),
            flight_recorder: recorder.map(|link| FlightRecorder::new(link, settings)),
            delivery: Delivery::new(queue),
            charged: BTreeMap::new(),
            informed: 0,
            loading,
            awaited: None,
            other: None,
            ending: false,
            last: Vec::new(),
            counted: None,
            events: [0; EventKind::NAMES.len()],
            links,
            clock: PassClock::default(),
        }
    }

    /// Limits passes over files by a clock that began at `start`.
    pub(crate) fn start_clock(&mut self, start: Instant) {
        self.clock = PassClock::since(start);
    }

    /// Waits until the existing files were tried, or for a while.
    pub(crate) fn wait_for_first(&self) {
        self.loading.wait_for_first();
    }

    /// Applies settings, now or once the loader [has a plan for them](Self::take_settings); `now`
    /// plus `phase` is the time since midnight.
    pub(crate) fn change(&mut self, settings: &Settings, now: Moment, phase: Duration) {
        self.awaited = Some(phase);
        self.loading.ask(Request::Change(Box::new(settings.clone())));
        if self.loading.is_inline()
            && let Some(update) = self.loading.answer(now, Duration::ZERO)
        {
            self.apply(update, now);
            self.take_other(now);
        }
    }

    pub(crate) fn awaits_settings(&self) -> bool {
        self.awaited.is_some()
    }

    /// Applies other settings between ticks, if the loader has a plan for them.
    pub(crate) fn take_settings(&mut self, now: Moment) {
        if !self.loading.is_inline()
            && let Some(update) = self.loading.begin(now)
        {
            self.apply(update, now);
            self.take_other(now);
        }
    }

    /// Sends the housekeeping thread a task.
    pub(crate) fn assign(&self, task: Task) {
        // Sending fails only while the agent stops.
        let _ = self.links.housekeeper.send(task);
    }

    pub(crate) fn shared(&self) -> &SharedStatus {
        &self.links.shared
    }

    /// Notes that samples of all sources are missing before the next one.
    pub(crate) fn note_gap(&mut self) {
        self.delivery.mark = true;
        self.reporter.report_at_next_tick(EventKind::Gap);
    }

    /// Counts ticks that were skipped.
    pub(crate) fn note_missed(&mut self, ticks: u64) {
        self.delivery.report.missed += ticks;
        self.shared().own().missed.add(ticks);
    }

    /// Notes that the next tick is the last one.
    pub(crate) fn note_end(&mut self) {
        self.ending = true;
    }

    /// Takes a plan with all files that there are.
    pub(crate) fn catch_up(&mut self, now: Moment) {
        if let Some(update) = self.loading.catch_up() {
            self.apply(update, now);
        }
    }

    /// Has the loader finish its work of now, as the last tick needs it.
    pub(crate) fn finish_loading(&mut self) -> RequestNumber {
        self.loading.ask_to_finish()
    }

    pub(crate) fn is_answered(&self, request: RequestNumber) -> bool {
        self.loading.is_answered(request)
    }

    pub(crate) fn files(&self) -> usize {
        self.harvest.len()
    }

    pub(crate) fn status(&self) -> Status {
        let SamplerReport { records, values, dropped, missed } = self.delivery.report;
        Status {
            groups: self.groups.status(),
            records,
            values,
            dropped,
            missed,
            queued: self.delivery.queue.waiting() as u64,
            archive: self.shared().archive_status(),
            kept: self.shared().kept(),
            state_error: self.shared().state_error(),
            last_error: self.shared().last_error(),
            warnings: self.shared().warnings(),
            flight_recorder: self.flight_recorder.as_ref().and_then(FlightRecorder::status),
            ..Status::default()
        }
    }

    /// Lets the loader send the status of files when it has the time.
    pub(crate) fn send_files(&mut self, reply: Sender<FileReport>) {
        self.loading.ask(Request::Files(reply));
    }

    /// Returns everything that can be due.
    pub(crate) fn everything(&self) -> DueGroups {
        DueGroups { groups: self.groups.ids(), flight_recorder: true, last_values: None }
    }

    /// Samples what is due. Returns false if the writer or the loader has ended.
    pub(crate) fn tick(&mut self, now: Moment, due: DueGroups) -> bool {
        self.reporter.begin(now);
        if let Some(update) = self.loading.begin(now) {
            self.apply(update, now);
        }
        let due = self.with_groups_of_last_values(due);
        let (now, due) = self.harvest(now, due);
        self.reporter.events.note_sample_time(now.wall);
        self.report_gaps(now);
        if self.ending {
            self.take_last_events();
        }
        let sample = self.sample(now, &due);
        self.report_last();
        if let Some(request) = due.last_values {
            let files = self.harvest.read_files(&request.files, now);
            self.loading.ask(Request::LastValuesRead(files));
        }
        self.inform(now);
        let goes_on = self.deliver(now, sample);
        self.take_other(now);
        goes_on && !self.loading.has_ended()
    }

    /// Lets an inline loader find changes of the directory, and returns its requests.
    #[cfg(test)]
    pub(crate) fn last_values_requests(&mut self, now: Moment) -> Vec<LastValuesRequest> {
        self.loading.last_values_requests(now)
    }

    #[cfg(test)]
    pub(crate) fn loading(&mut self) -> &mut LoaderHandle {
        &mut self.loading
    }

    /// Applies an update of the loader.
    fn apply(&mut self, Update { plan, news }: Update, now: Moment) {
        self.reporter.events.add(news.events, news.counts);
        self.delivery.unobserved = news.replaced.unwrap_or(self.delivery.unobserved);
        if news.restarted {
            self.delivery.mark = true;
            if let Some(flight_recorder) = &mut self.flight_recorder {
                flight_recorder.note_gap();
            }
        }
        // A plan is complete: only the sources of an earlier one are needed.
        let Some(mut plan) = plan else { return };
        if let Some(before) = self.other.take() {
            plan.follow(before);
        }
        if plan.settings.is_some() {
            self.other = Some(plan);
        } else {
            self.swap(plan, now);
        }
    }

    /// Applies other settings with the plan for them.
    fn take_other(&mut self, now: Moment) {
        let Some(mut plan) = self.other.take() else { return };
        if let Some(settings) = plan.settings.take() {
            let phase = self.awaited.take().unwrap_or_default();
            self.groups.change(&settings, now.monotonic.saturating_add(phase));
            if let Some(flight_recorder) = &mut self.flight_recorder {
                flight_recorder.change(settings.reloadable.flight_recorder.clone());
            }
        }
        self.swap(plan, now);
    }

    /// Installs the sources and shapes of a plan.
    fn swap(&mut self, plan: Plan, now: Moment) {
        let mut retired = RetiredObjects::default();
        let sources = plan.sources.len();
        self.harvest.replace(plan.sources, now, &mut retired);
        self.groups.set_shares(plan.shares, sources, &mut retired);
        if let Some(flight_recorder) = &mut self.flight_recorder {
            flight_recorder.set_plan(plan.recorded, sources, &mut retired);
        }
        retired.push(std::mem::replace(&mut self.catalog, plan.catalog));
        self.loading.ask(Request::Free(retired));
    }

    /// Reads the sources that are needed for what is due. Returns what is due then, and the moment
    /// of the values, which is later if the pass was disturbed and had to be repeated. The last
    /// values of an ended process are logged by all groups with values of the file, together with
    /// their other values, since they are read only once. Sources with new metadata are read again
    /// if the loader has it in time.
    fn harvest(&mut self, mut now: Moment, mut due: DueGroups) -> (Moment, DueGroups) {
        let mut asked = false;
        let mut repeated = 0;
        loop {
            let is_disturbed = self.read(now, &due, repeated < MAX_REPEATS);
            if is_disturbed && let Some(later) = self.clock.moment() {
                repeated += 1;
                self.harvest.keep_final_values(now, later);
                now = later;
                continue;
            }
            let before = due.clone();
            for source in self.harvest.ended(now) {
                due.groups.extend(self.groups.that_need(source));
                due.flight_recorder |= self.recorder_needs(source);
            }
            // Groups that have become due may read more sources that have ended.
            if due != before {
                continue;
            }
            let findings = self.harvest.take_findings();
            let (last, findings): (Vec<_>, Vec<_>) =
                findings.into_iter().partition(|(_, finding)| finding.is_last());
            self.last.extend(last);
            if findings.is_empty() {
                return (now, due);
            }
            let wait = findings.iter().any(|(_, finding)| finding.is_new_metadata()) && !asked;
            self.loading.ask(Request::Found(findings));
            if !wait {
                return (now, due);
            }
            asked = true;
            let interval = shortest(self.groups.timers());
            let answer = if self.ending {
                // A longer wait would cost ticks.
                self.loading.finish(interval.min(LAST_WAIT))
            } else {
                self.loading.answer(now, interval)
            };
            let Some(update) = answer else { return (now, due) };
            self.apply(update, now);
        }
    }

    /// Informs the loader of sources whose last values are in the sample. From now on a plan may
    /// lack them.
    fn report_last(&mut self) {
        if !self.last.is_empty() {
            self.loading.ask(Request::Found(std::mem::take(&mut self.last)));
        }
    }

    /// Informs the loader of files whose samples begin or cease to be missing.
    fn report_gaps(&mut self, now: Moment) {
        let gaps = self.harvest.count_gaps(now);
        if !gaps.is_empty() {
            self.loading.ask(Request::Gaps(gaps));
        }
    }

    /// Takes the events that the loader has after the last tick, such as missing samples.
    fn take_last_events(&mut self) {
        self.reporter.events.end();
        if let Some(Update { news, .. }) = self.loading.finish(LAST_WAIT) {
            self.reporter.events.add(news.events, news.counts);
        }
        self.reporter.report(EventKind::Stopped);
    }

    /// Adds the groups that need the files with last values, if those are requested.
    fn with_groups_of_last_values(&self, mut due: DueGroups) -> DueGroups {
        if let Some(request) = &due.last_values {
            let sources = self.sources_of(request);
            let groups = sources.iter().flat_map(|source| self.groups.that_need(*source));
            due.groups = groups.collect();
            due.flight_recorder = sources.iter().any(|source| self.recorder_needs(*source));
        }
        due
    }

    /// Returns the sources to be read for last values: also those with values of the same metrics,
    /// since all values of a metric in a record are of one time.
    fn sources_of(&self, request: &LastValuesRequest) -> BTreeSet<usize> {
        let mut sources = self.harvest.of_files(&request.files);
        let mut before = 0;
        while sources.len() > before {
            before = sources.len();
            self.groups.add_joined(&mut sources);
            if let Some(flight_recorder) = &self.flight_recorder {
                flight_recorder.add_joined(&mut sources);
            }
        }
        sources
    }

    fn recorder_needs(&self, source: usize) -> bool {
        self.flight_recorder.as_ref().is_some_and(|own| own.needs(source))
    }

    /// Reads the needed sources that were not read at this tick. Returns true if the pass was
    /// disturbed, which is possible only if it `may_repeat`.
    fn read(&mut self, now: Moment, due: &DueGroups, may_repeat: bool) -> bool {
        let chosen = due.last_values.as_ref().map(|request| self.sources_of(request));
        let needed: Vec<bool> = (0..self.harvest.len())
            .map(|source| {
                chosen.as_ref().is_none_or(|chosen| chosen.contains(&source))
                    && ((due.flight_recorder && self.recorder_needs(source))
                        || self.groups.that_need(source).any(|id| due.groups.contains(&id)))
            })
            .collect();
        let recorder = self.flight_recorder.as_ref().and_then(FlightRecorder::interval);
        let interval = shortest(self.groups.timers());
        let interval = recorder.map_or(interval, |recorder| recorder.min(interval));
        let time = PassTime { clock: self.clock, interval, is_final: self.ending, may_repeat };
        let pass = self.harvest.read(now, time, |source| needed.get(source) == Some(&true));
        self.groups.reshape(&pass.reshaped);
        if let Some(flight_recorder) = &mut self.flight_recorder {
            flight_recorder.reshape(&pass.reshaped);
        }
        pass.is_disturbed
    }

    /// Returns the sample of the values just read; `None` if there is nothing to log.
    fn sample(&mut self, now: Moment, due: &DueGroups) -> Option<Sample> {
        let values = self.harvest.values(now);
        if let (Some(flight_recorder), true) = (&mut self.flight_recorder, due.flight_recorder) {
            flight_recorder.take(now.wall, &values);
        }
        let Delivery { queue, report, mark, unobserved, .. } = &mut self.delivery;
        let logged = self.groups.log(now, due, &values, queue);
        if let Some(LastValuesRequest { user, .. }) = due.last_values {
            let bytes = logged.records.iter().map(|record| record.as_bytes().len() as u64);
            self.links.shared.add_charges(BTreeMap::from([(user, bytes.sum())]));
        } else {
            due.groups.iter().for_each(|group| *self.charged.entry(*group).or_default() += 1);
        }
        report.values += logged.values;
        self.links.shared.own().values.add(logged.values);
        let events = self.reporter.events.due();
        let last_known = self.groups.last_known();
        // After a mark all last-known values are logged again.
        let again = *mark && !last_known.is_empty();
        let records = logged.records;
        let changes = logged.changes;
        let nothing = records.is_empty() && changes.after.is_empty() && events.is_empty() && !again;
        (!nothing).then(|| Sample {
            timestamp: now.wall,
            catalog: Arc::clone(&self.catalog),
            records,
            changes,
            last_known,
            events,
            mark: *mark,
            unobserved: *unobserved,
        })
    }

    /// Informs the loader once a second of what was logged, for the users' daily limits.
    fn inform(&mut self, now: Moment) {
        let second = now.monotonic.as_secs();
        if self.loading.is_inline() || self.informed != second {
            self.informed = second;
            self.loading.ask(Request::Logged(std::mem::take(&mut self.charged)));
        }
    }

    /// Hands over a sample, and updates the agent's own metrics. Returns false if the writer has
    /// ended.
    fn deliver(&mut self, now: Moment, sample: Option<Sample>) -> bool {
        let own = self.links.shared.own();
        let goes_on =
            sample.is_none_or(|sample| self.delivery.deliver(sample, &mut self.reporter, &own));
        own.queued.set(self.delivery.queue.waiting() as u64);
        let now = now.monotonic;
        if self.counted.is_none_or(|counted| now >= counted + COUNT_INTERVAL) {
            self.counted = Some(now);
            let counts = self.reporter.events.counts;
            for ((known, count), before) in own.events.iter().zip(counts).zip(self.events) {
                known.add(count - before);
            }
            self.events = counts;
        }
        goes_on
    }
}
