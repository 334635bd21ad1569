//! Recovers the owners of names from archives when there is no state file.
//!
//! Input: the archive directory. Output: the owners of name subtrees and of their clusters. The
//! agent labels each cluster with its user, so no other user gets the names of an absent program
//! while the state is lost.

use std::collections::BTreeMap;
use std::path::Path;

use pcp_archive::internal::programs::OWNER_LABEL;
use pcp_archive::raw::LabelTarget;
use pcp_archive::{Archive, Metadata};
use pcp_types::Timestamp;
use serde_json::Value;

use super::archive_directory;
use crate::metadata::{DOMAIN, KeyOwner, Owners, subtree};

/// Limit on archives that are read, the newest first.
const MAX_ARCHIVES: usize = 100;

/// Reads the owners from the newest archives of a host's directory. Newer archives take
/// precedence.
pub(crate) fn recover_owners(directory: &Path) -> Owners {
    let mut owners = Owners::default();
    let found = archive_directory::archives(directory).unwrap_or_default();
    for found in found.iter().rev().take(MAX_ARCHIVES) {
        // An unreadable archive contributes nothing.
        let Ok(archive) = Archive::open_tolerant(&found.base) else { continue };
        add(archive.metadata(), archive.end(), &mut owners);
    }
    owners
}

fn add(metadata: &Metadata, at: Timestamp, owners: &mut Owners) {
    let mut of_clusters: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    for metric in metadata.metrics() {
        let pmid = metric.desc.pmid;
        if pmid.domain() != DOMAIN {
            continue;
        }
        let cluster = pmid.cluster();
        let owner = *of_clusters.entry(cluster).or_insert_with(|| owner_of(metadata, cluster, at));
        let Some(owner) = owner else { continue };
        let holding = KeyOwner { owner, absent: 0 };
        owners.clusters.entry(cluster).or_insert(holding);
        for name in &metric.names {
            owners.names.entry(subtree(name.as_str()).to_owned()).or_insert(holding);
        }
    }
}

/// Returns the user of a cluster; clusters of root and of the agent's user have no label.
fn owner_of(metadata: &Metadata, cluster: u32, at: Timestamp) -> Option<u32> {
    let target = LabelTarget::Cluster { domain: DOMAIN, cluster };
    let sets = metadata.labels_at(target, at)?;
    sets.iter().find_map(|set| {
        let labels: Value = serde_json::from_str(&set.json).ok()?;
        labels.get(OWNER_LABEL)?.as_u64()?.try_into().ok()
    })
}
