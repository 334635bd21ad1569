//! `mmv-export push --follow`: sends all hosts in turns until a signal.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{PushCommand, report_held};
use crate::Failure;
use crate::open_files;
use crate::push::DeliveryCounts;
use crate::push::own_metrics::{HostState, OwnMetrics};
use crate::push::queue::{FillResult, HostQueue, OpenError, now};
use crate::push::sender::{BATCH, DeliveryFailure, Sender};
use crate::push::state::StateDirectory;
use crate::text::warn;

/// Interval at which to look for new records and to update the own metrics.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which to look for new hosts and to print the counts.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Batches of one host before the next host gets its turn.
const BATCHES_PER_TURN: usize = 16;
/// Time for which a host is held at first.
const MIN_HOLD: Duration = Duration::from_secs(15);
/// Longest time for which a host is held; the time doubles until then.
const MAX_HOLD: Duration = Duration::from_secs(600);
/// Limit on open files, which is also the default limit of the kernel.
const MAX_OPEN_FILES: u64 = 1 << 20;

/// Sends records as they are logged, until a signal.
pub(super) fn run(
    arguments: &PushCommand,
    sender: &Sender,
    state: &StateDirectory,
) -> Result<(), Failure> {
    let own = arguments.own_metrics.as_deref().map(OwnMetrics::publish).transpose();
    let own = own.map_err(Failure::OwnMetrics)?;
    // Each host has several open files.
    open_files::raise_limit(MAX_OPEN_FILES);
    let mut hosts = Hosts { arguments, state, followed: BTreeMap::new(), own, shown: None };
    let result = hosts.follow(sender);
    for host in hosts.followed.values_mut() {
        host.queue.close()?;
    }
    hosts.report(DeliveryCounts::default());
    match result {
        Err(Failure::Stopped) | Ok(()) => Ok(()),
        failure => failure,
    }
}

struct Hosts<'a> {
    arguments: &'a PushCommand,
    state: &'a StateDirectory,
    /// Hosts by name.
    followed: BTreeMap<String, FollowedHost>,
    own: Option<OwnMetrics>,
    /// The last update of the own metrics.
    shown: Option<Instant>,
}

struct FollowedHost {
    queue: HostQueue,
    /// The counts of earlier processes.
    before: DeliveryCounts,
    /// The end of a hold, and its length.
    held: Option<(Instant, Duration)>,
}

impl Hosts<'_> {
    fn follow(&mut self, sender: &Sender) -> Result<(), Failure> {
        let mut looked: Option<Instant> = None;
        let mut reported = DeliveryCounts::default();
        loop {
            if looked.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
                self.add_new_hosts()?;
                reported = if looked.is_some() { self.report(reported) } else { self.counts() };
                looked = Some(Instant::now());
            }
            let mut is_idle = true;
            for host in self.followed.values_mut() {
                is_idle &= host.turn(sender)?;
            }
            self.show();
            if sender.stop.load(Ordering::Relaxed) || (is_idle && sender.wait(POLL_INTERVAL)) {
                return Ok(());
            }
        }
    }

    fn add_new_hosts(&mut self) -> Result<(), Failure> {
        let found = match self.arguments.source.hosts() {
            Ok(found) => found,
            // Hosts may be created later.
            Err(Failure::NoData(_)) => Vec::new(),
            Err(failure) => return Err(failure),
        };
        for host in found {
            if self.followed.contains_key(&host.name) {
                continue;
            }
            match self.arguments.open(&host, self.state) {
                Ok(queue) => {
                    let before = *queue.counts();
                    self.followed.insert(host.name, FollowedHost { queue, before, held: None });
                }
                Err(OpenError::State(error)) => return Err(error.into()),
                Err(OpenError::Archive(error)) => warn(&format_args!("{}: {error}", host.name)),
            }
        }
        Ok(())
    }

    fn counts(&self) -> DeliveryCounts {
        let mut counts = DeliveryCounts::default();
        self.followed.values().for_each(|host| counts.add(host.queue.counts()));
        counts
    }

    /// Prints the counts if they have changed since an earlier report, and returns them.
    fn report(&self, before: DeliveryCounts) -> DeliveryCounts {
        let counts = self.counts();
        if counts != before {
            let hosts = self.followed.values();
            let held = hosts.clone().filter(|host| host.held.is_some()).count();
            let lag = hosts.filter_map(FollowedHost::lag).fold(0.0, f64::max);
            let all = self.followed.len();
            warn(&format_args!("{counts}; {all} hosts, {held} held, {lag:.0} s behind"));
        }
        counts
    }

    /// Updates the own metrics if an update is due. They end at the first error.
    fn show(&mut self) {
        let Some(own) = &self.own else { return };
        if self.shown.is_some_and(|at| at.elapsed() < POLL_INTERVAL) {
            return;
        }
        self.shown = Some(Instant::now());
        let mut hosts = self.followed.iter();
        if let Err(error) = hosts.try_for_each(|(name, host)| own.show(name, &host.state())) {
            warn(&format_args!("cannot publish metrics of this process any more: {error}"));
            self.own = None;
        }
    }
}

impl FollowedHost {
    /// Sends some batches, and returns true if there is nothing more to send now.
    fn turn(&mut self, sender: &Sender) -> Result<bool, Failure> {
        if self.held.is_some_and(|(until, _)| Instant::now() < until) {
            return Ok(true);
        }
        for _ in 0..BATCHES_PER_TURN {
            match self.queue.fill(BATCH)? {
                FillResult::Nothing | FillResult::Future(_) => return Ok(true),
                FillResult::Batch => {}
            }
            match sender.deliver(&mut self.queue) {
                Ok(()) => {
                    if self.held.take().is_some() {
                        warn(&format_args!("{}: no longer held", self.queue.name));
                    }
                    self.queue.done();
                }
                Err(DeliveryFailure::Held(why)) => {
                    let time = self.held.map_or(MIN_HOLD, |(_, last)| (last * 2).min(MAX_HOLD));
                    self.held = Some((Instant::now() + time, time));
                    report_held(&self.queue, &why);
                    return Ok(true);
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(false)
    }

    /// Returns the seconds since the last record that was sent.
    fn lag(&self) -> Option<f64> {
        let since = now().saturating_sub(self.queue.sent_until()?);
        Some(since as f64 / 1e9)
    }

    fn state(&self) -> HostState {
        let counts = self.queue.counts().since(&self.before);
        HostState { counts, sent_until: self.queue.sent_until(), is_held: self.held.is_some() }
    }
}
