//! Which user has which clusters and instance domains.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use pcp_types::InDom;

use super::{Claim, Collision};
use crate::limits::ROOT;
use crate::metadata::holdings::{Owners, Ownership};
use crate::metadata::numbers::{MAX_AUTOMATIC, OWN_CLUSTER, indom, is_clusters_own};

/// How many instance domains one user may have at once.
const MOST_INDOMS: usize = 20_000;

/// Why a file cannot have an instance domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForeignIndom {
    /// Another user has one with its number.
    #[error("another one of user {owner} has its number")]
    Held {
        /// The user.
        owner: u32,
    },
    /// The user has too many.
    #[error("files of user {owner} have {MOST_INDOMS} already")]
    TooMany {
        /// The user.
        owner: u32,
    },
}

/// The users who have clusters and instance domains.
#[derive(Debug, Default)]
pub(super) struct ClusterOwners {
    clusters: Ownership<u32>,
    indoms: Ownership<u32>,
    /// How many files have an indom.
    files: HashMap<InDom, usize>,
}

impl ClusterOwners {
    /// Continues with the owners of an earlier run.
    pub(super) fn of(owners: Owners) -> Self {
        Self {
            clusters: Ownership::from_earlier(owners.clusters),
            indoms: Ownership::from_earlier(owners.indoms),
            files: HashMap::new(),
        }
    }

    /// What the next run has to know; names are others' business.
    pub(super) fn remember(&mut self) -> Owners {
        self.clusters.give_up();
        self.indoms.give_up();
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

    /// The user who has a cluster.
    pub(super) fn owner(&self, cluster: u32) -> Option<u32> {
        self.clusters.owner(&cluster)
    }

    /// Whether a cluster had an owner who was absent for too long.
    pub(super) fn was_given_up(&self, cluster: u32) -> bool {
        self.clusters.was_given_up(&cluster)
    }

    /// How many clusters of a kind a user has.
    pub(super) fn count(&self, owner: u32, is_of_kind: impl Fn(u32) -> bool) -> usize {
        self.clusters.of(owner).filter(|cluster| is_of_kind(**cluster)).count()
    }

    /// The user with most of the clusters that are assigned automatically, if that has
    /// more than another one would with one more. Root keeps its clusters.
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

    /// Why a file cannot have a cluster: it, or an instance domain in it, is another
    /// user's.
    pub(super) fn conflict(&self, cluster: u32, claim: &Claim) -> Option<Collision> {
        let owner = claim.owner;
        if owner == ROOT {
            return None;
        }
        let of_another = |known: &u32| *known != owner;
        if let Some(holder_owner) = self.clusters.owner(&cluster).filter(of_another) {
            return Some(Collision::Owner { cluster, holder: None, holder_owner, owner });
        }
        let serials = claim.indoms.iter().filter(|serial| is_clusters_own(cluster, **serial));
        let mut indoms = serials.filter_map(|serial| indom(cluster, *serial));
        indoms.find_map(|indom| {
            let holder_owner = self.indoms.owner(&indom.serial()).filter(of_another)?;
            Some(Collision::Indom { cluster, indom, holder_owner })
        })
    }

    /// The instance domains of other users that a file of root takes.
    pub(super) fn displaced_indoms(&self, cluster: u32, claim: &Claim) -> HashSet<InDom> {
        if claim.owner != ROOT {
            return HashSet::new();
        }
        let indoms = claim.indoms.iter().filter_map(|serial| indom(cluster, *serial));
        indoms.filter(|indom| self.indoms.is_of_another(&indom.serial(), ROOT)).collect()
    }

    /// Takes a cluster and the instance domains for a file. Returns those that it has, and
    /// those that it cannot have.
    pub(super) fn claim(
        &mut self,
        cluster: u32,
        claim: &Claim,
    ) -> (Vec<InDom>, BTreeMap<InDom, ForeignIndom>) {
        if cluster == OWN_CLUSTER {
            return Default::default();
        }
        let owner = claim.owner;
        // Whoever had it was in the way of this one.
        self.clusters.transfer(cluster, owner);
        let mut indoms = Vec::new();
        let mut foreign = BTreeMap::new();
        for indom in claim.indoms.iter().filter_map(|serial| indom(cluster, *serial)) {
            let number = indom.serial();
            let is_new = self.indoms.owner(&number) != Some(owner);
            if is_new && self.indoms.count(owner) >= MOST_INDOMS {
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

    /// No file has the cluster any more.
    pub(super) fn release(&mut self, cluster: u32) {
        self.clusters.leave(&cluster);
    }

    /// A file does not have these instance domains any more.
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

    /// A cluster belongs to nobody.
    pub(super) fn forget(&mut self, cluster: u32) {
        self.clusters.forget(&cluster);
    }
}
