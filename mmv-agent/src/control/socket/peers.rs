//! Limits on the users of a socket: connections, requests, bytes.
//!
//! A user is the uid of a client according to the kernel.

use std::time::{Duration, Instant};

use crate::limits::{FairRate, Quota, TokenBucket};

/// Limit on accepted connections of all users.
const ACCEPTED: RateLimit = RateLimit { at_once: 100.0, per_second: 1_000.0 };

#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    pub at_once: f64,
    pub per_second: f64,
}

/// Limits on the users of a socket.
#[derive(Debug, Clone)]
pub(crate) struct ClientLimits {
    pub connections: Quota,
    /// Limit on answers that are being sent; further requests wait.
    pub transfers: Quota,
    /// Limit on requests of one user. The limit for all users is twice as large. Further requests
    /// wait.
    pub requests: RateLimit,
    /// Limit on writes of up to [`MAX_WRITE`] bytes for one user. The limit for all users is
    /// twice as large.
    ///
    /// [`MAX_WRITE`]: super::connection::MAX_WRITE
    pub writes: RateLimit,
    /// Time for which a client may read an answer, in addition to the time by
    /// [`rate`](Self::rate).
    pub answer_time: Duration,
    /// Minimum bytes that a client must read in a second.
    pub rate: f64,
}

impl ClientLimits {
    /// Returns the time for which a client may read an answer of `size` bytes.
    pub(super) fn time_for(&self, size: u64) -> Duration {
        self.answer_time.saturating_add(Duration::from_secs_f64(size as f64 / self.rate))
    }
}

/// Rate limits with their state.
#[derive(Debug)]
pub(super) struct Peers {
    start: Instant,
    accepted: TokenBucket,
    requests: FairRate,
    writes: FairRate,
}

impl Peers {
    pub(super) fn new(limits: &ClientLimits) -> Self {
        Self {
            start: Instant::now(),
            accepted: TokenBucket::new(ACCEPTED.at_once, ACCEPTED.per_second),
            requests: FairRate::new(limits.requests.at_once, limits.requests.per_second),
            writes: FairRate::new(limits.writes.at_once, limits.writes.per_second),
        }
    }

    /// Returns true if another connection may be accepted now.
    pub(super) fn may_accept(&mut self) -> bool {
        self.accepted.has_any(self.start.elapsed())
    }

    /// Counts an accepted connection.
    pub(super) fn accepted(&mut self) {
        self.accepted.take(1.0);
    }

    /// Returns true if a request of a user may be answered now, and counts it.
    pub(super) fn may_ask(&mut self, user: u32) -> bool {
        self.requests.try_take(user, self.start.elapsed())
    }

    /// Returns true if a user may be written to now, and counts the write.
    pub(super) fn may_write(&mut self, user: u32) -> bool {
        self.writes.try_take(user, self.start.elapsed())
    }
}

/// The decision about another connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admit,
    /// Close the connection at this index for it.
    InPlaceOf(usize),
    Refuse,
}

/// Decides about another connection of a user; `users` has the users of the existing ones, the
/// oldest first. When all connections are used, the user with the most gives one up for a user
/// with fewer.
pub(super) fn admit(user: u32, users: &[u32], limits: &ClientLimits) -> Verdict {
    let count = |user: u32| users.iter().filter(|other| **other == user).count();
    let own = count(user);
    let headroom = limits.connections.headroom(own as u64, users.len() as u64);
    if headroom.left > 0 {
        return Verdict::Admit;
    }
    if headroom.is_own {
        return Verdict::Refuse;
    }
    let most = users.iter().map(|user| count(*user)).max().unwrap_or(0);
    let place = users.iter().position(|user| count(*user) == most);
    place.filter(|_| own < most).map_or(Verdict::Refuse, Verdict::InPlaceOf)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Limits that are reached soon.
    pub(in crate::control) fn small() -> ClientLimits {
        ClientLimits {
            connections: Quota { each: 3, all: 6 },
            transfers: Quota { each: 3, all: 6 },
            requests: RateLimit { at_once: 1_000.0, per_second: 1_000.0 },
            writes: RateLimit { at_once: 10_000.0, per_second: 10_000.0 },
            answer_time: Duration::from_millis(300),
            rate: 1e8,
        }
    }

    #[test]
    fn user_with_most_connections_gives_way_when_all_are_used() {
        let limits = small();
        assert_eq!(admit(1, &[1, 1], &limits), Verdict::Admit);
        assert_eq!(admit(1, &[1, 1, 1], &limits), Verdict::Refuse);
        assert_eq!(admit(2, &[1, 1, 1, 2, 3], &limits), Verdict::Admit);
        assert_eq!(admit(4, &[2, 1, 2, 1, 3, 1], &limits), Verdict::InPlaceOf(1));
        assert_eq!(admit(2, &[2, 1, 2, 1, 1, 3], &limits), Verdict::InPlaceOf(1));
        assert_eq!(admit(2, &[2, 1, 2, 1, 3, 3], &limits), Verdict::Refuse);
        assert_eq!(admit(7, &[1, 2, 3, 4, 5, 6], &limits), Verdict::InPlaceOf(0));
    }

    #[test]
    fn a_large_answer_has_more_time() {
        let limits = ClientLimits { rate: 1e6, ..small() };
        assert_eq!(limits.time_for(0), Duration::from_millis(300));
        assert_eq!(limits.time_for(10_000_000), Duration::from_millis(10_300));
    }
}
