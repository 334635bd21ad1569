//! Pieces of a window on several threads.
//!
//! A piece is read and answered without its neighbours, so several can be at
//! the same time. One thread says which they are and takes what the others
//! made of them, in their order:
//!
//! ```text
//! moments  | piece 1 | piece 2 | piece 3 | piece 4 | ..
//!          thread a  thread b  thread a  thread b
//! taken        1         2         3         4
//! ```
//!
//! Where a piece meets damage, or has to be so long that what it is made into
//! would be large, the rest of the window is answered on one thread.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::super::seek::{Reading, Span};
use super::{FIRST, Moments, Window};
use crate::Error;
use crate::replay::Replay;

/// More threads than this wait for the one that takes.
const MAX_THREADS: usize = 8;

/// What is made of a part is about so many answers.
const ANSWERS: usize = 1 << 16;

/// Each thread has so many pieces at least, so that they end together.
const PIECES_A_THREAD: usize = 4;

/// What became of a piece.
enum Outcome<T> {
    Made {
        made: T,
        values: usize,
        is_searched: bool,
    },
    /// All of the archive has to be read for it.
    Whole,
}

/// A piece to answer, and who waits for it.
struct Job<T, E> {
    piece: Range<i128>,
    done: Sender<Result<Outcome<T>, E>>,
}

impl<'a> Window<'a> {
    /// Answers all pieces that are left, on all processors. `work` makes
    /// something of a replay and a stretch of moments in it, and `take` is given
    /// that in the order of the moments. What they get is the same as from
    /// [`next_piece`](Self::next_piece), but cut at other moments.
    ///
    /// # Errors
    ///
    /// As [`next_piece`](Self::next_piece), and those of `work` and `take`. All
    /// in front of the piece that failed has been taken.
    pub fn for_each<T: Send, E: From<Error> + Send>(
        &mut self,
        work: impl Fn(&Replay<'a>, Span) -> Result<T, E> + Sync,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = self.replay().tracks.iter().map(|track| track.columns.len()).sum::<usize>();
        let part = (ANSWERS / columns.max(1)).max(1) as i128;
        if !self.is_whole() && self.left.end - self.left.start > 2 * FIRST {
            let threads = thread::available_parallelism().map_or(1, NonZero::get);
            self.side_by_side(threads.min(MAX_THREADS), part, &work, &mut take)?;
        }
        loop {
            let start = self.left.start;
            let Some(_) = self.next_piece()? else { return Ok(()) };
            let mut piece = start..self.left.start;
            while !piece.is_empty() {
                let end = piece.end.min(piece.start.saturating_add(part));
                take(work(self.replay(), self.moments.span(piece.start..end))?)?;
                piece.start = end;
            }
        }
    }

    /// Answers pieces as far as they can be on several threads, each of `most`
    /// moments at most.
    fn side_by_side<T: Send, E: From<Error> + Send>(
        &mut self,
        threads: usize,
        most: i128,
        work: &(impl Fn(&Replay<'a>, Span) -> Result<T, E> + Sync),
        take: &mut impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let share = (self.left.end - self.left.start) / (threads * PIECES_A_THREAD) as i128;
        self.piece = self.piece.min(share.max(FIRST)).min(most);
        let (jobs, taken) = mpsc::channel::<Job<T, E>>();
        let (moments, taken) = (&self.moments, Mutex::new(taken));
        let (left, piece) = (&mut self.left, &mut self.piece);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut reading = None;
                    while let Some(Job { piece, done }) = next(&taken) {
                        // Nobody waits if taking has failed.
                        let _ = done.send(moments.answer(piece, &mut reading, work));
                    }
                });
            }
            // Dropped with the last piece: the threads end.
            let jobs = jobs;
            let (mut waiting, mut handed_out) = (VecDeque::new(), left.start);
            loop {
                while waiting.len() < 2 * threads && handed_out < left.end && *piece <= most {
                    let end = left.end.min(handed_out + *piece);
                    let (done, back) = mpsc::channel();
                    waiting.push_back((end, back));
                    // The threads take jobs until they are dropped.
                    let _ = jobs.send(Job { piece: handed_out..end, done });
                    handed_out = end;
                }
                let Some((end, back)): Option<(i128, Receiver<_>)> = waiting.pop_front() else {
                    return Ok(());
                };
                // A thread that panics ends the scope with its panic.
                let Ok(outcome) = back.recv() else { return Ok(()) };
                let Outcome::Made { made, values, is_searched } = outcome? else { return Ok(()) };
                take(made)?;
                *piece = match values {
                    _ if is_searched => piece.saturating_mul(2),
                    values if values < self.most / 2 && *piece < share => most.min(*piece * 2),
                    values if values > self.most => (*piece / 2).max(1),
                    _ => *piece,
                };
                left.start = end;
            }
        })
    }
}

impl<'a> Moments<'a> {
    fn answer<T, E: From<Error>>(
        &self,
        piece: Range<i128>,
        reading: &mut Option<Reading<'a>>,
        work: &impl Fn(&Replay<'a>, Span) -> Result<T, E>,
    ) -> Result<Outcome<T>, E> {
        let reading = match reading {
            Some(reading) => reading,
            None => reading.insert(Reading::new(&self.selection)?),
        };
        let Some(read) = self.read(piece.clone(), reading)? else { return Ok(Outcome::Whole) };
        let made = work(&read.replay, self.span(piece))?;
        Ok(Outcome::Made { made, values: read.values, is_searched: read.is_searched })
    }
}

fn next<T>(taken: &Mutex<Receiver<T>>) -> Option<T> {
    taken.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
