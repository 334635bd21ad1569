//! Values that each process makes for itself: a forked child makes its own at their first use.
//!
//! No lock is taken to read one, so that a child finds none locked by a thread that it does not
//! have. What the parent made stays in memory: to drop it could take such a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between the process that loaded the module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Begins the generation of a forked child.
pub(crate) fn begin() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A value of each process in the line of forks that ends in this one.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    first: OnceLock<Box<Node<T>>>,
}

#[derive(Debug)]
struct Node<T> {
    generation: u32,
    value: T,
    next: OnceLock<Box<Node<T>>>,
}

impl<T> PerProcess<T> {
    pub(crate) fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// Returns the value of this process, if it has one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        let generation = GENERATION.load(Ordering::Relaxed);
        let mut node = self.first.get()?;
        while node.generation != generation {
            node = node.next.get()?;
        }
        Some(&node.value)
    }

    /// Returns the value of this process, which `make` makes from that of the last process before it
    /// that had one.
    #[inline]
    pub(crate) fn get_or_init(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(make),
        }
    }

    #[cold]
    fn init(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        let generation = GENERATION.load(Ordering::Relaxed);
        let mut place = &self.first;
        let mut inherited = None;
        while let Some(node) = place.get()
            && node.generation != generation
        {
            inherited = Some(&node.value);
            place = &node.next;
        }
        let node = place.get_or_init(|| {
            Box::new(Node { generation, value: make(inherited), next: OnceLock::new() })
        });
        &node.value
    }
}
