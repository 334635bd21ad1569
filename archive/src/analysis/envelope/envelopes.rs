//! Envelopes of an archive for one window after another, as a viewer requests them.

use std::ops::Bound;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::plan::{EnvelopeScope, WindowPlan};
use super::pyramid::Pyramid;
use super::segment::EnvelopeSegment;
use super::{Envelope, GoOn, Grid, Options, WithExtremes, numbers_with_witnesses};
use crate::scan::segments::each_in_time;
use crate::scan::{Columns, RowPlace, Selection};
use crate::{Result, Timestamp};

/// Windows of more bytes, by the index, are answered by the pyramid.
const SMALL: u64 = 64 << 20;
const BUDGET: usize = 48 << 20;
/// Bytes of a segment, unless the archive is too large for [`MAX_SEGMENTS`] of them.
const SEGMENT: u64 = 16 << 20;
/// Fewer segments are read one after the other.
const MIN_SEGMENTS: u64 = 4;
/// The most segments that are read side by side.
const MAX_SEGMENTS: u64 = 1 << 12;
/// The chunks of a segment that is read after the other.
const CHUNKS: usize = 16;

/// The envelopes of an archive, or of several: of small windows from their records, of large
/// ones from a pyramid of all.
///
/// [`extend`](Self::extend) reads the archive once and keeps every metric in columns; later it
/// reads only what the archive has grown by. It may run on a thread of its own:
/// [`envelope`](Self::envelope) never waits for it. Nothing here borrows from an archive, so
/// that it can be opened again when it has grown.
///
/// ```
/// use pcp_archive::Source;
/// use pcp_archive::envelope::{EnvelopeOrigin, Envelopes, Grid, Options};
/// use pcp_archive::scan::Selection;
/// # use pcp_archive::{Archive, ArchiveWriter, Timestamp, Units};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let base = directory.path().join("a");
/// # let mut writer = ArchiveWriter::create(&base)?;
/// # let load_key = writer.gauge::<u64>("acme.load").units(Units::count()).add()?;
/// # for second in 0..1000 {
/// #     let load = if second == 700 { 99 } else { 1 };
/// #     writer.record(Timestamp::new(second, 0)?, |r| r.set(load_key, load))?;
/// # }
/// # writer.finish()?;
/// # let archive = Archive::open(&base)?;
/// let mut selection = Selection::new(&archive);
/// selection.select("acme.load"); // 1 at each second, but 99 at 700 s
/// let source = Source::from(&archive);
///
/// let envelopes = Envelopes::new(Options::default()).max_direct_bytes(0);
/// assert!(envelopes.extend(&selection, &|| true)?);
/// let grid = Grid::new(source.start()..=source.end(), 4);
/// let answer = envelopes.envelope(&selection, &grid, &|| true)?.expect("nothing ended it");
/// assert!(matches!(answer.origin, EnvelopeOrigin::Pyramid { until } if until == source.end()));
/// let cells = answer.envelope.series[0].cells();
/// assert_eq!(cells.map(|(_, cell)| cell.maximum).fold(0.0, f64::max), 99.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Envelopes {
    options: Options,
    max_direct_bytes: u64,
    budget: usize,
    /// About the bytes of records that are one segment of the pyramid.
    segment: u64,
    /// Held by the thread that extends the pyramid.
    extending: Mutex<()>,
    pyramid: RwLock<Option<Pyramid>>,
}

/// An envelope, and how it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// In the columns that were asked for, or in those that the pyramid has.
    pub envelope: Envelope,
    /// The data that the envelope was made from.
    pub origin: EnvelopeOrigin,
}

/// The data that an answer was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeOrigin {
    /// The records of the window.
    Records,
    /// The pyramid. The columns of its grid are as wide as those that were asked for, or less,
    /// but more than half as wide; where the pyramid has no such columns they are its narrowest.
    /// The window is widened to whole columns. The envelope is what [`Envelope::read`] finds in
    /// this grid, but means may differ by 2^-23 of the distance from the minimum to the maximum.
    Pyramid {
        /// The time of the last record in the pyramid. What is later is not known yet.
        until: Timestamp,
    },
}

impl Envelopes {
    /// Creates a cache that has read nothing.
    pub const fn new(options: Options) -> Self {
        Self {
            options,
            max_direct_bytes: SMALL,
            budget: BUDGET,
            segment: SEGMENT,
            extending: Mutex::new(()),
            pyramid: RwLock::new(None),
        }
    }

    /// Sets the size, by the index, up to which windows are answered from records. The default
    /// is 64 MiB.
    #[must_use]
    pub fn max_direct_bytes(self, bytes: u64) -> Self {
        Self { max_direct_bytes: bytes, ..self }
    }

    /// Sets the most memory of the pyramid, in bytes. The default is 48 MiB. It has as many columns
    /// as fit, up to 65 536. If not even 64 do, as with a million instances, there is no
    /// pyramid, and every window is answered from records.
    #[must_use]
    pub fn budget(self, bytes: usize) -> Self {
        Self { budget: bytes, ..self }
    }

    /// Has smaller segments read side by side.
    #[cfg(test)]
    pub(super) fn segment(self, bytes: u64) -> Self {
        Self { segment: bytes, ..self }
    }

    /// Reads what the pyramid lacks of the selected metrics, on all processors. False if
    /// `go_on` ended it, after which another call goes on, or if the pyramid would take too
    /// much memory.
    ///
    /// Of an archive that has grown, opened again, only the new records are read, if the
    /// selection is made in the same way. With another selection the pyramid is built again.
    ///
    /// # Errors
    ///
    /// Those of the [scan](crate::scan::Columns::next_chunk). The pyramid then has all records
    /// before the damaged one.
    pub fn extend(&self, selection: &Selection<'_>, go_on: GoOn<'_>) -> Result<bool> {
        let _alone = self.extending.lock().unwrap_or_else(PoisonError::into_inner);
        let source = selection.source();
        // An answer has those that are asked for.
        let (selection, _) =
            numbers_with_witnesses(&WithExtremes::new(selection).all, self.options.gaps);
        let scope = EnvelopeScope::new(&selection, self.options);
        let Some(rest) = self.prepare(&selection, &scope) else { return Ok(false) };
        let bytes = source.bytes_of(&(rest.timestamp..=source.end()));
        if bytes >= MIN_SEGMENTS * self.segment {
            let same = Bound::Included(rest.timestamp);
            if rest.passed > 0 && !self.in_sequence(&scope, &selection, same, go_on)? {
                return Ok(false);
            }
            let count = (bytes / self.segment).min(MAX_SEGMENTS) as usize;
            if self.side_by_side(&scope, &selection, count, go_on) {
                return Ok(true);
            }
        }
        Ok(go_on() && self.in_sequence(&scope, &selection, Bound::Unbounded, go_on)?)
    }

    /// Makes the pyramid one of a source. Returns [`Pyramid::unread_from`]; `None` if there can be
    /// none.
    fn prepare(&self, selection: &Selection<'_>, scope: &EnvelopeScope) -> Option<RowPlace> {
        let source = selection.source();
        let mut pyramid = self.write();
        if !pyramid.as_mut().is_some_and(|pyramid| pyramid.follow(source, scope.clone())) {
            *pyramid = Pyramid::new(source, scope.clone(), self.budget);
        }
        let pyramid = pyramid.as_ref().filter(|pyramid| !pyramid.has_given_up())?;
        Some(pyramid.unread_from())
    }

    /// Reads segments on all processors; false if not to the end.
    fn side_by_side(
        &self,
        scope: &EnvelopeScope,
        selection: &Selection<'_>,
        count: usize,
        go_on: GoOn<'_>,
    ) -> bool {
        let now =
            self.read().as_ref().map(|pyramid| (pyramid.grid().clone(), pyramid.unread_from()));
        let Some((grid, rest)) = now else { return false };
        let plan = WindowPlan::of_all(scope, &grid);
        let from = rest.timestamp.as_nanos().saturating_add(i128::from(rest.passed > 0));
        let span = Timestamp::from_nanos(from)..=selection.source().end();
        let work = |columns: &mut Columns<'_>| {
            let mut segment = EnvelopeSegment::new(scope.metrics.len());
            segment.fill(&plan, selection, columns, &mut |_| go_on())?;
            Ok(go_on().then_some(segment))
        };
        let mut is_whole = true;
        let take = |segment: Option<EnvelopeSegment>| match segment.filter(|_| is_whole) {
            Some(segment) => {
                is_whole = self.change(|pyramid| pyramid.add(grid.clone(), segment));
            }
            None => is_whole = false,
        };
        each_in_time(selection, &span, count, work, take) && is_whole
    }

    /// Reads one segment after the other; false if not to the end.
    fn in_sequence(
        &self,
        scope: &EnvelopeScope,
        selection: &Selection<'_>,
        last: Bound<Timestamp>,
        go_on: GoOn<'_>,
    ) -> Result<bool> {
        let Some(rest) = self.read().as_ref().map(Pyramid::unread_from) else { return Ok(false) };
        let mut columns = Columns::open_after(selection, rest, last)?;
        loop {
            let now = self.read().as_ref().map(|pyramid| (pyramid.grid().clone(), pyramid.next()));
            let Some((grid, mut segment)) = now else { return Ok(false) };
            let plan = WindowPlan::of_all(scope, &grid);
            let mut chunks = 0;
            let filled = segment.fill(&plan, selection, &mut columns, &mut |_| {
                chunks += 1;
                chunks < CHUNKS && go_on()
            });
            let is_added = self.change(|pyramid| pyramid.add_next(segment));
            filled?;
            if !is_added || !go_on() {
                return Ok(false);
            }
            if chunks < CHUNKS {
                return Ok(true);
            }
        }
    }

    /// Changes the pyramid; false if it has given up.
    fn change(&self, change: impl FnOnce(&mut Pyramid)) -> bool {
        let mut pyramid = self.write();
        let Some(pyramid) = pyramid.as_mut() else { return false };
        change(pyramid);
        !pyramid.has_given_up()
    }

    /// Returns the envelope of a window: from its records if they are few, or if the pyramid
    /// lacks some of the metrics or the newest records; else from the pyramid. `None` if `go_on`,
    /// which is called for every few megabytes and by several threads, ended it.
    ///
    /// # Errors
    ///
    /// As [`Envelope::read`].
    pub fn envelope(
        &self,
        selection: &Selection<'_>,
        grid: &Grid,
        go_on: GoOn<'_>,
    ) -> Result<Option<Answer>> {
        let source = selection.source();
        if source.bytes_of(&grid.window()) > self.max_direct_bytes {
            let coarse = self.coarse(selection, grid).filter(|answer| match answer.origin {
                EnvelopeOrigin::Records => true,
                EnvelopeOrigin::Pyramid { until } => until >= source.end(),
            });
            if coarse.is_some() {
                return Ok(coarse);
            }
        }
        let read = Envelope::read_while(selection, grid.clone(), self.options, go_on)?;
        Ok(read.map(|envelope| Answer { envelope, origin: EnvelopeOrigin::Records }))
    }

    /// Returns the envelope of a window of any size from what the pyramid has read so far, without
    /// reading a record. Returns `None` if it has read nothing, or lacks one of the metrics.
    pub fn coarse(&self, selection: &Selection<'_>, grid: &Grid) -> Option<Answer> {
        let pyramid = self.read();
        let pyramid = pyramid.as_ref()?;
        let until = pyramid.until()?;
        let WithExtremes { all, extremes } = WithExtremes::new(selection);
        let mut envelope = pyramid.envelope(&all, grid, self.options)?;
        extremes.join(&mut envelope.series);
        Some(Answer { envelope, origin: EnvelopeOrigin::Pyramid { until } })
    }

    /// Returns the bytes that the pyramid takes, nearly.
    pub fn bytes(&self) -> usize {
        self.read().as_ref().map_or(0, Pyramid::bytes)
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<Pyramid>> {
        self.pyramid.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Pyramid>> {
        self.pyramid.write().unwrap_or_else(PoisonError::into_inner)
    }
}
