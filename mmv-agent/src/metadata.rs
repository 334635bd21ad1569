//! Translates the metadata of MMV files into PCP's terms.
//!
//! Input: the metadata of each file (names, types, instances, labels, help). Output: one catalog
//! of all files, with the PMID of each metric and the location of each value.
//!
//! Invariant: a PMID stands for one metric as long as the agent remembers it, across restarts of
//! programs and of the agent.

mod catalog;
mod clusters;
mod declared;
mod descriptor_changes;
mod items;
mod labels;
mod name_owners;
mod names;
mod numbers;
mod ownership;
mod payers;
mod record_shape;
mod translation;

pub(crate) use catalog::{Catalog, CatalogSource, Conflict, MergedCatalog, Recreations, merge};
pub(crate) use clusters::{Assignments, Claim, ClusterAllocator, Collision, FileCluster};
pub(crate) use declared::{ArchiveDeclarations, needs_new_archive};
pub(crate) use descriptor_changes::DescriptorChanges;
pub(crate) use items::ItemAllocators;
pub(crate) use name_owners::{NameOwners, subtree};
pub(crate) use names::complete_name;
pub(crate) use numbers::{DOMAIN, MAX_AUTOMATIC, OWN_CLUSTER};
pub(crate) use ownership::{KeyOwner, Owners};
pub(crate) use payers::Payers;
pub(crate) use record_shape::{RecordShape, ValueLocation, ValueSetShape};
pub(crate) use translation::{Translation, indom_serials, items, translate};
