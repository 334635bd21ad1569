//! Batches of a window on several threads.
//!
//! A batch does not depend on others, so several are computed at the same time. One
//! thread assigns them and takes the results of the others in order:
//!
//! ```text
//! moments  | batch 1 | batch 2 | batch 3 | batch 4 | ..
//!          thread a  thread b  thread a  thread b
//! taken        1         2         3         4
//! ```
//!
//! After damage, or if a batch would have to be so long that its result is large, the
//! rest of the window is computed on one thread.

use std::ops::Range;

use super::{FIRST, MomentReader};
use crate::Error;
use crate::analysis::replay::seek::{SeekState, Span};
use crate::analysis::replay::{Replay, Window};
use crate::files::parallel;

/// About how many values the result of a part has.
const ANSWERS: usize = 1 << 16;

/// The least number of batches for each thread, so that they end together.
const BATCHES_PER_THREAD: usize = 4;

/// The result of a batch.
enum Outcome<T> {
    Made {
        made: T,
        values: usize,
        is_searched: bool,
    },
    /// The whole archive has to be read for it.
    Whole,
}

impl<'a> Window<'a> {
    /// Processes all remaining batches on all processors. `work` computes a result from a
    /// replay and some consecutive moments in it, `take` receives the results in the order
    /// of the moments. The values are those of [`next_batch`](Self::next_batch), but
    /// batches may begin and end at other moments.
    ///
    /// # Errors
    ///
    /// As [`next_batch`](Self::next_batch), and those of `work` and `take`. All
    /// batches before the one that failed have been taken.
    pub fn for_each<T: Send, E: From<Error> + Send>(
        &mut self,
        work: impl Fn(&Replay<'a>, Span) -> Result<T, E> + Sync,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = self.replay().tracks.iter().map(|track| track.columns.len()).sum::<usize>();
        let part = (ANSWERS / columns.max(1)).max(1) as i128;
        if !self.is_whole() && self.left.end - self.left.start > 2 * FIRST {
            self.in_parallel(parallel::threads(), part, &work, &mut take)?;
        }
        loop {
            let start = self.left.start;
            let Some(_) = self.next_batch()? else { return Ok(()) };
            let mut batch = start..self.left.start;
            while !batch.is_empty() {
                let end = batch.end.min(batch.start.saturating_add(part));
                take(work(self.replay(), self.moments.span(batch.start..end))?)?;
                batch.start = end;
            }
        }
    }

    /// Processes batches of at most `most` moments on several threads, as far as that is
    /// possible.
    fn in_parallel<T: Send, E: From<Error> + Send>(
        &mut self,
        threads: usize,
        most: i128,
        work: &(impl Fn(&Replay<'a>, Span) -> Result<T, E> + Sync),
        take: &mut impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let share = (self.left.end - self.left.start) / (threads * BATCHES_PER_THREAD) as i128;
        self.batch = self.batch.min(share.max(FIRST)).min(most);
        let moments = &self.moments;
        let left = &mut self.left;
        let batch = &mut self.batch;
        let readings = (0..threads).map(|_| None);
        parallel::in_order(
            readings,
            |reading, batch: Range<i128>| (batch.end, moments.answer(batch, reading, work)),
            |jobs| {
                let mut handed_out = left.start;
                loop {
                    while jobs.len() < 2 * threads && handed_out < left.end && *batch <= most {
                        let end = left.end.min(handed_out + *batch);
                        jobs.push(handed_out..end);
                        handed_out = end;
                    }
                    let Some((end, outcome)) = jobs.pop() else { return Ok(()) };
                    let Outcome::Made { made, values, is_searched } = outcome? else {
                        return Ok(());
                    };
                    take(made)?;
                    *batch = match values {
                        _ if is_searched => batch.saturating_mul(2),
                        values if values < self.most / 2 && *batch < share => most.min(*batch * 2),
                        values if values > self.most => (*batch / 2).max(1),
                        _ => *batch,
                    };
                    left.start = end;
                }
            },
        )
    }
}

impl<'a> MomentReader<'a> {
    fn answer<T, E: From<Error>>(
        &self,
        batch: Range<i128>,
        reading: &mut Option<SeekState<'a>>,
        work: &impl Fn(&Replay<'a>, Span) -> Result<T, E>,
    ) -> Result<Outcome<T>, E> {
        let reading = match reading {
            Some(reading) => reading,
            None => reading.insert(SeekState::new(&self.selection)?),
        };
        let Some(read) = self.read(batch.clone(), reading)? else { return Ok(Outcome::Whole) };
        let made = work(&read.replay, self.span(batch))?;
        Ok(Outcome::Made { made, values: read.values, is_searched: read.is_searched })
    }
}
