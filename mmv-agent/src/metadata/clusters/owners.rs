//! The owners of clusters and instance domains.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use pcp_types::InDom;

use super::{Claim, Collision};
use crate::limits::ROOT;
use crate::metadata::numbers::{MAX_AUTOMATIC, OWN_CLUSTER, indom, is_clusters_own};
use crate::metadata::ownership::{Owners, Ownership};

/// Limit on the instance domains of one user.
const MAX_INDOMS: usize = 20_000;

/// The reason why a file cannot have an instance domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForeignIndom {
    #[error("its number is already used by user {owner}")]
    Held { owner: u32 },
    #[error("user {owner} has reached its limit of {MAX_INDOMS} instance domains")]
    TooMany { owner: u32 },
}

#[derive(Debug, Default)]
pub(super) struct ClusterOwners {
    clusters: Ownership<u32>,
    indoms: Ownership<u32>,
    /// Number of files with each instance domain.
    files: HashMap<InDom, usize>,
}

impl ClusterOwners {
    pub(super) fn restore(owners: Owners) -> Self {
        Self {
            clusters: Ownership::from_earlier(owners.clusters),
            indoms: Ownership::from_earlier(owners.indoms),
            files: HashMap::new(),
        }
    }

    /// Returns the owners for the next run, without those of names.
    pub(super) fn remember(&mut self) -> Owners {
        self.clusters.drop_expired();
        self.indoms.drop_expired();
        let clusters = self.clusters.remember();
        let indoms = self.indoms.remember();
        Owners { clusters, indoms, ..Owners::default() }
    }

    pub(super) fn set_now(&mut self, now: Duration) {
        self.clusters.set_now(now);
        self.indoms.set_now(now);
    }

    pub(super) fn set_keep(&mut self, keep: Option<Duration>) {
        self.clusters.keep = keep;
        self.indoms.keep = keep;
    }

    pub(super) fn owner(&self, cluster: u32) -> Option<u32> {
        self.clusters.owner(&cluster)
    }

    /// Returns true if the owner of a cluster has been absent for too long.
    pub(super) fn has_expired(&self, cluster: u32) -> bool {
        self.clusters.has_expired(&cluster)
    }

    /// Returns the number of a user's clusters that satisfy `is_of_kind`.
    pub(super) fn count(&self, owner: u32, is_of_kind: impl Fn(u32) -> bool) -> usize {
        self.clusters.keys(owner).filter(|cluster| is_of_kind(**cluster)).count()
    }

    /// Returns the user with most automatic clusters, if that user has more than `than` would have
    /// with one more. Root keeps its clusters.
    pub(super) fn user_with_most(&self, than: u32) -> Option<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, owner) in self.clusters.iter().filter(|(cluster, _)| **cluster <= MAX_AUTOMATIC) {
            *counts.entry(owner).or_default() += 1;
        }
        let own = counts.get(&than).copied().unwrap_or_default();
        let others = counts.into_iter().filter(|(owner, _)| ![than, ROOT].contains(owner));
        let (owner, count) = others.max_by_key(|(_, count)| *count)?;
        (than == ROOT || count > own + 1).then_some(owner)
    }

    /// Returns the collision if a file cannot have a cluster, since another user owns it or an
    /// instance domain in it.
    pub(super) fn conflict(&self, cluster: u32, claim: &Claim) -> Option<Collision> {
        let owner = claim.owner;
        if owner == ROOT {
            return None;
        }
        if let Some(holder_owner) = self.clusters.owner(&cluster)
            && holder_owner != owner
        {
            return Some(Collision::Owner { cluster, holder: None, holder_owner, owner });
        }
        for serial in claim.indoms.iter().filter(|serial| is_clusters_own(cluster, **serial)) {
            if let Some(indom) = indom(cluster, *serial)
                && let Some(holder_owner) = self.indoms.owner(&indom.serial())
                && holder_owner != owner
            {
                return Some(Collision::Indom { cluster, indom, holder_owner });
            }
        }
        None
    }

    /// Returns the instance domains that a file of root takes from other users.
    pub(super) fn displaced_indoms(&self, cluster: u32, claim: &Claim) -> HashSet<InDom> {
        if claim.owner != ROOT {
            return HashSet::new();
        }
        let indoms = claim.indoms.iter().filter_map(|serial| indom(cluster, *serial));
        indoms.filter(|indom| self.indoms.is_of_another(&indom.serial(), ROOT)).collect()
    }

    /// Takes a cluster and the instance domains for a file. Returns the instance domains that it
    /// gets, and those that it cannot have.
    pub(super) fn claim(
        &mut self,
        cluster: u32,
        claim: &Claim,
    ) -> (Vec<InDom>, BTreeMap<InDom, ForeignIndom>) {
        if cluster == OWN_CLUSTER {
            return Default::default();
        }
        let owner = claim.owner;
        // Any previous owner was displaced by this file.
        self.clusters.transfer(cluster, owner);
        let mut indoms = Vec::new();
        let mut foreign = BTreeMap::new();
        for indom in claim.indoms.iter().filter_map(|serial| indom(cluster, *serial)) {
            let number = indom.serial();
            let is_new = self.indoms.owner(&number) != Some(owner);
            if is_new && self.indoms.count(owner) >= MAX_INDOMS {
                foreign.insert(indom, ForeignIndom::TooMany { owner });
            } else if let Err(owner) = self.indoms.claim(&number, owner) {
                foreign.insert(indom, ForeignIndom::Held { owner });
            } else {
                indoms.push(indom);
                *self.files.entry(indom).or_default() += 1;
            }
        }
        (indoms, foreign)
    }

    /// Notes that no file has the cluster any more.
    pub(super) fn release(&mut self, cluster: u32) {
        self.clusters.leave(&cluster);
    }

    /// Notes that a file does not have these instance domains any more.
    pub(super) fn release_indoms(&mut self, indoms: &[InDom]) {
        for indom in indoms {
            let Some(files) = self.files.get_mut(indom) else { continue };
            *files -= 1;
            if *files == 0 {
                self.files.remove(indom);
                self.indoms.leave(&indom.serial());
            }
        }
    }

    /// Makes a cluster free.
    pub(super) fn forget(&mut self, cluster: u32) {
        self.clusters.forget(&cluster);
    }
}
