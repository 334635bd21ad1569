//! Sends batches, and reacts to the verdict on each request.
//!
//! | verdict | reaction |
//! |---|---|
//! | stored | counted; the next request |
//! | stored in part | the same; refused samples are counted and reported |
//! | not now | the same bytes are sent again after a delay |
//! | too old, but possibly stored before | the newest samples are sent once more: if they are accepted, the request was stored |
//! | too old | the host is held, or with `--drop-too-old` the request is halved as below |
//! | refused | the request is halved; samples that are refused alone are dropped, counted and reported |
//! | no receiver | the command fails |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashSet;

use super::backoff::Backoff;
use super::batch::{cut, encode};
use super::client::Client;
use super::queue::HostQueue;
use super::series::{Point, SeriesTable};
use super::verdict::{Verdict, verdict};
use super::{DeliveryCounts, Protocol};
use crate::text::warn;

/// Samples of a batch, which is extended to the end of a record.
pub(crate) const BATCH: usize = 10_000;
/// Samples of a request, which is cut between two series.
const MAX_REQUEST: usize = 2 * BATCH;
/// Dropped samples of a request that are printed one by one.
const MAX_PRINTED: u64 = 5;
/// Minimum time between two messages about the same failure.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// The reason why a batch is not delivered. Samples of it that were delivered are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryFailure {
    /// The process was asked to stop.
    Stopped,
    /// The receiver did not answer, or asked to retry, for too long.
    GaveUp(String),
    /// The receiver refuses samples as old as these.
    Held(String),
    /// The URL is not that of a receiver.
    NoReceiver(String),
}

/// The options and the client for sending batches.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) protocol: Protocol,
    pub(crate) drops_too_old: bool,
    /// The time after which a request is given up; `None` for never.
    pub(crate) retry_for: Option<Duration>,
    /// Set by signals to stop the process.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The delivery of one request, possibly in parts.
struct Delivery<'d> {
    sender: &'d Sender,
    table: &'d SeriesTable,
    host: &'d str,
    /// All samples of the request.
    points: &'d [Point],
    counts: DeliveryCounts,
    /// The number of dropped samples that were printed.
    printed: u64,
}

/// The reason why samples are dropped.
#[derive(Clone, Copy)]
enum Drop {
    Refused,
    TooOld,
}

impl Sender {
    /// Delivers the batch of a host, continuing an earlier attempt of this process.
    pub(crate) fn deliver(&self, queue: &mut HostQueue) -> Result<(), DeliveryFailure> {
        while queue.delivered < queue.batch.points.len() {
            let rest = queue.batch.points.get(queue.delivered..).unwrap_or_default();
            let length = match cut(rest, MAX_REQUEST, self.protocol, &queue.table) {
                Some(length) if rest.len() > MAX_REQUEST => length,
                _ => rest.len(),
            };
            let points = rest.get(..length).unwrap_or(rest);
            let table = &queue.table;
            let host = queue.name.as_str();
            let mut delivery = Delivery {
                sender: self,
                table,
                host,
                points,
                counts: DeliveryCounts::default(),
                printed: 0,
            };
            let result = delivery.deliver(points, queue.is_repeated);
            let counts = delivery.finish();
            queue.counts_mut().add(&counts);
            result.inspect_err(|_| queue.is_repeated = true)?;
            queue.delivered += length;
        }
        Ok(())
    }

    /// Waits, and returns whether the process was asked to stop.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        true
    }
}

impl Delivery<'_> {
    /// Delivers samples in one request, or in parts where the receiver refuses some.
    fn deliver(
        &mut self,
        points: &[Point],
        mut may_be_stored: bool,
    ) -> Result<(), DeliveryFailure> {
        match self.answer(points, &mut may_be_stored)? {
            Verdict::Stored => {
                self.counts.sent += points.len() as u64;
                self.counts.requests += 1;
                Ok(())
            }
            #[cfg(feature = "otlp")]
            Verdict::StoredInPart { refused, why } => {
                self.counts.sent += points.len() as u64 - refused;
                self.counts.refused += refused;
                self.counts.requests += 1;
                self.printed += refused;
                let host = self.host;
                warn(&format_args!("{host}: the receiver refused {refused} points: {why}"));
                Ok(())
            }
            Verdict::TooOld(_) | Verdict::TooOldForAll(_)
                if may_be_stored && self.has_newest(points)? =>
            {
                self.counts.repeated += points.len() as u64;
                Ok(())
            }
            Verdict::TooOld(why) | Verdict::TooOldForAll(why) if !self.sender.drops_too_old => {
                Err(DeliveryFailure::Held(why))
            }
            Verdict::TooOldForAll(why) if self.is_all_too_old(points)? => {
                self.drop(points, Drop::TooOld, &why);
                Ok(())
            }
            Verdict::TooOld(why) | Verdict::TooOldForAll(why) => {
                self.halve(points, may_be_stored, Drop::TooOld, &why)
            }
            Verdict::Refused(why) => self.halve(points, may_be_stored, Drop::Refused, &why),
            Verdict::NoReceiver(why) => Err(DeliveryFailure::NoReceiver(why)),
            Verdict::NotNow { why, .. } => Err(DeliveryFailure::GaveUp(why)),
        }
    }

    /// Sends a request until the answer is other than "not now".
    fn answer(
        &self,
        points: &[Point],
        may_be_stored: &mut bool,
    ) -> Result<Verdict, DeliveryFailure> {
        let sender = self.sender;
        let body = encode(points, sender.protocol, self.table);
        let mut backoff = Backoff::default();
        let began = Instant::now();
        let mut said: Option<Instant> = None;
        loop {
            if sender.stop.load(Ordering::Relaxed) {
                return Err(DeliveryFailure::Stopped);
            }
            let answer = sender.client.post(&body);
            let found = verdict(answer, sender.protocol, points.len() as u64);
            let Verdict::NotNow { after, may_be_stored: maybe, why } = found else {
                if said.is_some() {
                    warn(&format_args!("{}: the receiver answers again", self.host));
                }
                return Ok(found);
            };
            *may_be_stored |= maybe;
            if sender.retry_for.is_some_and(|longest| began.elapsed() >= longest) {
                return Err(DeliveryFailure::GaveUp(why));
            }
            let wait = backoff.next(after);
            if said.is_none_or(|at| at.elapsed() >= MESSAGE_INTERVAL) {
                warn(&format_args!("{}: {why}; trying again", self.host));
                said = Some(Instant::now());
            }
            if sender.wait(wait) {
                return Err(DeliveryFailure::Stopped);
            }
        }
    }

    /// Returns whether the receiver accepts the newest sample of each series of the request. It
    /// accepts an exact repetition, so the older samples were stored as well.
    fn has_newest(&self, points: &[Point]) -> Result<bool, DeliveryFailure> {
        let series: HashSet<u32> = points.iter().map(|point| point.series).collect();
        let mut newest: Vec<Point> = Vec::new();
        for point in self.points.iter().filter(|point| series.contains(&point.series)) {
            match newest.last_mut().filter(|last| last.series == point.series) {
                Some(last) => last.clone_from(point),
                None => newest.push(point.clone()),
            }
        }
        Ok(self.answer(&newest, &mut false)? == Verdict::Stored)
    }

    /// Returns whether the newest of some samples is too old, and therefore all of them.
    fn is_all_too_old(&self, points: &[Point]) -> Result<bool, DeliveryFailure> {
        let newest = points.iter().max_by_key(|point| point.milliseconds);
        let newest: Vec<Point> = newest.into_iter().cloned().collect();
        let answer = self.answer(&newest, &mut false)?;
        Ok(matches!(answer, Verdict::TooOldForAll(_)))
    }

    /// Delivers samples in halves, dropping those that cannot be halved.
    fn halve(
        &mut self,
        points: &[Point],
        may_be_stored: bool,
        drop: Drop,
        why: &str,
    ) -> Result<(), DeliveryFailure> {
        match cut(points, points.len() / 2, self.sender.protocol, self.table) {
            None => {
                self.drop(points, drop, why);
                Ok(())
            }
            Some(middle) => {
                let (first, second) = points.split_at_checked(middle).unwrap_or((points, &[]));
                self.deliver(first, may_be_stored)?;
                self.deliver(second, may_be_stored)
            }
        }
    }

    fn drop(&mut self, points: &[Point], drop: Drop, why: &str) {
        match drop {
            Drop::Refused => self.counts.refused += points.len() as u64,
            Drop::TooOld => self.counts.too_old += points.len() as u64,
        }
        for point in points.iter().take((MAX_PRINTED.saturating_sub(self.printed)) as usize) {
            self.printed += 1;
            if let Some(series) = self.table.get(point.series) {
                let nanos = point.milliseconds.saturating_mul(1_000_000);
                let time = super::queue::shown(nanos);
                warn(&format_args!("{}: dropped {series} of {time}: {why}", self.host));
            }
        }
    }

    /// Reports dropped samples that were not printed, and returns the counts.
    fn finish(self) -> DeliveryCounts {
        let dropped = self.counts.refused + self.counts.too_old;
        if dropped > self.printed {
            let more = dropped - self.printed;
            warn(&format_args!("{}: dropped {more} more samples of this request", self.host));
        }
        self.counts
    }
}
