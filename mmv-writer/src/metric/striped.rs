//! Counts that many threads change all the time.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Number;
use crate::mapping::Cell;

/// A count that only grows, spread over the instances of a metric: each thread
/// claims a stripe of its own, on a cache line of its own, and adds to it
/// without an atomic read-modify-write. Readers add up the instances.
///
/// The last stripe is shared: threads that find all others claimed add to it
/// atomically, so there is always one to claim, and no count is lost.
#[derive(Debug)]
#[must_use]
pub struct Striped<T = u64> {
    stripes: Arc<Stripes>,
    number: PhantomData<T>,
}

#[derive(Debug)]
struct Stripes {
    own: Vec<Cell>,
    shared: Cell,
    /// Indexes of `own` that no thread has claimed.
    free: Mutex<Vec<usize>>,
}

impl Stripes {
    fn new(own: Vec<Cell>, shared: Cell) -> Arc<Self> {
        // The lowest index is claimed first.
        let free = Mutex::new((0..own.len()).rev().collect());
        Arc::new(Self { own, shared, free })
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Number> Striped<T> {
    /// Makes a count that no reader sees.
    pub fn noop() -> Self {
        Self::new(Vec::new(), Cell::private())
    }

    pub(crate) fn new(own: Vec<Cell>, shared: Cell) -> Self {
        Self { stripes: Stripes::new(own, shared), number: PhantomData }
    }

    /// Claims a stripe for this thread, until it is dropped. Takes a lock: claim once.
    pub fn claim(&self) -> Stripe<T> {
        let stripes = Arc::clone(&self.stripes);
        let claimed = stripes.free().pop();
        let own = claimed.and_then(|index| stripes.own.get(index));
        let cell = own.unwrap_or(&stripes.shared).clone();
        Stripe { stripes, claimed, cell, number: PhantomData }
    }

    /// Returns the current sum of all stripes.
    pub fn value(&self) -> T {
        let own = self.stripes.own.iter().map(|cell| T::from_cell(cell.load()));
        own.fold(T::from_cell(self.stripes.shared.load()), T::plus)
    }
}

impl<T> Clone for Striped<T> {
    fn clone(&self) -> Self {
        Self { stripes: Arc::clone(&self.stripes), number: PhantomData }
    }
}

/// A claimed stripe of a [`Striped`] count. Dropping it releases the stripe and keeps what it has
/// counted.
#[derive(Debug)]
#[must_use]
pub struct Stripe<T = u64> {
    stripes: Arc<Stripes>,
    /// Index of the unshared stripe; `None` for the shared one.
    claimed: Option<usize>,
    cell: Cell,
    number: PhantomData<T>,
}

impl<T: Number> Stripe<T> {
    /// Adds `delta`, which should not be negative: readers take a decrease for a restart.
    #[inline]
    pub fn add(&mut self, delta: T) {
        if self.claimed.is_some() {
            self.cell.store(T::from_cell(self.cell.load()).plus(delta).to_cell());
        } else {
            T::add_to(&self.cell, delta);
        }
    }

    /// Adds one to the count.
    #[inline]
    pub fn inc(&mut self) {
        self.add(T::ONE);
    }
}

impl<T> Drop for Stripe<T> {
    fn drop(&mut self) {
        // The next claim locks as well, and so sees what was stored here.
        self.stripes.free().extend(self.claimed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_with_more_threads_than_stripes() {
        let cells: Vec<Cell> = (0..2).map(|_| Cell::private()).collect();
        let count = Striped::<u64>::new(cells, Cell::private());
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let mut stripe = count.claim();
                        (0..1_000).for_each(|_| stripe.inc());
                    }
                });
            }
        });
        assert_eq!(count.value(), 500_000);
    }

    #[test]
    fn a_stripe_given_back_goes_on_where_it_was() {
        let count = Striped::<u32>::new(vec![Cell::private()], Cell::private());
        count.claim().add(1);
        let mut own = count.claim();
        let mut shared = count.claim();
        own.inc();
        shared.add(40);
        assert_eq!((own.cell.load(), shared.cell.load()), (2, 40));
        assert_eq!(count.value(), 42);
    }
}
