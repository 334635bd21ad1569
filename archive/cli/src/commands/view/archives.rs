//! The archives as they are now.
//!
//! An archive is opened as it is at one moment. The files of one that grows change, new ones
//! appear and old ones are deleted; then all are opened again, and the page is asked to look.
//! Answers that are being made keep what they began with.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pcp_archive::envelope::{Envelopes, GoOn, Options};
use pcp_archive::replay::Gaps;
use pcp_archive::scan::{SelectedMetric, Selection};
use pcp_archive::{Error, Timestamp};
use serde::Serialize;

use crate::page::header::{Header, seconds};
use crate::page::heat::{Histogram, take_histograms};
use crate::page::sides::{Side, Sides};
use crate::time::{Window, Zone};
use crate::{Failure, columns};

const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Ratio of the pause before archives are opened again to the time that opening took.
const PAUSE_FACTOR: u32 = 10;

/// The length of the window that a page shows first.
const OPENING: Duration = Duration::from_secs(86_400);

/// Size of archives from which their charts are kept in memory; smaller ones are read each time.
const MAX_DIRECT_BYTES: u64 = 64 << 20;

/// The archives, and what they had when they were opened last.
#[derive(Debug)]
pub(super) struct Archives {
    zone: Zone,
    pub(super) gaps: Gaps,
    /// Charts of each side, kept in memory once [`extend`](Self::extend) has read a large one.
    pub(super) envelopes: Vec<Envelopes>,
    max_direct_bytes: u64,
    /// The window that a page shows first, if it is not the last day.
    opening: Option<Window>,
    /// The most recently computed movements and their window. Locked during the computation, so that
    /// concurrent requests for the same window share the result.
    pub(super) movements: Mutex<Option<(Window, String)>>,
    /// The start when the program began: offsets in questions count from here.
    origin: Timestamp,
    state: Mutex<State>,
    /// Held by the one who checks the files.
    file_check: Mutex<FileCheck>,
}

#[derive(Debug)]
struct State {
    opened: Arc<OpenedArchives>,
    /// The reason why the archives cannot be opened at present.
    problem: Option<String>,
}

/// The state of the files at the last check, and the time of the next one.
#[derive(Debug)]
struct FileCheck {
    files: Vec<File>,
    next: Instant,
}

/// The properties of a file that show whether it has changed.
#[derive(Debug, PartialEq, Eq)]
struct File {
    path: PathBuf,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

#[derive(Debug)]
pub(super) struct OpenedArchives {
    pub(super) sides: Sides,
    pub(super) histograms: Vec<Vec<Histogram>>,
    pub(super) end: Timestamp,
    /// The header of the page as JSON, whose end is that of [`ViewState`].
    pub(super) header: String,
    /// Rises when the header changes: when there are more metrics or instances.
    generation: u64,
}

/// A header with what only a page that asks needs.
#[derive(Serialize)]
struct LiveHeader<'h> {
    #[serde(flatten)]
    header: &'h Header,
    /// Names of instances: lists that metrics share.
    names: Vec<Vec<String>>,
    /// For each side the list of each metric, by PMID.
    instances: Vec<BTreeMap<u32, usize>>,
    histograms: Vec<HistogramHeader>,
}

#[derive(Serialize)]
struct HistogramHeader {
    side: usize,
    pmid: u32,
    name: String,
    instance: Option<String>,
    units: String,
    help: String,
}

/// The reply to the page's poll for new data.
#[derive(Debug, Serialize)]
pub(super) struct ViewState {
    end: f64,
    generation: u64,
    problem: Option<String>,
}

impl Archives {
    /// # Errors
    ///
    /// Those of reading the metadata.
    pub(super) fn new(sides: Sides, zone: Zone, gaps: Gaps) -> Result<Self, Failure> {
        let origin = sides.start();
        let files = files(&sides);
        let options = Options { rates: true, gaps };
        let envelopes = sides
            .iter()
            .map(|_| Envelopes::new(options).max_direct_bytes(MAX_DIRECT_BYTES))
            .collect();
        let opened = Arc::new(OpenedArchives::new(sides, origin, &zone, None)?);
        let state = Mutex::new(State { opened, problem: None });
        let file_check = Mutex::new(FileCheck { files, next: Instant::now() });
        Ok(Self {
            zone,
            gaps,
            envelopes,
            max_direct_bytes: MAX_DIRECT_BYTES,
            opening: None,
            movements: Mutex::new(None),
            origin,
            state,
            file_check,
        })
    }

    /// Sets the window that a page shows first.
    pub(super) fn opening_with(self, opening: Option<Window>) -> Self {
        Self { opening, ..self }
    }

    /// Returns the window that a page shows first, as `page.js` does.
    pub(super) fn opening(&self) -> Window {
        self.opening.unwrap_or_else(|| {
            let end = self.opened().end;
            let start = end.saturating_sub(OPENING).max(self.origin);
            Window { start, end, origin: start }
        })
    }

    /// Sets the size from which archives get a pyramid.
    #[cfg(test)]
    pub(super) fn max_direct_bytes(self, bytes: u64) -> Self {
        let envelopes = self.envelopes.into_iter().map(|one| one.max_direct_bytes(bytes)).collect();
        Self { envelopes, max_direct_bytes: bytes, ..self }
    }

    /// Reads what the pyramids of large archives lack, unless `go_on` ends it.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub(super) fn extend(&self, go_on: GoOn<'_>) -> Result<(), Error> {
        let opened = self.opened();
        for (side, envelopes) in opened.sides.iter().zip(&self.envelopes) {
            let source = side.source();
            if source.bytes_of(&(source.start()..=source.end())) <= self.max_direct_bytes {
                continue;
            }
            let mut selection = opened.sides.selection(side);
            take_histograms(&mut selection)?;
            selection.retain(SelectedMetric::has_numbers);
            envelopes.extend(&selection, go_on)?;
        }
        Ok(())
    }

    pub(super) fn opened(&self) -> Arc<OpenedArchives> {
        Arc::clone(&lock(&self.state).opened)
    }

    pub(super) fn timestamp(&self, offset: f64) -> Timestamp {
        let nanos = (offset * 1e9).round() as i128;
        Timestamp::from_nanos(self.origin.as_nanos().saturating_add(nanos))
    }

    pub(super) fn offset(&self, at: Timestamp) -> f64 {
        at.nanos_since(self.origin) as f64 / 1e9
    }

    /// Opens the archives again if their files have changed, and not too often.
    pub(super) fn look(&self) -> ViewState {
        // Whoever asks meanwhile gets what there was before.
        if let Ok(mut check) = self.file_check.try_lock()
            && Instant::now() >= check.next
        {
            let begin = Instant::now();
            let before = self.opened();
            let files = files(&before.sides);
            if files != check.files {
                let again = before.sides.reopened().and_then(|sides| {
                    OpenedArchives::new(sides, self.origin, &self.zone, Some(&before))
                });
                let mut state = lock(&self.state);
                match again {
                    Ok(opened) => *state = State { opened: Arc::new(opened), problem: None },
                    Err(failure) => state.problem = Some(failure.to_string()),
                }
                check.files = files;
            }
            let end = Instant::now();
            check.next = end + MIN_CHECK_INTERVAL.max((end - begin) * PAUSE_FACTOR);
        }
        let State { opened, problem } = &*lock(&self.state);
        let end = seconds(opened.end);
        let generation = opened.generation;
        ViewState { end, generation, problem: problem.clone() }
    }
}

impl OpenedArchives {
    fn new(
        sides: Sides,
        origin: Timestamp,
        zone: &Zone,
        before: Option<&Self>,
    ) -> Result<Self, Failure> {
        let mut selections = sides.selections();
        let mut histograms = Vec::new();
        for selection in &mut selections {
            histograms.push(take_histograms(selection)?);
            selection.retain(SelectedMetric::has_numbers);
        }
        let end = sides.end().max(origin);
        let window = Window { start: origin, end, origin };
        let mut header = Header::new(&sides, &selections, window, zone);
        header.end = header.start;
        let (names, instances) = instances(&selections);
        drop(selections);
        let all = listed(&sides, &histograms);
        let live = LiveHeader { header: &header, names, instances, histograms: all };
        let header = serde_json::to_string(&live)
            .map_err(|error| Failure::Output(std::io::Error::other(error)))?;
        let generation =
            before.map_or(0, |before| before.generation + u64::from(before.header != header));
        Ok(Self { sides, histograms, end, header, generation })
    }
}

/// Returns the instances of all metrics: lists of names, and for each side the list of each PMID.
fn instances(selections: &[Selection<'_>]) -> (Vec<Vec<String>>, Vec<BTreeMap<u32, usize>>) {
    let mut lists = Vec::new();
    let places = selections.iter().map(|selection| {
        let metadata = selection.source().metadata();
        let mut known = HashMap::new();
        let mut places = BTreeMap::new();
        for metric in selection.metrics() {
            let Some(indom) = metric.desc.indom else { continue };
            let place = *known.entry(indom).or_insert_with(|| {
                let names = columns::instance_names(metadata, indom);
                let mut names: Vec<String> = names.values().map(ToString::to_string).collect();
                names.sort_unstable();
                lists.push(names);
                lists.len() - 1
            });
            places.insert(metric.desc.pmid.raw(), place);
        }
        places
    });
    let places = places.collect();
    (lists, places)
}

/// Returns the histograms of all sides, one by one.
fn listed(sides: &Sides, histograms: &[Vec<Histogram>]) -> Vec<HistogramHeader> {
    let mut all = Vec::new();
    for (place, (side, histograms)) in sides.iter().zip(histograms).enumerate() {
        for histogram in histograms {
            all.extend(histogram.instances.iter().map(|instance| HistogramHeader {
                side: place,
                pmid: histogram.pmid.raw(),
                name: histogram.name.clone(),
                instance: histogram.instance_name(side, *instance),
                units: histogram.units.clone(),
                help: histogram.help.clone(),
            }));
        }
    }
    all
}

/// Returns the files of all archives, with properties that show whether they have changed.
fn files(sides: &Sides) -> Vec<File> {
    let mut all = Vec::new();
    for path in sides.iter().flat_map(Side::files) {
        // One that is deleted at this moment is missing, and so is a change.
        let Ok(found) = std::fs::metadata(&path) else { continue };
        let modified = (found.mtime(), found.mtime_nsec());
        all.push(File { inode: found.ino(), size: found.size(), modified, path });
    }
    all
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
