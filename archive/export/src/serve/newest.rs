//! The newest value of each series of all hosts, for scrapes.
//!
//! A thread follows the archives and keeps for each series its name and labels as text, and its
//! newest value with its time. Ended series are left out. A discrete metric is logged when it
//! changes, so its value holds at the time of the newest record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pcp_types::printable;

use super::exposition::{Format, series};
use super::stream::{Disconnected, Sink};
use crate::Failure;
use crate::mapping::{Family, FamilyId, Label, Mapping};
use crate::options::SourceOptions;
use crate::samples::{FamilyPart, SampleKind, SampleSeries, SampleSeriesId, Samples};
use crate::shared_values::put;
use crate::text::warn;
use crate::tree::{Host, Overlap};
use crate::walk::{Start, StepKind, Walk};

/// Interval at which to look for new records.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const HOST_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of a piece of an answer, which ends with a family.
const PIECE: usize = 1 << 16;

/// The newest values of all hosts.
#[derive(Debug, Clone, Default)]
pub(super) struct Newest(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    hosts: Vec<HostTable>,
    /// Whether everything that existed at the start was read.
    is_complete: bool,
}

#[derive(Debug, Default)]
struct HostTable {
    /// Families by name.
    families: BTreeMap<String, Members>,
    /// Series by number.
    series: Vec<Option<SeriesEntry>>,
    /// The time of the newest record, in milliseconds since 1970.
    newest: i64,
}

/// A family and the numbers of its series.
#[derive(Debug)]
struct Members {
    family: Family,
    ids: Vec<SampleSeriesId>,
    is_sorted: bool,
}

#[derive(Debug)]
struct SeriesEntry {
    family: FamilyId,
    /// Name and labels in the text format.
    text: String,
    /// The sort key within the family: labels without `le`, then buckets by bound, then the other
    /// parts.
    order: (String, u8, u64),
    is_discrete: bool,
    value: Option<(i64, f64)>,
}

struct FollowedHost {
    host: Host,
    walk: Walk,
    samples: Samples,
    /// Whether overlapping archives were reported.
    is_checked: bool,
}

/// Warns of overlapping archives of a host, which are not merged.
fn warn_of_overlaps(host: &Host) {
    for Overlap { earlier, later } in host.archives.overlaps().unwrap_or_default() {
        let earlier = printable::path(&earlier);
        let later = printable::path(&later);
        warn(&format_args!(
            "{}: {later} begins before {earlier} ends: /metrics has the values of the one that \
             begins last, and answers lack values of the other; put archives of several loggers \
             into directories of their own",
            host.name
        ));
    }
}

impl Newest {
    /// Starts to follow the archives of hosts, for as long as the process lives.
    ///
    /// # Errors
    ///
    /// [`Failure::Output`] if the thread cannot be started.
    pub(super) fn follow(options: SourceOptions) -> Result<Self, Failure> {
        let newest = Self::default();
        let table = newest.clone();
        thread::Builder::new()
            .name("newest".to_owned())
            .spawn(move || table.run(&options))
            .map_err(Failure::Output)?;
        Ok(newest)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, options: &SourceOptions) {
        let mut followed: Vec<FollowedHost> = Vec::new();
        let mut looked: Option<Instant> = None;
        loop {
            if looked.is_none_or(|at| at.elapsed() >= HOST_POLL_INTERVAL) {
                self.add_hosts(options, &mut followed);
                looked = Some(Instant::now());
            }
            for (place, one) in followed.iter_mut().enumerate() {
                self.update(place, one);
            }
            self.table().is_complete = true;
            for one in followed.iter_mut().filter(|one| !one.is_checked) {
                one.is_checked = true;
                warn_of_overlaps(&one.host);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn add_hosts(&self, options: &SourceOptions, followed: &mut Vec<FollowedHost>) {
        let hosts = options.hosts().unwrap_or_else(|failure| {
            warn(&failure);
            Vec::new()
        });
        let selection = options.selection();
        for host in hosts {
            if followed.iter().any(|one| one.host.archives == host.archives) {
                continue;
            }
            match Walk::new(host.archives.clone(), Start::NewestValues) {
                Ok(walk) => {
                    let walk = walk.select(&selection);
                    let samples = Samples::new();
                    followed.push(FollowedHost { host, walk, samples, is_checked: false });
                    self.table().hosts.push(HostTable::default());
                }
                Err(error) => warn(&format_args!("{}: {error}", host.name)),
            }
        }
    }

    /// Reads all new records of a host.
    fn update(&self, place: usize, one: &mut FollowedHost) {
        loop {
            match one.walk.next() {
                Ok(None) => return,
                Ok(Some(step)) => {
                    let mut table = self.table();
                    let Some(host) = table.hosts.get_mut(place) else { return };
                    let converted = one.samples.convert(&step);
                    for id in converted.began {
                        let mapping = step.catalog.mapping();
                        if let Some(series) = converted.series(*id) {
                            host.add(*id, series, mapping);
                        }
                    }
                    for sample in converted.samples {
                        let value = (sample.milliseconds, sample.value);
                        let value = (sample.kind != SampleKind::Stale).then_some(value);
                        if let Some(entry) = host.entry(sample.series) {
                            entry.value = value;
                        }
                    }
                    host.newest = host.newest.max(step.timestamp.div_euclid(1_000_000));
                    if step.kind == StepKind::EndOfArchive {
                        *host = HostTable::default();
                    }
                }
                Err(error) => {
                    warn(&format_args!("{}: {error}", one.host.name));
                    if one.walk.recover().is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Returns whether everything that existed at the start was read.
    pub(super) fn is_complete(&self) -> bool {
        self.table().is_complete
    }

    /// Sends the newest values of all hosts.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] if the client has disconnected.
    pub(super) fn send(&self, format: Format, sink: Sink) -> Result<(), Disconnected> {
        let mut out = String::with_capacity(PIECE + PIECE / 4);
        let mut after: Option<String> = None;
        // The table is not locked while a piece is sent.
        while self.write(format, &mut after, &mut out) {
            sink.send(Bytes::from(std::mem::take(&mut out)))?;
        }
        out.push_str(format.end());
        sink.send(Bytes::from(out))?;
        sink.finish()
    }

    /// Writes the families after the one named `after` until a piece is full, and returns false if
    /// there are no more.
    fn write(&self, format: Format, after: &mut Option<String>, out: &mut String) -> bool {
        let mut table = self.table();
        while let Some(name) = table.next_family(after.as_deref()) {
            table.hosts.iter_mut().for_each(|host| host.sort(&name));
            table.write_family(&name, format, out);
            *after = Some(name);
            if out.len() >= PIECE {
                return true;
            }
        }
        false
    }
}

impl Table {
    /// Returns the name of the family after another one.
    fn next_family(&self, after: Option<&str>) -> Option<String> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next_of_hosts = self.hosts.iter().filter_map(|host| {
            let (name, _) = host.families.range::<str, _>((from, Bound::Unbounded)).next()?;
            Some(name)
        });
        next_of_hosts.min().cloned()
    }

    /// Writes a family of all hosts. If hosts disagree on its type, those that differ from the first
    /// one are left out, since a name can only have one type.
    fn write_family(&self, name: &str, format: Format, out: &mut String) {
        let mut kind = None;
        for host in &self.hosts {
            let Some(Members { family, ids, .. }) = host.families.get(name) else { continue };
            for id in ids {
                let Some(entry) = host.series.get(id.index()).and_then(Option::as_ref) else {
                    continue;
                };
                let Some((at, value)) = entry.value else { continue };
                if kind.is_none() {
                    format.head(family, out);
                    kind = Some(family.kind);
                }
                if kind != Some(family.kind) {
                    break;
                }
                let at = if entry.is_discrete { host.newest } else { at };
                format.sample(&entry.text, value, at, out);
            }
        }
    }
}

impl HostTable {
    fn entry(&mut self, id: SampleSeriesId) -> Option<&mut SeriesEntry> {
        self.series.get_mut(id.index())?.as_mut()
    }

    /// Adds a series, replacing one that had its number.
    fn add(&mut self, id: SampleSeriesId, one: &SampleSeries, mapping: &Mapping) {
        if let Some(before) = self.entry(id).map(|entry| entry.family)
            && let Some(family) = mapping.family(before)
            && let Some(members) = self.families.get_mut(&family.name)
        {
            members.ids.retain(|member| *member != id);
        }
        let Some(family) = mapping.family(one.family) else { return };
        let others: Vec<Label> =
            one.labels.iter().filter(|label| &*label.name != "le").cloned().collect();
        // The bits of doubles that are not negative sort like the doubles.
        let (rank, bound) = match one.part {
            FamilyPart::Bucket(bound) => (0, bound.max(0.0).to_bits()),
            FamilyPart::Value
            | FamilyPart::Sum
            | FamilyPart::CustomBuckets
            | FamilyPart::ExponentialBuckets => (1, 0),
            FamilyPart::Count => (2, 0),
        };
        let entry = SeriesEntry {
            family: one.family,
            text: series(&one.name, &one.labels),
            order: (series("", &others), rank, bound),
            is_discrete: one.is_discrete,
            value: None,
        };
        put(&mut self.series, id.index(), Some(entry));
        let members = self.families.entry(family.name.clone()).or_insert_with(|| Members {
            family: family.clone(),
            ids: Vec::new(),
            is_sorted: true,
        });
        members.ids.push(id);
        members.is_sorted = false;
    }

    /// Sorts the series of a family if there are new ones.
    fn sort(&mut self, name: &str) {
        let Some(members) = self.families.get_mut(name).filter(|members| !members.is_sorted) else {
            return;
        };
        let series = &self.series;
        members.ids.sort_by(|one, other| {
            let [one, other] = [one, other].map(|id| {
                series.get(id.index()).and_then(Option::as_ref).map(|entry| &entry.order)
            });
            one.cmp(&other)
        });
        members.is_sorted = true;
    }
}
