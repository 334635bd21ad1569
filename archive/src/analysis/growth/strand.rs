//! The order of the values of one instance in a span of time.

use hashbrown::HashMap;

use super::walls::{CounterOrigin, RunState};
use crate::{InstanceId, Timestamp};

/// The first and the last of some values, and what is known before each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strand<T> {
    first: Option<T>,
    last: Option<T>,
    /// The last value does not continue.
    is_parted: bool,
    /// Origin of the first value, if the span of time before may say more.
    first_origin: CounterOrigin,
    /// Origin of the next value, if it continues no other.
    origin: CounterOrigin,
    /// The first wall, if it precedes all values.
    wall: Option<Timestamp>,
    /// The time at which the instance was created, if that precedes the span of time and no wall is
    /// between it and the first value. The span before may have values after it.
    birth: Option<Timestamp>,
}

/// The predecessor of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Link<T> {
    Value(T),
    /// A counter was 0 at a time.
    Zero(Timestamp),
    /// Nothing that is known in this span of time.
    Nothing,
}

impl<T: Copy> Strand<T> {
    /// Begins without values. `wall` is the first one since the span of time began.
    pub(crate) const fn new(origin: CounterOrigin, wall: Option<Timestamp>) -> Self {
        let first = None;
        let last = None;
        let first_origin = CounterOrigin::Unknown;
        Self { first, last, is_parted: true, first_origin, origin, wall, birth: None }
    }

    pub(crate) const fn set_birth(&mut self, birth: Option<Timestamp>) {
        self.birth = birth;
    }

    pub(crate) const fn first(&self) -> Option<T> {
        self.first
    }

    pub(crate) const fn last(&self) -> Option<T> {
        self.last
    }

    #[inline]
    pub(crate) fn open_end(&self) -> Option<T> {
        self.last.filter(|_| !self.is_parted)
    }

    /// Replaces the last value, which the next one continues.
    #[inline]
    pub(crate) const fn move_end(&mut self, last: T) {
        self.last = Some(last);
    }

    pub(crate) const fn wall(&self) -> Option<Timestamp> {
        self.wall
    }

    /// Returns the origin of the first value, if the span of time before may say more.
    pub(crate) const fn first_origin(&self) -> CounterOrigin {
        self.first_origin
    }

    /// Returns what the next value follows.
    #[inline]
    pub(crate) const fn link(&self) -> Link<T> {
        match (self.last, self.is_parted, self.origin) {
            (Some(last), false, _) => Link::Value(last),
            (_, _, CounterOrigin::Zero(since)) => Link::Zero(since),
            _ => Link::Nothing,
        }
    }

    #[inline]
    pub(crate) const fn add(&mut self, value: T) {
        if self.first.is_none() {
            self.first = Some(value);
            self.first_origin = match self.origin {
                CounterOrigin::Zero(_) => CounterOrigin::Unknown,
                open => open,
            };
        }
        self.last = Some(value);
        self.is_parted = false;
        self.origin = CounterOrigin::Unknown;
    }

    /// Ends the line at a wall: no later value continues one before it.
    pub(crate) fn interrupt(&mut self, at: Timestamp, origin: CounterOrigin) {
        if self.first.is_none() {
            self.wall = self.wall.or(Some(at));
        }
        self.is_parted = true;
        self.origin = origin;
    }

    pub(crate) fn each(&mut self, change: impl Fn(&mut T)) {
        [&mut self.first, &mut self.last].into_iter().flatten().for_each(change);
    }

    /// Returns the wall in front of the first value, with the origin after it. `last` is the time
    /// of the last value in the span of time before, `before` what that span says of the metric.
    pub(crate) fn leading_wall(
        &self,
        last: Option<Timestamp>,
        before: &RunState,
    ) -> Option<(Timestamp, CounterOrigin)> {
        if let Some(at) = self.wall {
            let origin = if self.first.is_none() { self.origin } else { self.first_origin };
            return Some((at, before.resolve(origin)));
        }
        let birth = self.birth.filter(|birth| before.has_birth(*birth, last))?;
        Some((birth, before.resolve(CounterOrigin::ZeroInMetric)))
    }

    /// Adds the span of time that follows, and returns what its first value follows. Arguments are
    /// those of [`leading_wall`](Self::leading_wall).
    pub(crate) fn join(
        &mut self,
        next: Self,
        last: Option<Timestamp>,
        before: &RunState,
    ) -> Link<T> {
        if let Some((at, origin)) = next.leading_wall(last, before) {
            self.interrupt(at, origin);
        } else if self.first.is_none() {
            self.birth = next.birth;
        }
        let Some(first) = next.first else { return Link::Nothing };
        let link = self.link();
        self.add(first);
        self.last = next.last;
        self.is_parted = next.is_parted;
        self.origin = next.origin;
        link
    }
}

/// The instances of a metric in a span of time.
#[derive(Debug)]
pub(crate) struct InstanceStrands<S> {
    /// In the order of [`Chunk::columns`](crate::scan::Chunk::columns) while one span is read.
    pub(crate) all: Vec<(Option<InstanceId>, S)>,
    pub(crate) run: RunState,
}

impl<S> Default for InstanceStrands<S> {
    fn default() -> Self {
        Self { all: Vec::new(), run: RunState::default() }
    }
}

impl<S> InstanceStrands<S> {
    /// Adds the span of time that follows. `new` makes an instance without values.
    pub(crate) fn join(
        &mut self,
        next: Self,
        new: impl Fn(Option<InstanceId>, &RunState) -> S,
        join: impl Fn(&mut S, S, &RunState),
    ) {
        let mut rest: HashMap<_, _> = next.all.into_iter().collect();
        for (instance, own) in &mut self.all {
            let next = rest.remove(instance).unwrap_or_else(|| new(*instance, &next.run));
            join(own, next, &self.run);
        }
        for (instance, next) in rest {
            let mut own = new(instance, &self.run);
            join(&mut own, next, &self.run);
            self.all.push((instance, own));
        }
        self.run.join(next.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0).unwrap()
    }

    /// Returns a span of time in which a wall precedes a value at a time.
    fn after_wall(origin: CounterOrigin, seconds: i64) -> Strand<i64> {
        let mut strand = Strand::new(CounterOrigin::Earlier, None);
        strand.interrupt(time(seconds), origin);
        strand.add(seconds);
        strand
    }

    #[test]
    fn a_value_follows_the_last_one_unless_there_is_a_wall() {
        let mut strand = Strand::new(CounterOrigin::Earlier, None);
        assert!(matches!(strand.link(), Link::Nothing));
        strand.add(1);
        assert!(matches!(strand.link(), Link::Value(1)));
        assert_eq!((strand.wall(), strand.first_origin()), (None, CounterOrigin::Earlier));
        strand.interrupt(time(2), CounterOrigin::Unknown);
        assert!(matches!(strand.link(), Link::Nothing));
        strand.interrupt(time(2), CounterOrigin::Zero(time(1)));
        assert!(matches!(strand.link(), Link::Zero(since) if since == time(1)));
        strand.add(3);
        assert!(matches!(strand.link(), Link::Value(3)));
    }

    #[test]
    fn what_a_span_leaves_open_is_known_from_the_one_before() {
        let run = RunState::default();
        let mut strand = Strand::new(CounterOrigin::Earlier, None);
        strand.add(1);
        let mut next = Strand::new(CounterOrigin::Earlier, None);
        next.add(5);
        assert!(matches!(strand.join(next, Some(time(1)), &run), Link::Value(1)));
        // Known in the span itself, and counted there.
        assert!(matches!(
            strand.join(after_wall(CounterOrigin::Zero(time(6)), 7), Some(time(5)), &run),
            Link::Nothing
        ));
        assert!(matches!(
            strand.join(after_wall(CounterOrigin::ZeroInRecord, 8), Some(time(7)), &run),
            Link::Nothing
        ));
        assert!(matches!(strand.link(), Link::Value(8)));
        let mut first = Strand::new(CounterOrigin::Zero(time(3)), None);
        assert!(matches!(first.join(next, None, &run), Link::Zero(since) if since == time(3)));
        assert_eq!((first.first(), first.first_origin()), (Some(5), CounterOrigin::Unknown));
    }
}
