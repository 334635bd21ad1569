//! What the users of a socket may use: connections, requests, bytes.
//!
//! A user is the uid of a client as the kernel tells it.

use std::time::{Duration, Instant};

use crate::limits::{FairRate, Quota, TokenBucket};

/// How many connections of all users are accepted at once, and then in a second.
const ACCEPTED: (f64, f64) = (100.0, 1_000.0);

/// What the users of a socket may use.
#[derive(Debug, Clone)]
pub(crate) struct ClientLimits {
    pub connections: Quota,
    /// Limit on answers that are being sent; further requests wait.
    pub transfers: Quota,
    /// Requests of one user at once, and then in a second; twice as many of all. Further
    /// requests wait.
    pub requests: (f64, f64),
    /// Writes of one user at once, and then in a second, of up to [`AT_ONCE`] bytes; twice as
    /// many of all.
    ///
    /// [`AT_ONCE`]: super::connection::AT_ONCE
    pub writes: (f64, f64),
    /// How long a client may take to read an answer, in addition to [`rate`](Self::rate).
    pub answer_time: Duration,
    /// Bytes that a client must read in a second.
    pub rate: f64,
}

impl ClientLimits {
    /// How long a client may take to read an answer of `size` bytes.
    pub(super) fn time_for(&self, size: u64) -> Duration {
        self.answer_time.saturating_add(Duration::from_secs_f64(size as f64 / self.rate))
    }
}

/// What users have used.
#[derive(Debug)]
pub(super) struct Peers {
    start: Instant,
    accepted: TokenBucket,
    requests: FairRate,
    writes: FairRate,
}

impl Peers {
    /// Nobody has used anything.
    pub(super) fn new(limits: &ClientLimits) -> Self {
        let fair = |(at_once, per_second)| FairRate::new(at_once, per_second);
        Self {
            start: Instant::now(),
            accepted: TokenBucket::new(ACCEPTED.0, ACCEPTED.1),
            requests: fair(limits.requests),
            writes: fair(limits.writes),
        }
    }

    /// Whether another connection may be accepted now.
    pub(super) fn may_accept(&mut self) -> bool {
        self.accepted.has_any(self.start.elapsed())
    }

    /// A connection was accepted.
    pub(super) fn accepted(&mut self) {
        self.accepted.take(1.0);
    }

    /// Whether a request of a user may be answered now.
    pub(super) fn may_ask(&mut self, user: u32) -> bool {
        self.requests.try_take(user, self.start.elapsed())
    }

    /// Whether a user may be written to now.
    pub(super) fn may_write(&mut self, user: u32) -> bool {
        self.writes.try_take(user, self.start.elapsed())
    }
}

/// What becomes of another connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is room.
    Admit,
    /// The connection at this place has to go.
    InPlaceOf(usize),
    Refuse,
}

/// What becomes of another connection of a user, beside those of these users, the oldest
/// first. When all are used, the user with the most gives one up for one who has fewer.
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
            requests: (1_000.0, 1_000.0),
            writes: (10_000.0, 10_000.0),
            answer_time: Duration::from_millis(300),
            rate: 1e8,
        }
    }

    #[test]
    fn one_user_has_some_connections_and_gives_way_when_all_are_used() {
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
