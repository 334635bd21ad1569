//! Counts that many threads change all the time, spread over the instances of a metric.
//!
//! Each thread that adds to a striped counter has a number, which no other running thread has,
//! and with it the stripe of that index in all striped counters: it is alone on a cache line and
//! needs no atomic read-modify-write. Threads whose number exceeds the stripes of a counter share
//! one more, so that no count is lost. A number is used again when its thread has ended.

use std::cell::Cell as ThreadCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Number;
use crate::mapping::{Cell, LineStrip, Word};

/// Threads whose bit is set have the number of that bit. 64 is the width of the word; threads
/// beyond that share the last stripe, as those beyond a counter's stripes do.
static TAKEN_NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The number of a thread that has not asked for one.
const UNKNOWN: usize = usize::MAX;
/// The number of a thread that gets none.
const NONE: usize = usize::MAX - 1;

thread_local! {
    static NUMBER: ThreadCell<usize> = const { ThreadCell::new(UNKNOWN) };
    /// Apart from the number, as what has a destructor is slower to reach.
    static RELEASE: ReleaseNumber = const { ReleaseNumber };
}

/// Releases the number of a thread at its end.
struct ReleaseNumber;

impl Drop for ReleaseNumber {
    fn drop(&mut self) {
        // Other destructors of the thread may count after this.
        let number = NUMBER.replace(NONE);
        if number < u64::BITS as usize {
            // With release order: the next thread of the number sees what this one stored.
            TAKEN_NUMBERS.fetch_and(!(1 << number), Ordering::Release);
        }
    }
}

/// Returns the number of this thread, if it has asked for one.
#[inline]
fn known_number() -> usize {
    // Never fails, as there is no destructor; `get` would keep the path that panics.
    NUMBER.try_with(ThreadCell::get).unwrap_or(NONE)
}

/// Takes the lowest number that is free.
fn take_number() {
    // The first access registers the destructor.
    let taken = RELEASE.try_with(|_| {
        let with_lowest = |taken: u64| taken.checked_add(1).map(|next| taken | next);
        TAKEN_NUMBERS.fetch_update(Ordering::Acquire, Ordering::Relaxed, with_lowest)
    });
    let number = match taken {
        Ok(Ok(before)) => before.trailing_ones() as usize,
        // All are taken, or the thread is ending.
        Ok(Err(_)) | Err(_) => NONE,
    };
    NUMBER.set(number);
}

/// The cells of a striped counter.
#[derive(Debug, Clone)]
pub(crate) struct Stripes {
    own: LineStrip,
    /// The stripe of all threads that have none of their own.
    shared: Cell,
}

impl Stripes {
    pub(crate) fn new(own: LineStrip, shared: Cell) -> Self {
        Self { own, shared }
    }

    /// Adds to the stripe of this thread.
    #[inline]
    pub(super) fn add<T: Number>(&self, delta: T) {
        // Neither `UNKNOWN` nor `NONE` is an index.
        match self.own.get(known_number()) {
            Some(own) => add_alone(own, delta),
            None => self.add_late(delta),
        }
    }

    /// Adds for a thread that has no stripe of its own here, or no number yet.
    #[inline(never)]
    fn add_late<T: Number>(&self, delta: T) {
        if known_number() == UNKNOWN {
            take_number();
        }
        match self.own.get(known_number()) {
            Some(own) => add_alone(own, delta),
            None => T::add_to(&self.shared, delta),
        }
    }

    pub(super) fn value<T: Number>(&self) -> T {
        let own = self.own.iter().map(|word| T::from_cell(word.load()));
        own.fold(T::from_cell(self.shared.load()), T::plus)
    }
}

/// Adds to a cell that no other thread stores to.
#[inline]
fn add_alone<T: Number>(own: Word<'_>, delta: T) {
    own.store(T::from_cell(own.load()).plus(delta).to_cell());
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;
    use crate::Counter;
    use crate::mapping::{LINE, Segment};

    fn stripes(count: usize) -> Stripes {
        let segment = Arc::new(Segment::private(count * LINE / size_of::<u64>()));
        let strip = segment.strip(0, LINE, count).unwrap();
        Stripes::new(LineStrip::new(strip, count).unwrap(), Cell::private())
    }

    #[test]
    fn no_count_is_lost_with_more_threads_than_stripes() {
        let count = Counter::<u64>::striped(stripes(2));
        std::thread::scope(|scope| {
            for _ in 0..5 {
                // Threads that end and begin take numbers over.
                scope.spawn(|| {
                    for _ in 0..100 {
                        let count = count.clone();
                        let thread = std::thread::spawn(move || {
                            (0..1_000).for_each(|_| count.inc());
                        });
                        thread.join().unwrap();
                    }
                });
            }
        });
        assert_eq!(count.value(), 500_000);
    }

    #[test]
    fn running_threads_have_own_numbers_until_none_are_left() {
        const THREADS: usize = 70;
        let barrier = Barrier::new(THREADS);
        let mut numbers: Vec<usize> = std::thread::scope(|scope| {
            let number = || {
                take_number();
                barrier.wait();
                known_number()
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(number)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        numbers.retain(|number| *number != NONE);
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count, "{numbers:?}");
        // Other tests have some of the numbers at this moment.
        assert!((40..=64).contains(&count), "{count}");
    }

    #[test]
    fn what_counts_at_the_end_of_a_thread_is_counted() {
        struct CountOnDrop(Counter);
        impl Drop for CountOnDrop {
            fn drop(&mut self) {
                self.0.inc();
            }
        }
        thread_local! {
            static LAST: ThreadCell<Option<CountOnDrop>> = const { ThreadCell::new(None) };
        }
        let count = Counter::striped(stripes(64));
        let counted = count.clone();
        std::thread::spawn(move || {
            // Its destructor is registered first, so it runs last.
            LAST.set(Some(CountOnDrop(counted.clone())));
            counted.inc();
        })
        .join()
        .unwrap();
        assert_eq!(count.value(), 2);
    }
}
