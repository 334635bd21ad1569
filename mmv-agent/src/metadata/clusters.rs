//! Assigns cluster numbers to files.
//!
//! Input: the claims of files. Output: their clusters. A metric has the same PMID,
//! 70.cluster.item, in every archive. The item comes from the file, or from
//! [`items`](crate::metadata::items) if another metric has it; the cluster is assigned here:
//!
//! * a file that asks for a cluster gets it, if no other file has it;
//! * several files may share one cluster, if they belong to the same user and
//!   agree on the name and descriptor of each item that they have in common
//!   (several processes of one application);
//! * all others get an automatic one: the lowest of 1..=2047 that was never used, not
//!   even by a file that is gone; if all were, the automatic one that has been without
//!   a file for the longest;
//! * a file keeps its cluster by its name and user, across restarts of its
//!   application;
//! * a cluster belongs to the user whose file had it first, and so do instance domains
//!   (`owners`); root gets what it asks for, and files that are in its way get others;
//! * files of one user have at most half of all clusters. When all are used, the user
//!   with the most gives one up for a user with fewer;
//! * the agent's own file is in [`OWN_CLUSTER`], which no other file can get.
//!
//! The same files in the same order get the same clusters, so the first start assigns
//! clusters in byte order of the names, as pmdammv does.

mod owners;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use mmv_format::layout::MAX_CLUSTER;
use pcp_types::InDom;
use serde::{Deserialize, Serialize};

use self::owners::{ClusterOwners, ForeignIndom};
use super::items::{Item, ItemAllocators, Items, RenumberedItems};
use super::numbers::{MAX_AUTOMATIC, OWN_CLUSTER};
use super::ownership::Owners;
use crate::discovery::FileName;
use crate::limits::{Quota, ROOT};

/// Added to the items of the agent's own file, since pmdammv has items 0 to 3.
const OWN_ITEMS: u32 = 100;

/// A request of a file for a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub file: OsString,
    /// The cluster in its header; 0 asks for an automatic one.
    pub cluster: u32,
    pub owner: u32,
    pub items: Items,
    /// Serials of its instance domains.
    pub indoms: Vec<u32>,
    /// True for the agent's own file.
    pub own: bool,
}

/// The numbers assigned to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub cluster: u32,
    /// Reason why the file did not get the cluster that it asked for; reported once.
    pub moved: Option<Collision>,
    /// Items that are logged under other numbers.
    pub renumbered: RenumberedItems,
    /// Instance domains that it cannot have.
    pub foreign: BTreeMap<InDom, ForeignIndom>,
}

/// The reason why a file cannot have the cluster it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Collision {
    /// The number cannot be a cluster of a file.
    #[error("cluster {cluster} is out of range: expected 1 to 4095")]
    OutOfRange { cluster: u32 },
    /// Another user owns the cluster.
    #[error("cluster {cluster} belongs to {}user {holder_owner}, and this file to user {owner}", owned_file(.holder.as_deref()))]
    Owner {
        cluster: u32,
        /// A file that has it, if there is one.
        holder: Option<OsString>,
        /// Owner of the cluster.
        holder_owner: u32,
        /// Owner of this file.
        owner: u32,
    },
    /// The same item is another metric in a file that has the cluster.
    #[error("item {cluster}.{item} is \"{found}\", but \"{expected}\" or another type, unit or semantics in {}", holder.display())]
    Item {
        cluster: u32,
        item: u32,
        /// The file that has the cluster.
        holder: OsString,
        /// Name of the item in this file.
        found: String,
        /// Name of the item in the holder.
        expected: String,
    },
    /// An instance domain of the file would have the number of another user's.
    #[error("instance domain {indom} of cluster {cluster} belongs to user {holder_owner}")]
    Indom {
        cluster: u32,
        indom: InDom,
        /// Owner of the instance domain.
        holder_owner: u32,
    },
    /// The user has too many clusters.
    #[error("user {owner} has reached its limit of {limit} clusters")]
    Share { owner: u32, limit: usize },
    /// Files have all of 1..=2047.
    #[error("no automatic cluster is left: other files have all of 1 to 2047")]
    Exhausted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileCluster {
    pub file: FileName,
    /// The cluster it asked for; 0 for an automatic one.
    pub requested: u32,
    /// The cluster it got.
    pub cluster: u32,
    /// Time of the last harvest, in seconds since 1970.
    pub seen: i64,
    /// Owner of the file; `None` if an earlier version did not record it.
    #[serde(default)]
    pub owner: Option<u32>,
}

type FileKey = (OsString, Option<u32>);

/// The state from which each file gets its cluster and items again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assignments {
    /// Files with another cluster than they asked for; files that hold none come first, the
    /// longest released in front.
    pub clusters: Vec<FileCluster>,
    /// Clusters that any file has ever had.
    pub used: Vec<u32>,
    /// Items of names, by cluster.
    pub items: ItemAllocators,
    pub owners: Owners,
}

#[derive(Debug, Clone, Copy)]
struct RememberedCluster {
    requested: u32,
    cluster: u32,
    /// Time of the last harvest, in seconds since 1970, or [`NOW`].
    seen: i64,
}

/// Stands for the present time, since this module reads no clock.
const NOW: i64 = i64::MAX;

/// Number of automatic clusters that only root's files get.
const FOR_ROOT: usize = 64;
/// Limit on the automatic clusters of one user, half of the remaining ones, and on the clusters
/// above [`MAX_AUTOMATIC`].
const SHARE: usize = (MAX_AUTOMATIC as usize - FOR_ROOT) / 2;

/// Limit on names that are remembered although no file has a metric of that name. Without it,
/// files with ever new names would fill memory and state file.
const ABSENT_NAMES: Quota = Quota { each: 20_000, all: 60_000 };

#[derive(Debug)]
struct Holder {
    file: OsString,
    owner: u32,
    items: Items,
    indoms: Vec<InDom>,
    /// Sequence number, ascending in order of placement.
    order: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ClusterAllocator {
    by_file: BTreeMap<FileKey, RememberedCluster>,
    holders: BTreeMap<u32, Vec<Holder>>,
    used: BTreeSet<u32>,
    /// Clusters that were assigned automatically.
    automatic: BTreeSet<u32>,
    /// Clusters without a file, the longest released first.
    idle: Vec<u32>,
    items: ItemAllocators,
    owners: ClusterOwners,
    /// Clusters that files of the present batch ask for.
    reserved: BTreeSet<u32>,
    /// Files that lost their clusters.
    displaced: Vec<OsString>,
    placed: u64,
}

impl ClusterAllocator {
    /// Restores the assignments of an earlier run.
    pub(crate) fn restore(assignments: Assignments) -> Self {
        let Assignments { clusters, used, items, owners } = assignments;
        let owners = ClusterOwners::restore(owners);
        let mut allocator = Self { items, owners, ..Self::default() };
        // The state file may contain any number.
        let others = clusters.into_iter().filter(|known| known.cluster != OWN_CLUSTER);
        for FileCluster { file: FileName(file), requested, cluster, seen, owner } in others {
            allocator.by_file.insert((file, owner), RememberedCluster { requested, cluster, seen });
            allocator.used.insert(cluster);
            allocator.automatic.insert(cluster);
            if !allocator.idle.contains(&cluster) {
                allocator.idle.push(cluster);
            }
        }
        allocator.used.extend(used);
        for items in allocator.items.values_mut() {
            Arc::make_mut(items).release_all_but([].iter());
        }
        allocator
    }

    /// Returns the assignments for the next run. `now` is the last harvest of files that hold a
    /// cluster.
    pub(crate) fn remember(&mut self, now: i64) -> Assignments {
        for known in self.by_file.values_mut().filter(|known| known.seen == NOW) {
            known.seen = now;
        }
        for holder in self.holders.values().flatten() {
            if let Some(known) = self.by_file.get_mut(&holder.key()) {
                known.seen = now;
            }
        }
        for items in self.items.values_mut().filter(|items| items.is_undated()) {
            Arc::make_mut(items).date(now);
        }
        let mut clusters: Vec<(usize, FileCluster)> = self
            .by_file
            .iter()
            .map(|((file, owner), known)| {
                let RememberedCluster { requested, cluster, seen } = *known;
                let file = FileName(file.clone());
                let owner = *owner;
                let place = self.idle.iter().position(|idle| *idle == cluster);
                let place = place.unwrap_or(usize::MAX);
                (place, FileCluster { file, requested, cluster, seen, owner })
            })
            .collect();
        clusters.sort_by_key(|(place, _)| *place);
        Assignments {
            clusters: clusters.into_iter().map(|(_, cluster)| cluster).collect(),
            used: self.used.iter().copied().collect(),
            items: self.items.clone(),
            owners: self.owners.remember(),
        }
    }

    /// Returns true if anything was last harvested before `time`, in seconds since 1970.
    pub(crate) fn is_older(&self, time: i64) -> bool {
        self.by_file.values().any(|known| known.seen < time)
            || self.items.values().any(|items| items.is_older(time))
    }

    /// Forgets files and metrics that were last harvested before `time`, since no archive has them
    /// any more. Their clusters count as unused unless another file has them.
    pub(crate) fn forget(&mut self, time: i64) {
        for items in self.items.values_mut().filter(|items| items.is_older(time)) {
            Arc::make_mut(items).forget(time);
        }
        self.items.retain(|_, items| !items.is_empty());
        let holders = &self.holders;
        let mut freed = BTreeSet::new();
        self.by_file.retain(|file, known| {
            let mut held = holders.get(&known.cluster).into_iter().flatten();
            let stays = known.seen >= time || held.any(|holder| holder.key() == *file);
            if !stays {
                freed.insert(known.cluster);
            }
            stays
        });
        freed.extend(self.used.iter().filter(|cluster| self.owners.has_expired(**cluster)));
        freed.retain(|cluster| !self.by_file.values().any(|known| known.cluster == *cluster));
        freed.retain(|cluster| !self.holders.contains_key(cluster));
        for cluster in &freed {
            self.owners.forget(*cluster);
        }
        self.used.retain(|cluster| !freed.contains(cluster));
        self.automatic.retain(|cluster| !freed.contains(cluster));
        self.idle.retain(|cluster| !freed.contains(cluster));
    }

    /// Excludes an explicit cluster from automatic assignment. Must be called for all files of a
    /// batch before the first of them is placed.
    pub(crate) fn reserve(&mut self, cluster: u32) {
        if is_explicit(cluster) {
            self.reserved.insert(cluster);
        }
    }

    /// Begins a batch without reservations; `now` counts from the start of the agent.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.owners.set_now(now);
        self.reserved.clear();
    }

    /// Changes the time after which absent users lose their clusters.
    pub(crate) fn set_keep(&mut self, keep: Option<Duration>) {
        self.owners.set_keep(keep);
    }

    /// Returns the number of a user's clusters, including those of files that are gone.
    pub(crate) fn count(&self, user: u32) -> usize {
        self.owners.count(user, |_| true)
    }

    /// Returns the files that lost their clusters since the last call.
    pub(crate) fn take_displaced(&mut self) -> Vec<OsString> {
        mem::take(&mut self.displaced)
    }

    /// Assigns a cluster to a file, which holds it until [`release`]d.
    ///
    /// # Errors
    ///
    /// [`Collision::Share`] and [`Collision::Exhausted`]: the file cannot be harvested.
    ///
    /// [`release`]: Self::release
    pub(crate) fn place(&mut self, claim: &Claim) -> Result<Placement, Collision> {
        self.release(&claim.file);
        if claim.own {
            return Ok(self.place_own(claim));
        }
        let file = &claim.file;
        let owner = Some(claim.owner);
        let known = self.by_file.get(&(file.clone(), owner));
        let known = known.or_else(|| self.by_file.get(&(file.clone(), None)));
        let remembered = known.filter(|known| known.requested == claim.cluster);
        let (cluster, moved) = match remembered.map(|known| known.cluster) {
            Some(cluster) if self.collision(cluster, claim).is_none() => (cluster, None),
            _ => self.assign(claim)?,
        };
        let displaced = self.owners.displaced_indoms(cluster, claim);
        self.displace(|holder_cluster, holder| {
            holder.owner != claim.owner
                && (holder_cluster == cluster
                    || holder.indoms.iter().any(|indom| displaced.contains(indom)))
        });
        let foreign = self.hold(cluster, claim);
        let allocator = Arc::make_mut(self.items.entry(cluster).or_default());
        let renumbered = allocator.allocate(&claim.items);
        Ok(Placement { cluster, moved, renumbered, foreign })
    }

    /// Places the agent's own file in its cluster, with items that pmdammv does not use.
    fn place_own(&mut self, claim: &Claim) -> Placement {
        self.hold(OWN_CLUSTER, claim);
        let items: BTreeMap<u32, Item> =
            claim.items.iter().map(|(item, metric)| (item + OWN_ITEMS, metric.clone())).collect();
        let allocator = Arc::make_mut(self.items.entry(OWN_CLUSTER).or_default());
        let others = allocator.allocate(&Arc::new(items));
        let mut renumbered = RenumberedItems::new();
        for item in claim.items.keys() {
            let moved = item + OWN_ITEMS;
            renumbered.insert(*item, others.get(&moved).copied().unwrap_or(moved));
        }
        let foreign = BTreeMap::new();
        Placement { cluster: OWN_CLUSTER, moved: None, renumbered, foreign }
    }

    /// Releases the cluster of a file, which stays remembered.
    pub(crate) fn release(&mut self, file: &OsStr) {
        let items = &mut self.items;
        let owners = &mut self.owners;
        let mut left = None;
        self.holders.retain(|cluster, holders| {
            let before = holders.len();
            holders.retain(|holder| {
                let stays = holder.file != file;
                if !stays {
                    left = Some(holder.key());
                    owners.release_indoms(&holder.indoms);
                }
                stays
            });
            if holders.len() < before
                && let Some(items) = items.get_mut(cluster)
            {
                let left = holders.iter().map(|holder| &holder.items);
                Arc::make_mut(items).release_all_but(left);
            }
            if holders.is_empty() {
                self.idle.push(*cluster);
                owners.release(*cluster);
            }
            !holders.is_empty()
        });
        if let Some(known) = left.and_then(|key| self.by_file.get_mut(&key)) {
            known.seen = NOW;
        }
        self.limit_gone();
    }

    /// Forgets excess names without a metric, first those of clusters that have had no file for
    /// the longest.
    fn limit_gone(&mut self) {
        let mut counts: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for (cluster, items) in &self.items {
            *counts.entry(self.owners.owner(*cluster)).or_default() += items.gone() as u64;
        }
        let level = ABSENT_NAMES.fair_level(&counts.values().copied());
        counts.retain(|_, count| *count > level);
        if counts.is_empty() {
            return;
        }
        let others = self.items.keys().filter(|cluster| !self.idle.contains(cluster));
        let clusters: Vec<u32> = self.idle.iter().chain(others).copied().collect();
        for cluster in clusters {
            let Some(count) = counts.get_mut(&self.owners.owner(cluster)) else { continue };
            let Some(items) = self.items.get_mut(&cluster) else { continue };
            let number = items.gone().min(count.saturating_sub(level) as usize);
            if number > 0 {
                Arc::make_mut(items).forget_gone(number);
                *count -= number as u64;
            }
        }
        self.items.retain(|_, items| !items.is_empty());
    }

    /// Assigns a cluster to a file that has none.
    fn assign(&mut self, claim: &Claim) -> Result<(u32, Option<Collision>), Collision> {
        let moved = match claim.cluster {
            0 => None,
            cluster if !is_explicit(cluster) => Some(Collision::OutOfRange { cluster }),
            cluster => match self.explicit(cluster, claim) {
                None => return Ok((cluster, None)),
                collision => collision,
            },
        };
        if let Some(share) = self.make_room(claim.owner, |cluster| cluster <= MAX_AUTOMATIC) {
            return Err(share);
        }
        let found =
            self.unused(claim).or_else(|| self.reuse(claim)).or_else(|| self.take_over(claim));
        let cluster = found.ok_or(Collision::Exhausted)?;
        self.automatic.insert(cluster);
        Ok((cluster, moved))
    }

    /// Returns the lowest cluster that was never used, except root's reserve.
    fn unused(&self, claim: &Claim) -> Option<u32> {
        let mut unused = (1..=MAX_AUTOMATIC).filter(|cluster| {
            !self.used.contains(cluster)
                && !self.reserved.contains(cluster)
                && self.owners.conflict(*cluster, claim).is_none()
        });
        let first = unused.next()?;
        let left = if claim.owner == ROOT { 1 } else { unused.take(FOR_ROOT).count() };
        (left == FOR_ROOT || claim.owner == ROOT).then_some(first)
    }

    /// Returns the reason why a file cannot have the cluster it asks for, if any.
    fn explicit(&mut self, cluster: u32, claim: &Claim) -> Option<Collision> {
        let collision = self.collision(cluster, claim);
        if collision.is_some() || self.owners.owner(cluster) == Some(claim.owner) {
            return collision;
        }
        let is_automatic = cluster <= MAX_AUTOMATIC;
        self.make_room(claim.owner, |other| (other <= MAX_AUTOMATIC) == is_automatic)
    }

    /// Makes sure that the user may have one more cluster of a kind, by giving up the one that has
    /// had no file for the longest. Returns the collision if there is none.
    fn make_room(&mut self, owner: u32, is_of_kind: impl Fn(u32) -> bool) -> Option<Collision> {
        let limit = SHARE;
        if owner == ROOT || self.owners.count(owner, &is_of_kind) < limit {
            return None;
        }
        let own_idle = self
            .idle
            .iter()
            .find(|idle| is_of_kind(**idle) && self.owners.owner(**idle) == Some(owner));
        let Some(&idle) = own_idle else {
            return Some(Collision::Share { owner, limit });
        };
        self.free_cluster(idle);
        None
    }

    /// Makes a cluster free; its items stay known.
    fn free_cluster(&mut self, cluster: u32) {
        self.by_file.retain(|_, known| known.cluster != cluster);
        self.idle.retain(|idle| *idle != cluster);
        self.used.remove(&cluster);
        self.automatic.remove(&cluster);
        self.owners.forget(cluster);
    }

    /// Takes the automatic cluster that has had no file for the longest, of this user if possible,
    /// else of the user with the most.
    fn reuse(&mut self, claim: &Claim) -> Option<u32> {
        let mut owners = vec![Some(claim.owner), None];
        if let Some(owner) = self.owners.user_with_most(claim.owner) {
            owners.push(Some(owner));
        }
        let cluster = owners.into_iter().find_map(|owner| {
            let mut idle = self.idle.iter().filter(|cluster| self.automatic.contains(cluster));
            idle.find(|cluster| self.owners.owner(**cluster) == owner).copied()
        })?;
        self.free_cluster(cluster);
        Some(cluster)
    }

    /// Takes the newest automatic cluster of the user with the most away from its files.
    fn take_over(&mut self, claim: &Claim) -> Option<u32> {
        let owner = self.owners.user_with_most(claim.owner)?;
        let automatic = self.holders.iter().filter(|(cluster, _)| self.automatic.contains(cluster));
        let of_owner = automatic.filter(|(_, held)| held.iter().any(|one| one.owner == owner));
        let newest = of_owner.max_by_key(|(_, held)| held.iter().map(|one| one.order).max())?;
        let cluster = *newest.0;
        self.displace(|other, _| other == cluster);
        self.free_cluster(cluster);
        Some(cluster)
    }

    /// Takes the clusters of files for which `is_in_the_way` is true.
    fn displace(&mut self, is_in_the_way: impl Fn(u32, &Holder) -> bool) {
        let all =
            self.holders.iter().flat_map(|(cluster, held)| held.iter().map(|one| (*cluster, one)));
        let displaced = all.filter(|(cluster, holder)| is_in_the_way(*cluster, holder));
        let displaced: Vec<OsString> = displaced.map(|(_, holder)| holder.file.clone()).collect();
        for file in &displaced {
            self.release(file);
        }
        self.displaced.extend(displaced);
    }

    /// Returns the reason why `claim` cannot join the present holders of `cluster`, if any.
    fn collision(&self, cluster: u32, claim: &Claim) -> Option<Collision> {
        let held = self.holders.get(&cluster);
        if let Some(mut conflict) = self.owners.conflict(cluster, claim) {
            if let Collision::Owner { holder, .. } = &mut conflict {
                *holder = held.and_then(|held| held.first()).map(|holder| holder.file.clone());
            }
            return Some(conflict);
        }
        let mut agreed: Vec<&Items> = Vec::new();
        held?.iter().filter(|holder| holder.owner == claim.owner).find_map(|holder| {
            // Processes of one program share one table.
            if agreed.iter().any(|items| Arc::ptr_eq(items, &holder.items)) {
                return None;
            }
            agreed.push(&holder.items);
            let (item, found, expected) = first_difference(&claim.items, &holder.items)?;
            Some(Collision::Item {
                cluster,
                item,
                holder: holder.file.clone(),
                found: found.name.to_string(),
                expected: expected.name.to_string(),
            })
        })
    }

    /// Assigns a cluster to a file, and returns the instance domains that it cannot have.
    fn hold(&mut self, cluster: u32, claim: &Claim) -> BTreeMap<InDom, ForeignIndom> {
        self.used.insert(cluster);
        self.idle.retain(|idle| *idle != cluster);
        let Claim { file, owner, .. } = claim;
        self.by_file.remove(&(file.clone(), None));
        let key = (file.clone(), Some(*owner));
        if cluster == claim.cluster || cluster == OWN_CLUSTER {
            // It will get that cluster again. Remembering it would add an entry for every process
            // of a program that ever ran.
            self.by_file.remove(&key);
        } else {
            let known = RememberedCluster { requested: claim.cluster, cluster, seen: NOW };
            self.by_file.insert(key, known);
        }
        let (indoms, foreign) = self.owners.claim(cluster, claim);
        let holders = self.holders.entry(cluster).or_default();
        let same = holders.iter().map(|holder| &holder.items).find(|items| **items == claim.items);
        let items = Arc::clone(same.unwrap_or(&claim.items));
        self.placed += 1;
        let order = self.placed;
        holders.push(Holder { file: file.clone(), owner: *owner, items, indoms, order });
        foreign
    }
}

impl Holder {
    fn key(&self) -> FileKey {
        (self.file.clone(), Some(self.owner))
    }
}

fn owned_file(file: Option<&OsStr>) -> String {
    file.map(|file| format!("{} of ", file.display())).unwrap_or_default()
}

/// Returns true if a file may ask for this cluster. pmdammv accepts the same range.
fn is_explicit(cluster: u32) -> bool {
    (1..=MAX_CLUSTER).contains(&cluster)
}

/// Returns the first item that is another metric in each.
fn first_difference<'a>(
    ours: &'a BTreeMap<u32, Item>,
    theirs: &'a BTreeMap<u32, Item>,
) -> Option<(u32, &'a Item, &'a Item)> {
    ours.iter().find_map(|(&number, our)| {
        let their = theirs.get(&number)?;
        (our != their).then_some((number, our, their))
    })
}
