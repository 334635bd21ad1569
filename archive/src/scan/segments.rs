//! A span cut into segments that are scanned side by side.
//!
//! The cuts are times of the index, or the starts of archives with volumes that are decoded from
//! their start, so that each segment is found without reading those before it. How many there are
//! does not depend on the machine, only how many threads work on them: sums come out the same to
//! the last bit everywhere.

use std::iter;
use std::ops::{Bound, RangeInclusive};

use super::chunk::Extent;
use super::{Columns, Selection};
use crate::files::parallel;
use crate::reader::salvage::Loss;
use crate::{Result, Timestamp};

/// Limit on the segments of a span that is read as a whole. More would read faster than memory
/// is.
const SEGMENTS: usize = 4;

/// Calls `work` with the columns of each segment of a span and returns the results in the order
/// of time. The records of two segments never have the same time.
///
/// The span is one segment if its records cannot be cut with certainty: their
/// times go back, or the index does not cover them. So it is if `work`
/// fails, so that the first error is that of a scan from front to back.
///
/// # Errors
///
/// Those of `work`.
pub(crate) fn by_time<'a, T: Send>(
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    by_time_on(parallel::threads(), selection, span, work)
}

/// Calls `work` as [`by_time`], but reads past damage, and also returns what was lost.
///
/// # Errors
///
/// Those of `work`.
pub(crate) fn by_time_past_damage<'a, T: Send>(
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Result<(Vec<T>, Vec<Loss>)> {
    if let Some(done) = side_by_side(parallel::threads(), selection, span, &work) {
        return Ok((done, Vec::new()));
    }
    let mut columns = Columns::open_past_damage(selection, span)?;
    let done = work(&mut columns)?;
    Ok((vec![done], columns.take_lost()))
}

fn by_time_on<'a, T: Send>(
    threads: usize,
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    match side_by_side(threads, selection, span, &work) {
        Some(done) => Ok(done),
        None => Ok(vec![work(&mut Columns::open(selection, span.clone())?)?]),
    }
}

/// Reads the segments of a span in parallel. Returns `None` if the span cannot be cut, a segment
/// failed, or they do not follow each other.
fn side_by_side<'a, T: Send>(
    threads: usize,
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let segments = segments(selection, span, SEGMENTS);
    if segments.len() < 2 {
        return None;
    }
    let mut all = Vec::new();
    each(threads, selection, &segments, work, |made| all.push(made)).then_some(all)
}

type SegmentBounds = (Bound<Timestamp>, Bound<Timestamp>);

/// Segments with about as many index entries each, at most `count`.
fn segments(
    selection: &Selection<'_>,
    span: &RangeInclusive<Timestamp>,
    count: usize,
) -> Vec<SegmentBounds> {
    let source = selection.source();
    let mut times: Vec<Timestamp> = if source.is_seekable() {
        source.index_times().collect()
    } else {
        source.archives().iter().map(|archive| archive.label().start).collect()
    };
    times.retain(|time| span.contains(time));
    // Those of the archives of a set follow each other.
    times.dedup();
    let mut cuts: Vec<_> = (1..count)
        .filter_map(|n| times.get(n * times.len() / count))
        .filter(|cut| *cut > span.start())
        .copied()
        .collect();
    cuts.dedup();
    let starts = iter::once(*span.start()).chain(cuts.iter().copied()).map(Bound::Included);
    let ends = cuts.iter().copied().map(Bound::Excluded).chain([Bound::Included(*span.end())]);
    starts.zip(ends).collect()
}

/// Hands what `work` makes of each of about `count` segments to `take`, in the order of time
/// and while later segments are scanned. False if a segment failed, or if the segments do not
/// follow each other, or if the span cannot be cut: then what was handed out does not count.
pub(crate) fn each_in_time<'a, T: Send>(
    selection: &Selection<'a>,
    span: &RangeInclusive<Timestamp>,
    count: usize,
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
    take: impl FnMut(T),
) -> bool {
    let segments = segments(selection, span, count);
    segments.len() > 1 && each(parallel::threads(), selection, &segments, work, take)
}

fn each<'a, T: Send>(
    threads: usize,
    selection: &Selection<'a>,
    segments: &[SegmentBounds],
    work: impl Fn(&mut Columns<'a>) -> Result<T> + Sync,
    mut take: impl FnMut(T),
) -> bool {
    let scan = |last: &mut Option<Columns<'a>>, segment| -> Result<(Extent, T)> {
        let mut columns = match last.take() {
            Some(last) => last.reopen(selection, segment)?,
            None => Columns::open(selection, segment)?,
        };
        let made = work(&mut columns)?;
        Ok((last.insert(columns).extent(), made))
    };
    let threads = threads.min(segments.len());
    let states = (0..threads).map(|_| None);
    parallel::in_order(states, scan, |jobs| {
        let mut waiting = segments.iter();
        let mut before: Option<Extent> = None;
        loop {
            // One more than there are threads, so that none waits for this one.
            while jobs.len() <= threads
                && let Some(segment) = waiting.next()
            {
                jobs.push(*segment);
            }
            match jobs.pop() {
                Some(Ok((extent, made)))
                    if before.as_ref().is_none_or(|before| extent.follow(before)) =>
                {
                    before = Some(extent);
                    take(made);
                }
                done => return done.is_none(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use test_archives::Builder;

    use super::*;
    use crate::ArchiveSet;
    use crate::error::Error;
    use crate::scan::tests::{archive, row};

    fn timestamps(columns: &mut Columns<'_>) -> Result<Vec<Timestamp>> {
        let mut timestamps = Vec::new();
        while let Some(chunk) = columns.next_chunk()? {
            timestamps.extend_from_slice(chunk.timestamps());
        }
        Ok(timestamps)
    }

    #[test]
    fn segments_have_each_row_once_on_any_threads() {
        let rows: Vec<_> = (0..40).map(|n| row(&[(2, n)], Some(0.5), None)).collect();
        let (_directory, archive) = archive(&rows);
        let mut selection = Selection::new(&archive);
        selection.select("load");
        let whole = archive.label().start..=archive.end();
        let on = |threads| by_time_on(threads, &selection, &whole, timestamps).unwrap();
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
    #[cfg(feature = "compression")]
    fn archives_of_one_stream_each_are_scanned_side_by_side() {
        let directory = tempfile::tempdir().unwrap();
        for day in 0..5 {
            let base = directory.path().join(day.to_string());
            let rows = (0..10).map(|n| (100 * day + n, [("load", day + n)]));
            Builder::in_directory(directory.path(), &day.to_string())
                .metric("load", "i64 instant")
                .rows(rows)
                .finish();
            let volume = base.with_extension("0");
            let mut encoder = flate2::write::GzEncoder::new(
                File::create(base.with_extension("0.gz")).unwrap(),
                flate2::Compression::fast(),
            );
            encoder.write_all(&std::fs::read(&volume).unwrap()).unwrap();
            encoder.finish().unwrap();
            std::fs::remove_file(volume).unwrap();
        }
        let set = ArchiveSet::open([directory.path()]).unwrap();
        let mut selection = Selection::new(&set);
        selection.select("load");
        let start = Timestamp::EPOCH;
        let whole = start..=Timestamp::MAX;
        let segments = by_time_on(2, &selection, &whole, timestamps).unwrap();
        let lengths: Vec<usize> = segments.iter().map(Vec::len).collect();
        // With a mark behind each archive but the last.
        assert_eq!(lengths, [11, 11, 11, 21]);
        assert!(segments.concat().is_sorted());
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
            let rows = timestamps(columns)?.len();
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
        let segments = by_time_on(2, &selection, &whole, timestamps).unwrap();
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].len(), 39, "the one that goes back is left out");
    }
}
