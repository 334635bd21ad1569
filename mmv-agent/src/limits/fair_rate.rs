//! A rate limit that users share.
//!
//! Each user may take up to half of the total rate. When others have used up the total, each user
//! still has a small guaranteed rate. Root and the agent are not counted against the total.

use std::time::Duration;

use hashbrown::HashMap;

use super::{NOBODY, ROOT, TokenBucket};

/// Guaranteed rate of a user, as a part of that user's full rate.
const GUARANTEED_PART: f64 = 0.1;
/// Limit on users that are counted separately; further users share one bucket.
const MAX_USERS: usize = 256;

/// A token bucket for each user, and one for all.
#[derive(Debug)]
pub(crate) struct FairRate {
    capacity: f64,
    per_second: f64,
    all: TokenBucket,
    users: HashMap<u32, User>,
}

#[derive(Debug)]
struct User {
    share: TokenBucket,
    guaranteed: TokenBucket,
}

impl FairRate {
    /// Creates a limit of `capacity` tokens at once and `per_second` afterwards for each user, and
    /// twice as much for all users together.
    pub(crate) fn new(capacity: f64, per_second: f64) -> Self {
        let all = TokenBucket::new(2.0 * capacity, 2.0 * per_second);
        Self { capacity, per_second, all, users: HashMap::new() }
    }

    /// Takes a token for a user if there is one; `now` counts from the start.
    pub(crate) fn try_take(&mut self, user: u32, now: Duration) -> bool {
        if self.users.len() >= MAX_USERS && !self.users.contains_key(&user) {
            self.users.retain(|_, known| !known.share.is_full(now));
        }
        let is_known = self.users.contains_key(&user) || self.users.len() < MAX_USERS;
        let user = if is_known { user } else { NOBODY };
        let capacity = self.capacity;
        let per_second = self.per_second;
        let known = self.users.entry(user).or_insert_with(|| User {
            share: TokenBucket::new(capacity, per_second),
            guaranteed: TokenBucket::new(capacity * GUARANTEED_PART, per_second * GUARANTEED_PART),
        });
        if !known.share.try_take(1.0, now) {
            return false;
        }
        let taken =
            user == ROOT || self.all.try_take(1.0, now) || known.guaranteed.try_take(1.0, now);
        if !taken {
            known.share.take(-1.0);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn taken(rate: &mut FairRate, user: u32, tries: usize, now: Duration) -> usize {
        (0..tries).filter(|_| rate.try_take(user, now)).count()
    }

    #[test]
    fn one_user_takes_a_half_and_others_have_theirs() {
        let mut rate = FairRate::new(100.0, 1.0);
        assert_eq!(taken(&mut rate, 1, 1_000, SECOND), 100);
        assert_eq!(taken(&mut rate, 2, 60, SECOND), 60);
        assert_eq!(taken(&mut rate, 1, 1_000, SECOND * 11), 10);
    }

    #[test]
    fn exhausted_total_leaves_guaranteed_rate_and_root() {
        let mut rate = FairRate::new(100.0, 1.0);
        for user in [1, 2] {
            assert_eq!(taken(&mut rate, user, 1_000, SECOND), 100);
        }
        assert_eq!(taken(&mut rate, 3, 1_000, SECOND), 10);
        assert_eq!(taken(&mut rate, ROOT, 1_000, SECOND), 100);
        // Nothing is lost by trying.
        assert_eq!(taken(&mut rate, 3, 1_000, SECOND * 61), 100);
    }

    #[test]
    fn more_users_than_can_be_told_apart_share_what_one_may_take() {
        let mut rate = FairRate::new(10.0, 1.0);
        let taken: usize = (1..2_000).map(|user| taken(&mut rate, user, 10, SECOND)).sum();
        assert!(taken <= 20 + MAX_USERS, "{taken}");
        assert!(rate.users.len() <= MAX_USERS + 1, "{}", rate.users.len());
        assert!(rate.try_take(1, SECOND * 100), "later");
    }
}
