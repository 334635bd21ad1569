//! Limits on what the files of each user may use.
//!
//! A sixteenth of each limit is reserved for root and the agent. Of the rest
//!
//! * the files of one user get no more than a share, half of it unless configured;
//! * when all of it is used, the user with the most gives way to one with less than an equal part:
//!   the newest files of that user wait.
//!
//! A user who asks for too much loses only the excess, and costs no other user anything.

use std::collections::BTreeMap;

use super::{Headroom, Quota, ROOT};
use crate::config::{Limits, OwnerLimits};

/// Divisor of each limit for root's reserve.
const RESERVE: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Files,
    Descriptors,
    Values,
    /// Address space of mappings, in bytes.
    Mapped,
    /// Memory of metadata, in bytes.
    Metadata,
}

impl Resource {
    /// All resources in the order of their discriminants.
    pub(crate) const ALL: [Self; 5] =
        [Self::Files, Self::Descriptors, Self::Values, Self::Mapped, Self::Metadata];

    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Descriptors => "file descriptors",
            Self::Values => "values",
            Self::Mapped => "mapped bytes",
            Self::Metadata => "bytes of metadata",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amounts([u64; Resource::ALL.len()]);

impl Amounts {
    pub(crate) const fn of_file(descriptors: u64, values: u64, mapped: u64, metadata: u64) -> Self {
        Self([1, descriptors, values, mapped, metadata])
    }

    pub(crate) const fn get(&self, resource: Resource) -> u64 {
        self.0[resource as usize]
    }

    fn combine(&mut self, other: &Self, by: impl Fn(u64, u64) -> u64) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = by(*own, other);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    by_user: BTreeMap<u32, Amounts>,
}

impl Usage {
    pub(crate) fn add(&mut self, user: u32, amounts: &Amounts) {
        self.by_user.entry(user).or_default().combine(amounts, u64::saturating_add);
    }

    pub(crate) fn remove(&mut self, user: u32, amounts: &Amounts) {
        if let Some(known) = self.by_user.get_mut(&user) {
            known.combine(amounts, u64::saturating_sub);
        }
    }

    pub(crate) fn amount(&self, user: u32, resource: Resource) -> u64 {
        self.by_user.get(&user).map_or(0, |amounts| amounts.get(resource))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Amounts)> + Clone {
        self.by_user.iter().map(|(user, amounts)| (*user, amounts))
    }

    pub(crate) fn total(&self, resource: Resource) -> u64 {
        self.by_user.values().map(|amounts| amounts.get(resource)).sum()
    }
}

/// The configured limits and each user's share of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResourceQuotas {
    limits: Amounts,
    /// Part of each limit that one user gets, in percent.
    share: u64,
    owners: BTreeMap<u32, OwnerLimits>,
}

impl ResourceQuotas {
    pub(crate) fn new(
        limits: &Limits,
        owners: &BTreeMap<u32, OwnerLimits>,
        descriptors: u64,
    ) -> Self {
        let Limits { files, values, metadata_total, mapped, share, .. } = *limits;
        let limits = [files as u64, descriptors, values as u64, mapped, metadata_total];
        Self { limits: Amounts(limits), share: share.into(), owners: owners.clone() }
    }

    /// Returns the part of a limit that is not reserved for root.
    fn common(&self, resource: Resource) -> u64 {
        let limit = self.limits.get(resource);
        limit - limit / RESERVE
    }

    pub(crate) fn limit(&self, user: u32, resource: Resource) -> u64 {
        let configured = self.owners.get(&user).and_then(|own| configured(own, resource));
        if user == ROOT {
            return configured.unwrap_or_else(|| self.limits.get(resource));
        }
        let common = u128::from(self.common(resource));
        // No larger than the limit.
        let share = (common * u128::from(self.share)).div_ceil(100) as u64;
        configured.unwrap_or(share)
    }

    /// Returns the amount of a resource that the files of a user may still use.
    pub(crate) fn headroom(&self, usage: &Usage, user: u32, resource: Resource) -> Headroom {
        let whole = self.limits.get(resource);
        // Root uses up its reserve first.
        let reserve = match user {
            ROOT => 0,
            _ => (whole / RESERVE).saturating_sub(usage.amount(ROOT, resource)),
        };
        let quota = Quota { each: self.limit(user, resource), all: whole - reserve };
        quota.headroom(usage.amount(user, resource), usage.total(resource))
    }

    /// Returns the user whose files give way to a file of another user when a resource is
    /// exhausted; `None` if nobody has more than an equal part, or if the other user would exceed
    /// an equal part.
    pub(crate) fn yielding_user(
        &self,
        usage: &Usage,
        to: u32,
        resource: Resource,
        needed: u64,
    ) -> Option<u32> {
        let mut users = 1;
        let mut largest = None;
        for (user, amounts) in usage.iter().filter(|(user, _)| ![ROOT, to].contains(user)) {
            let amount = amounts.get(resource);
            if amount > 0 {
                users += 1;
            }
            largest = largest.max(Some((amount, user)));
        }
        let equal_part = self.common(resource) / users;
        let (amount, user) = largest?;
        let wanted = usage.amount(to, resource).saturating_add(needed);
        (amount > equal_part && (to == ROOT || wanted <= equal_part)).then_some(user)
    }
}

fn configured(limits: &OwnerLimits, resource: Resource) -> Option<u64> {
    match resource {
        Resource::Files => limits.files,
        Resource::Values => limits.values,
        Resource::Mapped => limits.mapped,
        Resource::Metadata => limits.metadata,
        Resource::Descriptors => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> ResourceQuotas {
        let limits = Limits { files: 160, values: 1_600, share: 50, ..Limits::default() };
        ResourceQuotas::new(&limits, &BTreeMap::new(), 1_000_000)
    }

    fn used(files: &[(u32, u64)]) -> Usage {
        let mut used = Usage::default();
        for &(user, count) in files {
            (0..count).for_each(|_| used.add(user, &Amounts::of_file(1, 10, 0, 0)));
        }
        used
    }

    fn headroom(files: &[(u32, u64)], user: u32) -> (u64, bool) {
        let headroom = shares().headroom(&used(files), user, Resource::Files);
        (headroom.left, headroom.is_own)
    }

    #[test]
    fn one_user_gets_half_and_root_all_that_is_left() {
        assert_eq!(headroom(&[], 1), (75, true));
        assert_eq!(headroom(&[(1, 70)], 1), (5, true));
        assert_eq!(headroom(&[(1, 75)], 1), (0, true));
        assert_eq!(headroom(&[(1, 75)], 2), (75, true));
        assert_eq!(headroom(&[(1, 75), (2, 75)], 3), (0, false));
        assert_eq!(headroom(&[(1, 75), (2, 75)], ROOT), (10, false));
        assert_eq!(headroom(&[(1, 75), (2, 70), (ROOT, 8)], 3), (5, false));
        assert_eq!(headroom(&[(1, 75), (ROOT, 30)], 2), (55, false), "more than the reserve");
    }

    #[test]
    fn a_configured_limit_is_in_the_place_of_the_share() {
        let limits = Limits { files: 160, share: 50, ..Limits::default() };
        let own = |files| OwnerLimits { files: Some(files), ..OwnerLimits::default() };
        let owners = BTreeMap::from([(1, own(3)), (2, own(150))]);
        let shares = ResourceQuotas::new(&limits, &owners, 1_000);
        for (user, left) in [(1, 3), (2, 150), (3, 75)] {
            assert_eq!(shares.headroom(&used(&[]), user, Resource::Files).left, left);
        }
    }

    #[test]
    fn user_with_most_yields_to_one_below_an_equal_part() {
        fn yielding_user(files: &[(u32, u64)], to: u32, needed: u64) -> Option<u32> {
            shares().yielding_user(&used(files), to, Resource::Files, needed)
        }
        let full = [(1, 75), (2, 70), (3, 5)];
        assert_eq!(yielding_user(&full, 4, 1), Some(1));
        assert_eq!(yielding_user(&full, 4, 37), Some(1));
        assert_eq!(yielding_user(&full, 4, 38), None, "more than an equal share");
        assert_eq!(yielding_user(&full, 2, 1), None);
        assert_eq!(yielding_user(&full, 3, 10), Some(1));
        assert_eq!(yielding_user(&full, ROOT, 100), Some(1));
        assert_eq!(yielding_user(&[(1, 50), (2, 50), (3, 50)], 4, 1), Some(3));
        assert_eq!(yielding_user(&[(1, 37), (2, 37), (3, 37), (4, 37)], 5, 30), Some(4));
        assert_eq!(yielding_user(&[(1, 30), (2, 30)], 3, 1), None, "nobody has too much");
    }

    #[test]
    fn what_is_removed_is_free_again() {
        let mut usage = used(&[(1, 2)]);
        usage.remove(1, &Amounts::of_file(1, 10, 0, 0));
        assert_eq!(usage.total(Resource::Values), 10);
        assert_eq!(shares().headroom(&usage, 1, Resource::Values).left, 740);
    }
}
