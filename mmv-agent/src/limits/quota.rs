//! A limit on something that users share.

/// Limits on an amount: for each user, and for all users together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota {
    pub each: u64,
    pub all: u64,
}

/// The amount that a user may add within a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headroom {
    pub left: u64,
    /// The limit that is reached first.
    pub limit: u64,
    /// True if `limit` is the user's own, false if it is that of all users.
    pub is_own: bool,
}

impl Quota {
    /// Returns what a user with `own` of the amount may add, where all users have `total`.
    pub(crate) fn headroom(self, own: u64, total: u64) -> Headroom {
        let left = self.all.saturating_sub(total);
        let own_left = self.each.saturating_sub(own);
        if own_left < left || self.each < self.all && own_left == left {
            return Headroom { left: own_left, limit: self.each, is_own: true };
        }
        Headroom { left, limit: self.all, is_own: false }
    }

    /// Returns the amount that each user may keep: users who have less keep all of it, and
    /// the others share what remains equally.
    pub(crate) fn fair_level(self, amounts: &(impl Iterator<Item = u64> + Clone)) -> u64 {
        let mut fits = 0;
        let mut highest = self.all.min(self.each);
        while fits < highest {
            let level = fits + (highest - fits).div_ceil(2);
            let kept: u64 = amounts.clone().map(|amount| amount.min(level)).sum();
            if kept <= self.all {
                fits = level;
            } else {
                highest = level - 1;
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_limited_by_the_user_or_by_all() {
        let quota = Quota { each: 5, all: 8 };
        let own = |left| Headroom { left, limit: 5, is_own: true };
        let shared = |left| Headroom { left, limit: 8, is_own: false };
        assert_eq!(quota.headroom(3, 3), own(2));
        assert_eq!(quota.headroom(5, 8), own(0));
        assert_eq!(quota.headroom(3, 6), own(2));
        assert_eq!(quota.headroom(3, 7), shared(1));
        assert_eq!(quota.headroom(3, 9), shared(0));
    }

    #[test]
    fn small_amounts_are_kept_and_others_cut_to_one_level() {
        for (amounts, all, level) in [
            (&[3, 100, 50][..], 43, 20),
            (&[3, 100, 50], 153, 153),
            (&[3, 100, 50], 1_000, 1_000),
            (&[7; 100], 99, 0),
            (&[7; 100], 250, 2),
            (&[], 10, 10),
        ] {
            let quota = Quota { each: u64::MAX, all };
            assert_eq!(quota.fair_level(&amounts.iter().copied()), level, "{amounts:?} {all}");
            assert_eq!(Quota { each: 2, all }.fair_level(&amounts.iter().copied()), level.min(2));
        }
    }
}
