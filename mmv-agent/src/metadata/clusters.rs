//! Which cluster number a file's metrics get.
//!
//! In come the claims of files; out go their clusters. A metric has the same PMID,
//! 70.cluster.item, in every archive. The item comes from the file, or from
//! [`items`](crate::metadata::items) if another metric has it; the cluster is assigned
//! here:
//!
//! * a file that asks for a cluster gets it, if no other file has it;
//! * several files may share one cluster, if they belong to the same user and
//!   agree on the name and descriptor of each item that they have in common
//!   (several processes of one application);
//! * all others get an automatic one: the lowest of 1..=2047 that was never used, not
//!   even by a file that is gone; if all were, the automatic one that has been without
//!   a file for the longest;
//! * a file keeps its cluster by its name, over any number of restarts of its
//!   application;
//! * the agent's own file is in [`OWN_CLUSTER`], which no file can ask for nor get.
//!
//! The same files in the same order get the same clusters, so the first start assigns
//! clusters in byte order of the names, as pmdammv does.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use mmv_format::layout::MAX_CLUSTER;
use serde::{Deserialize, Serialize};

use super::ItemAllocators;
use super::items::{Item, Items, Renumbered};
use crate::discovery::FileName;

/// PCP's domain of the MMV agent, and of every PMID and indom here.
pub(crate) const DOMAIN: u32 = 70;
/// The largest cluster assigned automatically. The cluster is shifted by 11 bits
/// into an indom's 22-bit serial, so larger ones overflow.
pub(crate) const MAX_AUTOMATIC: u32 = 2047;
/// The cluster of the agent's events and own metrics: a file that states 0 gets another
/// one. pmdammv has its control metrics there, as items 0 to 3.
pub(crate) const OWN_CLUSTER: u32 = 0;
/// What is added to the items of the agent's own file.
const OWN_ITEMS: u32 = 100;

/// What a file asks for.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The file's name within the directory.
    pub file: OsString,
    /// The cluster in its header; 0 asks for an automatic one.
    pub cluster: u32,
    /// The user who owns the file.
    pub owner: u32,
    /// Its metrics.
    pub items: Items,
    /// Whether it is the agent's own file.
    pub own: bool,
}

/// A cluster for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The cluster.
    pub cluster: u32,
    /// Why the file did not get the cluster that it asks for; reported once.
    pub moved: Option<Collision>,
    /// Its items that are logged under other numbers.
    pub renumbered: Renumbered,
}

/// Why a file cannot have the cluster it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Collision {
    /// The number cannot be a cluster of a file.
    #[error("cluster {cluster} is not within 1..=4095")]
    OutOfRange {
        /// The cluster asked for.
        cluster: u32,
    },
    /// Another user's file has the cluster.
    #[error("cluster {cluster} belongs to {} of user {holder_owner}, this file to user {owner}", holder.display())]
    Owner {
        /// The cluster asked for.
        cluster: u32,
        /// The file that has it.
        holder: OsString,
        /// That file's user.
        holder_owner: u32,
        /// The asking file's user.
        owner: u32,
    },
    /// The same item is another metric in a file that has the cluster.
    #[error("item {cluster}.{item} is \"{found}\" here and \"{expected}\" in {}, or differs in its descriptor", holder.display())]
    Item {
        /// The cluster asked for.
        cluster: u32,
        /// The item both have.
        item: u32,
        /// The file that has the cluster.
        holder: OsString,
        /// The asking file's name for the item.
        found: String,
        /// The holder's name for it.
        expected: String,
    },
    /// Files have all of 1..=2047.
    #[error("no automatic cluster is left: files have all of 1..=2047")]
    Exhausted,
}

/// The cluster of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileCluster {
    /// The file's name.
    pub file: FileName,
    /// What it asked for; 0: nothing.
    pub requested: u32,
    /// What it got.
    pub cluster: u32,
    /// When it was last harvested, in seconds since 1970.
    pub seen: i64,
}

/// What has to be remembered so that each file gets its cluster and items again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Assignments {
    /// Files that did not just get the cluster they asked for; those without one now
    /// first, the longest released in front.
    pub clusters: Vec<FileCluster>,
    /// Clusters that were ever given to a file.
    pub used: Vec<u32>,
    /// The items of names, by cluster.
    pub items: ItemAllocators,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    requested: u32,
    cluster: u32,
    /// When it was last harvested, in seconds since 1970; or [`NOW`].
    seen: i64,
}

/// Until now: this module reads no clock.
const NOW: i64 = i64::MAX;

#[derive(Debug)]
struct Holder {
    file: OsString,
    owner: u32,
    items: Items,
}

/// Assigns clusters.
#[derive(Debug, Default)]
pub(crate) struct ClusterAllocator {
    by_file: BTreeMap<OsString, Remembered>,
    holders: BTreeMap<u32, Vec<Holder>>,
    used: BTreeSet<u32>,
    /// Clusters that were assigned automatically.
    automatic: BTreeSet<u32>,
    /// Clusters without a file, the longest-released first.
    idle: Vec<u32>,
    items: ItemAllocators,
}

impl ClusterAllocator {
    /// Continues with the assignments of an earlier run.
    pub(crate) fn of(assignments: Assignments) -> Self {
        let Assignments { clusters, used, items } = assignments;
        let mut allocator = Self { items, ..Self::default() };
        // The state file may have any number.
        let others = clusters.into_iter().filter(|known| known.cluster != OWN_CLUSTER);
        for FileCluster { file: FileName(file), requested, cluster, seen } in others {
            allocator.by_file.insert(file, Remembered { requested, cluster, seen });
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

    /// What has to be remembered. `now` is when the files that hold a cluster
    /// were last harvested.
    pub(crate) fn remember(&mut self, now: i64) -> Assignments {
        for known in self.by_file.values_mut().filter(|known| known.seen == NOW) {
            known.seen = now;
        }
        for holder in self.holders.values().flatten() {
            if let Some(known) = self.by_file.get_mut(&holder.file) {
                known.seen = now;
            }
        }
        for items in self.items.values_mut().filter(|items| items.is_undated()) {
            Arc::make_mut(items).date(now);
        }
        let order = |cluster: &u32| self.idle.iter().position(|idle| idle == cluster);
        let mut clusters: Vec<(usize, FileCluster)> = self
            .by_file
            .iter()
            .map(|(file, known)| {
                let Remembered { requested, cluster, seen } = *known;
                let file = FileName(file.clone());
                let place = order(&cluster).unwrap_or(usize::MAX);
                (place, FileCluster { file, requested, cluster, seen })
            })
            .collect();
        clusters.sort_by_key(|(place, _)| *place);
        Assignments {
            clusters: clusters.into_iter().map(|(_, cluster)| cluster).collect(),
            used: self.used.iter().copied().collect(),
            items: self.items.clone(),
        }
    }

    /// Whether something was last harvested before `time`, in seconds since 1970.
    pub(crate) fn is_older(&self, time: i64) -> bool {
        self.by_file.values().any(|known| known.seen < time)
            || self.items.values().any(|items| items.is_older(time))
    }

    /// Forgets the files and the metrics that were last harvested before `time`:
    /// no archive has them any more. Clusters that no other file has are as if
    /// they had never been used.
    pub(crate) fn forget(&mut self, time: i64) {
        for items in self.items.values_mut().filter(|items| items.is_older(time)) {
            Arc::make_mut(items).forget(time);
        }
        self.items.retain(|_, items| !items.is_empty());
        let holders = &self.holders;
        let holds = |file: &OsString, cluster: u32| {
            holders.get(&cluster).is_some_and(|held| held.iter().any(|one| one.file == *file))
        };
        let mut freed = BTreeSet::new();
        self.by_file.retain(|file, known| {
            let stays = known.seen >= time || holds(file, known.cluster);
            if !stays {
                freed.insert(known.cluster);
            }
            stays
        });
        freed.retain(|cluster| !self.by_file.values().any(|known| known.cluster == *cluster));
        self.used.retain(|cluster| !freed.contains(cluster));
        self.automatic.retain(|cluster| !freed.contains(cluster));
        self.idle.retain(|cluster| !freed.contains(cluster));
    }

    /// Keeps an explicit cluster from being assigned automatically. To be called for all
    /// files of a batch before the first of them is placed.
    pub(crate) fn reserve(&mut self, cluster: u32) {
        if is_explicit(cluster) {
            self.used.insert(cluster);
        }
    }

    /// Gives `claim` its cluster. The file holds it until [`release`]d.
    ///
    /// # Errors
    ///
    /// [`Collision::Exhausted`]: the file cannot be harvested.
    ///
    /// [`release`]: Self::release
    pub(crate) fn place(&mut self, claim: &Claim) -> Result<Placement, Collision> {
        self.release(&claim.file);
        if claim.own {
            return Ok(self.place_own(claim));
        }
        let remembered = self
            .by_file
            .get(&claim.file)
            .filter(|known| known.requested == claim.cluster)
            .map(|known| known.cluster);
        let (cluster, moved) = match remembered {
            Some(cluster) if self.collision(cluster, claim).is_none() => (cluster, None),
            _ => self.assign(claim)?,
        };
        self.hold(cluster, claim);
        let allocator = Arc::make_mut(self.items.entry(cluster).or_default());
        let renumbered = allocator.allocate(&claim.items);
        Ok(Placement { cluster, moved, renumbered })
    }

    /// Gives the agent's own file its cluster, and items that are not those of pmdammv.
    fn place_own(&mut self, claim: &Claim) -> Placement {
        self.hold(OWN_CLUSTER, claim);
        let moved = |(item, metric): (&u32, &Item)| (item + OWN_ITEMS, metric.clone());
        let items: Items = Arc::new(claim.items.iter().map(moved).collect());
        let allocator = Arc::make_mut(self.items.entry(OWN_CLUSTER).or_default());
        let others = allocator.allocate(&items);
        let number = |item: &u32| {
            let moved = item + OWN_ITEMS;
            (*item, others.get(&moved).copied().unwrap_or(moved))
        };
        let renumbered = claim.items.keys().map(number).collect();
        Placement { cluster: OWN_CLUSTER, moved: None, renumbered }
    }

    /// The file is no longer harvested; its cluster stays remembered.
    pub(crate) fn release(&mut self, file: &OsStr) {
        let items = &mut self.items;
        self.holders.retain(|cluster, holders| {
            let before = holders.len();
            holders.retain(|holder| holder.file != file);
            if holders.len() < before
                && let Some(items) = items.get_mut(cluster)
            {
                let left = holders.iter().map(|holder| &holder.items);
                Arc::make_mut(items).release_all_but(left);
            }
            if holders.is_empty() {
                self.idle.push(*cluster);
            }
            !holders.is_empty()
        });
        if let Some(known) = self.by_file.get_mut(file) {
            known.seen = NOW;
        }
    }

    /// A cluster for a file that has none.
    fn assign(&mut self, claim: &Claim) -> Result<(u32, Option<Collision>), Collision> {
        let moved = match claim.cluster {
            0 => None,
            cluster if !is_explicit(cluster) => Some(Collision::OutOfRange { cluster }),
            cluster => match self.collision(cluster, claim) {
                None => return Ok((cluster, None)),
                collision => collision,
            },
        };
        let unused = (1..=MAX_AUTOMATIC).find(|cluster| !self.used.contains(cluster));
        let cluster = unused.or_else(|| self.reuse()).ok_or(Collision::Exhausted)?;
        self.automatic.insert(cluster);
        Ok((cluster, moved))
    }

    /// Takes the automatic cluster that has had no file for the longest from
    /// the files that are known for it.
    fn reuse(&mut self) -> Option<u32> {
        let cluster = *self.idle.iter().find(|cluster| self.automatic.contains(cluster))?;
        self.by_file.retain(|_, known| known.cluster != cluster);
        Some(cluster)
    }

    /// Why `claim` cannot join the present holders of `cluster`.
    fn collision(&self, cluster: u32, claim: &Claim) -> Option<Collision> {
        let holders = self.holders.get(&cluster)?;
        let mut agreed: Vec<&Items> = Vec::new();
        holders.iter().find_map(|holder| {
            if holder.owner != claim.owner {
                return Some(Collision::Owner {
                    cluster,
                    holder: holder.file.clone(),
                    holder_owner: holder.owner,
                    owner: claim.owner,
                });
            }
            // A thousand processes of one program share one table.
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

    fn hold(&mut self, cluster: u32, claim: &Claim) {
        self.used.insert(cluster);
        self.idle.retain(|idle| *idle != cluster);
        if cluster == claim.cluster || cluster == OWN_CLUSTER {
            // It will get that again. If it were remembered, so would be every process of
            // a program that ever ran.
            self.by_file.remove(&claim.file);
        } else {
            let known = Remembered { requested: claim.cluster, cluster, seen: NOW };
            self.by_file.insert(claim.file.clone(), known);
        }
        let holders = self.holders.entry(cluster).or_default();
        let same = holders.iter().map(|holder| &holder.items).find(|items| **items == claim.items);
        let items = Arc::clone(same.unwrap_or(&claim.items));
        holders.push(Holder { file: claim.file.clone(), owner: claim.owner, items });
    }
}

/// Whether a file may ask for this cluster: all that pmdammv accepts.
fn is_explicit(cluster: u32) -> bool {
    (1..=MAX_CLUSTER).contains(&cluster)
}

/// The first item that is another metric in each.
fn first_difference<'a>(
    ours: &'a BTreeMap<u32, Item>,
    theirs: &'a BTreeMap<u32, Item>,
) -> Option<(u32, &'a Item, &'a Item)> {
    ours.iter().find_map(|(&number, our)| {
        let their = theirs.get(&number)?;
        (our != their).then_some((number, our, their))
    })
}

#[cfg(test)]
mod tests {
    use pcp_types::{Semantics, Units, ValueType};

    use super::*;

    fn claim(file: &str, cluster: u32, items: &[(u32, &str)]) -> Claim {
        let items = items
            .iter()
            .map(|&(number, name)| {
                let item = Item {
                    name: name.into(),
                    value_type: ValueType::U64,
                    semantics: Semantics::Counter,
                    units: Units::NONE,
                    indom: None,
                };
                (number, item)
            })
            .collect();
        Claim { file: file.into(), cluster, owner: 1000, items: Arc::new(items), own: false }
    }

    fn place(allocator: &mut ClusterAllocator, claim: &Claim) -> u32 {
        allocator.place(claim).unwrap().cluster
    }

    #[test]
    fn automatic_clusters_are_the_lowest_never_used_and_step_over_explicit_ones() {
        let mut allocator = ClusterAllocator::default();
        allocator.reserve(2);
        assert_eq!(place(&mut allocator, &claim("a", 0, &[])), 1);
        assert_eq!(place(&mut allocator, &claim("b", 0, &[])), 3);
        assert_eq!(place(&mut allocator, &claim("c", 2, &[])), 2);
        allocator.release(OsStr::new("a"));
        assert_eq!(place(&mut allocator, &claim("d", 0, &[])), 4);
    }

    #[test]
    fn a_file_keeps_its_cluster_when_its_application_restarts_with_other_metrics() {
        let mut allocator = ClusterAllocator::default();
        let first = place(&mut allocator, &claim("a", 0, &[(1, "mmv.a.x")]));
        place(&mut allocator, &claim("b", 0, &[]));
        allocator.release(OsStr::new("a"));
        assert_eq!(place(&mut allocator, &claim("a", 0, &[(1, "mmv.a.y")])), first);
    }

    #[test]
    fn files_share_a_cluster_if_owner_and_common_items_agree() {
        let mut allocator = ClusterAllocator::default();
        assert_eq!(place(&mut allocator, &claim("app.1", 321, &[(1, "mmv.x")])), 321);
        let second = claim("app.2", 321, &[(1, "mmv.x"), (2, "mmv.y")]);
        assert_eq!(place(&mut allocator, &second), 321);
    }

    #[test]
    fn another_metric_of_an_item_moves_the_later_file_and_is_reported_once() {
        let mut allocator = ClusterAllocator::default();
        place(&mut allocator, &claim("a", 321, &[(1, "mmv.a.x")]));
        let later = claim("b", 321, &[(1, "mmv.b.x")]);
        let moved = allocator.place(&later).unwrap();
        assert_eq!(moved.cluster, 1);
        assert!(matches!(moved.moved, Some(Collision::Item { cluster: 321, item: 1, .. })));
        allocator.release(OsStr::new("b"));
        let again = allocator.place(&later).unwrap();
        assert_eq!((again.cluster, again.moved), (1, None));
    }

    #[test]
    fn another_users_file_never_joins_a_cluster() {
        let mut allocator = ClusterAllocator::default();
        place(&mut allocator, &claim("a", 321, &[]));
        let stranger = Claim { owner: 1001, ..claim("b", 321, &[]) };
        let placement = allocator.place(&stranger).unwrap();
        assert!(matches!(
            placement.moved,
            Some(Collision::Owner { holder_owner: 1000, owner: 1001, .. })
        ));
    }

    #[test]
    fn a_moved_file_stays_where_it_is_when_the_cluster_it_asked_for_becomes_free() {
        let mut allocator = ClusterAllocator::default();
        place(&mut allocator, &claim("a", 321, &[(1, "mmv.a.x")]));
        let later = claim("b", 321, &[(1, "mmv.b.x")]);
        assert_eq!(place(&mut allocator, &later), 1);
        allocator.release(OsStr::new("a"));
        assert_eq!(place(&mut allocator, &later), 1);
    }

    #[test]
    fn numbers_that_are_no_cluster_are_replaced() {
        let mut allocator = ClusterAllocator::default();
        for (cluster, expected) in [(4096, 1), (u32::MAX, 2)] {
            let placement = allocator.place(&claim(&cluster.to_string(), cluster, &[])).unwrap();
            assert_eq!(placement.cluster, expected);
            assert_eq!(placement.moved, Some(Collision::OutOfRange { cluster }));
        }
    }

    #[test]
    fn the_agents_own_file_takes_no_cluster_that_a_file_can_have() {
        let own = Claim { own: true, ..claim("agent", 2047, &[(1, "mmv.agent.a")]) };
        let mut allocator = ClusterAllocator::default();
        let placed = allocator.place(&own).unwrap();
        assert_eq!((placed.cluster, placed.moved), (0, None));
        assert_eq!(placed.renumbered, Renumbered::from([(1, 101)]));
        for (file, cluster) in [("first", 1), ("second", 2)] {
            assert_eq!(place(&mut allocator, &claim(file, 0, &[])), cluster);
        }
        for cluster in [2047, 4095] {
            let file = claim(&cluster.to_string(), cluster, &[(1, "mmv.x")]);
            assert_eq!(place(&mut allocator, &file), cluster);
        }
        allocator.release(OsStr::new("agent"));
        let memory = allocator.remember(100);
        assert!(memory.clusters.iter().all(|known| known.cluster > 0), "{memory:?}");
        // A metric keeps its item in a later version of the agent, as in any file.
        let items = [(1, "mmv.agent.new"), (2, "mmv.agent.a")];
        let later = Claim { own: true, ..claim("agent", 2047, &items) };
        let placed = ClusterAllocator::of(memory).place(&later).unwrap();
        assert_eq!(placed.renumbered[&2], 101);
        assert_ne!(placed.renumbered[&1], 101);
    }

    #[test]
    fn what_an_earlier_version_remembered_of_the_agents_file_does_not_matter() {
        let known = |file: &str, requested, cluster| FileCluster {
            file: FileName(file.into()),
            requested,
            cluster,
            seen: 7,
        };
        let clusters =
            vec![known("agent", 0, 1), known("app", 0, 2), known("big", 4095, 3), known("x", 0, 0)];
        let used = vec![1, 2, 3];
        let mut allocator =
            ClusterAllocator::of(Assignments { clusters, used, ..Assignments::default() });
        let own = Claim { own: true, ..claim("agent", 2047, &[]) };
        assert_eq!(place(&mut allocator, &own), 0);
        for (file, requested, cluster) in [("app", 0, 2), ("big", 4095, 3), ("x", 0, 4)] {
            assert_eq!(place(&mut allocator, &claim(file, requested, &[])), cluster, "{file}");
        }
    }

    #[test]
    fn when_all_clusters_were_used_the_longest_released_automatic_one_is_given() {
        let mut allocator = ClusterAllocator::default();
        allocator.reserve(1);
        place(&mut allocator, &claim("explicit", 1, &[]));
        for number in 2..=MAX_AUTOMATIC {
            place(&mut allocator, &claim(&format!("f{number}"), 0, &[]));
        }
        assert_eq!(allocator.place(&claim("last", 0, &[])), Err(Collision::Exhausted));
        for file in ["explicit", "f9", "f7", "f8"] {
            allocator.release(OsStr::new(file));
        }
        assert_eq!(place(&mut allocator, &claim("f9", 0, &[])), 9, "still remembered");
        assert_eq!(place(&mut allocator, &claim("last", 0, &[])), 7);
        assert_eq!(place(&mut allocator, &claim("f7", 0, &[])), 8, "its own is taken");
        assert_eq!(allocator.place(&claim("f8", 0, &[])), Err(Collision::Exhausted));
    }

    #[test]
    fn what_is_remembered_gives_the_same_clusters_in_another_run() {
        let mut first = ClusterAllocator::default();
        first.reserve(2);
        for (file, cluster) in [("b", 0), ("c", 0), ("x", 500), ("y", 500)] {
            let items: &[(u32, &str)] = if file == "y" { &[(1, "other")] } else { &[(1, "mmv")] };
            place(&mut first, &claim(file, cluster, items));
        }
        first.release(OsStr::new("c"));
        let memory = first.remember(1_000);
        let mut second = ClusterAllocator::of(memory.clone());
        let again = second.remember(2_000);
        assert_eq!((again.clusters, again.used), (memory.clusters, memory.used), "nothing is held");
        assert_eq!(place(&mut second, &claim("a", 0, &[])), 5, "1 to 4 were used");
        assert_eq!(place(&mut second, &claim("c", 0, &[])), 3);
        assert_eq!(place(&mut second, &claim("b", 0, &[])), 1);
        let moved = second.place(&claim("y", 500, &[(1, "other")])).unwrap();
        assert_eq!((moved.cluster, moved.moved), (4, None));
    }

    #[test]
    fn files_of_programs_with_clusters_of_their_own_are_not_remembered() {
        let mut allocator = ClusterAllocator::default();
        for process in 0..100 {
            let file = format!("app.{process}");
            place(&mut allocator, &claim(&file, 321, &[]));
            allocator.release(OsStr::new(&file));
        }
        assert_eq!(allocator.remember(0).clusters, []);
    }

    #[test]
    fn a_metric_keeps_its_pmid_over_restarts_of_program_and_agent() {
        let mut first = ClusterAllocator::default();
        place(&mut first, &claim("app", 0, &[(1, "mmv.app.a"), (2, "mmv.app.b")]));
        first.release(OsStr::new("app"));
        let rebuilt = claim("app", 0, &[(1, "mmv.app.new"), (2, "mmv.app.a")]);
        let expected = Renumbered::from([(1, 3), (2, 1)]);
        assert_eq!(first.place(&rebuilt).unwrap().renumbered, expected);
        let mut second = ClusterAllocator::of(first.remember(1_000));
        assert_eq!(second.place(&rebuilt).unwrap().renumbered, expected);
        second.release(OsStr::new("app"));
        second.remember(2_000);
        assert!(second.is_older(2_001));
        second.forget(2_001);
        assert_eq!(second.place(&rebuilt).unwrap().renumbered, Renumbered::new());
    }

    #[test]
    fn metrics_of_files_that_share_a_cluster_go_with_the_last_of_them() {
        let mut allocator = ClusterAllocator::default();
        let one = claim("app.1", 321, &[(1, "mmv.x"), (2, "mmv.y")]);
        let other = claim("app.2", 321, &[(1, "mmv.x")]);
        place(&mut allocator, &one);
        place(&mut allocator, &other);
        allocator.release(OsStr::new("app.1"));
        allocator.remember(100);
        allocator.forget(101);
        let later = allocator.place(&claim("app.3", 321, &[(1, "mmv.x"), (2, "mmv.z")])).unwrap();
        assert_eq!((later.cluster, later.renumbered), (321, Renumbered::new()));
        let later = allocator.place(&claim("app.4", 321, &[(3, "mmv.x")])).unwrap();
        assert_eq!(later.renumbered, Renumbered::from([(3, 1)]));
    }

    #[test]
    fn what_no_archive_has_is_forgotten_and_its_cluster_is_free_again() {
        let mut allocator = ClusterAllocator::default();
        for file in ["a", "b", "c"] {
            place(&mut allocator, &claim(file, 0, &[]));
        }
        allocator.remember(100);
        allocator.release(OsStr::new("a"));
        allocator.release(OsStr::new("b"));
        allocator.remember(200);
        place(&mut allocator, &claim("b", 0, &[]));
        allocator.release(OsStr::new("b"));
        // "b" was seen when it came again, and "c" is there.
        allocator.remember(300);
        allocator.forget(250);
        let files: Vec<_> = allocator.remember(300).clusters;
        let names: Vec<_> = files.iter().map(|known| known.file.0.to_str().unwrap()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(place(&mut allocator, &claim("d", 0, &[])), 1);
    }
}
