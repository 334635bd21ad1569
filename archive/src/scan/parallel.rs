//! A span cut into segments that are scanned side by side.
//!
//! The cuts are times of the index, so that each segment is found without
//! reading the ones in front of it. How many there are does not depend on the
//! machine, only how many threads work on them: sums come out the same to the
//! last bit everywhere.

use std::num::NonZero;
use std::ops::{Bound, RangeInclusive};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use pcp_types::Timestamp;

use super::chunk::Limits;
use super::{Columns, Selection};
use crate::error::Result;

/// More would read faster than memory is.
const SEGMENTS: usize = 4;

/// What `work` makes of the columns of each segment of a span, in the order of
/// time. The records of two segments never have the same time.
///
/// The span is one segment if its records cannot be cut with certainty: their
/// times go back, or the index does not say where they are. So it is if `work`
/// fails, so that the first error is that of a scan from front to back; and if
/// volumes are compressed, which are decoded from their start.
///
/// # Errors
///
/// Those of `work`.
pub(crate) fn by_time<'a, T: Send>(
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    by_time_on(threads, selection, span, work)
}

fn by_time_on<'a, T: Send>(
    threads: usize,
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let segments = segments(selection, span);
    if segments.len() > 1
        && let Some(done) = in_segments(threads, selection, &segments, &work)
    {
        return Ok(done);
    }
    Ok(vec![work(&mut Columns::open(selection, span.clone())?)?])
}

type Segment = (Bound<Timestamp>, Bound<Timestamp>);

/// Segments with about as many index entries each.
fn segments(selection: &Selection<'_>, span: &RangeInclusive<Timestamp>) -> Vec<Segment> {
    let source = selection.source();
    let is_cut = |time: &Timestamp| !source.is_compressed() && span.contains(time);
    let mut times: Vec<_> = source.index_times().filter(is_cut).collect();
    // Those of the archives of a set follow each other.
    times.dedup();
    let mut cuts: Vec<_> = (1..SEGMENTS)
        .filter_map(|n| times.get(n * times.len() / SEGMENTS))
        .filter(|cut| *cut > span.start())
        .copied()
        .collect();
    cuts.dedup();
    let starts = std::iter::once(*span.start()).chain(cuts.iter().copied()).map(Bound::Included);
    let ends = cuts.iter().copied().map(Bound::Excluded).chain([Bound::Included(*span.end())]);
    starts.zip(ends).collect()
}

/// `None` if a segment failed, or if the segments do not follow each other.
fn in_segments<'a, T: Send>(
    threads: usize,
    selection: &Selection<'a>,
    segments: &[Segment],
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let left = Mutex::new(segments.iter().copied().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || -> Result<Vec<(usize, Limits, T)>> {
        let mut done = Vec::new();
        let mut last: Option<Columns<'a>> = None;
        while let Some((place, segment)) = next() {
            let mut columns = match last {
                Some(last) => last.reopen(selection, segment)?,
                None => Columns::open(selection, segment)?,
            };
            let made = work(&mut columns)?;
            done.push((place, columns.limits(), made));
            last = Some(columns);
        }
        Ok(done)
    };
    let joined: Vec<Result<Vec<_>>> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads.min(segments.len())).map(|_| scope.spawn(worker)).collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let scanned: Vec<Vec<_>> = joined.into_iter().collect::<Result<_>>().ok()?;
    let mut scanned: Vec<_> = scanned.into_iter().flatten().collect();
    scanned.sort_by_key(|(place, ..)| *place);
    let mut pairs = scanned.iter().zip(scanned.iter().skip(1));
    pairs
        .all(|((_, limits, _), (_, next, _))| next.follow(limits))
        .then(|| scanned.into_iter().map(|(.., made)| made).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;
    use crate::scan::tests::{archive, row};

    fn stamps(columns: &mut Columns<'_>) -> Result<Vec<Timestamp>> {
        let mut stamps = Vec::new();
        while let Some(chunk) = columns.next_chunk()? {
            stamps.extend_from_slice(chunk.stamps());
        }
        Ok(stamps)
    }

    #[test]
    fn segments_have_all_rows_once_and_are_the_same_on_any_number_of_threads() {
        let rows: Vec<_> = (0..40).map(|n| row(&[(2, n)], Some(0.5), None)).collect();
        let (_directory, archive) = archive(&rows);
        let mut selection = Selection::new(&archive);
        selection.select("load");
        let whole = archive.label().start..=archive.end();
        let on = |threads| by_time_on(threads, &selection, &whole, stamps).unwrap();
        let segments = on(1);
        assert_eq!(segments.len(), SEGMENTS);
        assert!(segments.iter().all(|segment| segment.len() >= 8), "{segments:?}");
        assert_eq!(segments.concat().len(), 40);
        assert!(segments.concat().is_sorted());
        for threads in [2, 3, 9] {
            assert_eq!(on(threads), segments);
        }
    }

    #[test]
    fn an_error_is_that_of_one_scan() {
        let rows: Vec<_> = (0..40).map(|n| row(&[(2, n)], Some(0.5), None)).collect();
        let (_directory, archive) = archive(&rows);
        let mut selection = Selection::new(&archive);
        selection.select("load");
        let whole = archive.label().start..=archive.end();
        let calls = AtomicUsize::new(0);
        let failed = by_time_on(2, &selection, &whole, |columns| {
            let n = calls.fetch_add(1, Ordering::Relaxed);
            let rows = stamps(columns)?.len();
            Err::<(), _>(Error::NotFound { path: format!("{n}: {rows} rows").into() })
        });
        let error = failed.unwrap_err().to_string();
        assert!(error.contains(": 40 rows"), "{error}");
    }

    #[test]
    fn what_cannot_be_cut_with_certainty_is_one_segment() {
        let rows: Vec<_> = (0..40).map(|n| row(&[(2, n)], Some(0.5), None)).collect();
        let (directory, made) = archive(&rows);
        let mut records = made.records().unwrap();
        let mut offsets = Vec::new();
        while let Some(record) = records.next().unwrap() {
            offsets.push(record.offset() as usize);
        }
        // One record has the time of an earlier one.
        let volume = directory.path().join("a.0");
        let mut bytes = std::fs::read(&volume).unwrap();
        let time = |record: usize| offsets[record] + 4..offsets[record] + 16;
        bytes.copy_within(time(3), offsets[33] + 4);
        std::fs::write(&volume, bytes).unwrap();
        let archive = crate::Archive::open(directory.path().join("a")).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("load");
        let whole = archive.label().start..=archive.end();
        let segments = by_time_on(2, &selection, &whole, stamps).unwrap();
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].len(), 39, "the one that goes back is left out");
    }
}
