//! The users who are charged for metadata.
//!
//! A cluster and an instance domain have one user; what belongs to none, such as the labels of the
//! host, is charged to root.

use hashbrown::HashMap;
use pcp_archive::raw::{LabelTarget, TextTarget};
use pcp_types::{InDom, Pmid};

use crate::limits::ROOT;

/// Users of clusters and instance domains.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payers {
    clusters: HashMap<u32, u32>,
    indoms: HashMap<InDom, u32>,
}

impl Payers {
    /// Records that a file of `user` has this cluster.
    pub(super) fn add_cluster(&mut self, cluster: u32, user: u32) {
        self.clusters.insert(cluster, user);
    }

    /// Records that a file of `user` has this instance domain.
    pub(super) fn add_indom(&mut self, indom: InDom, user: u32) {
        self.indoms.insert(indom, user);
    }

    /// Returns the user charged for a metric.
    pub(crate) fn of_metric(&self, pmid: Pmid) -> u32 {
        self.of_cluster(pmid.cluster())
    }

    /// Returns the user charged for an instance domain.
    pub(crate) fn of_indom(&self, indom: InDom) -> u32 {
        self.indoms.get(&indom).copied().unwrap_or(ROOT)
    }

    /// Returns the user charged for labels.
    pub(crate) fn of_labels(&self, target: LabelTarget) -> u32 {
        match target {
            LabelTarget::Context | LabelTarget::Domain(_) => ROOT,
            LabelTarget::Cluster { cluster, .. } => self.of_cluster(cluster),
            LabelTarget::Item(pmid) => self.of_metric(pmid),
            LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => self.of_indom(indom),
        }
    }

    /// Returns the user charged for a help text.
    pub(crate) fn of_text(&self, target: TextTarget) -> u32 {
        match target {
            TextTarget::Metric(pmid) => self.of_metric(pmid),
            TextTarget::InDom(indom) => self.of_indom(indom),
        }
    }

    fn of_cluster(&self, cluster: u32) -> u32 {
        self.clusters.get(&cluster).copied().unwrap_or(ROOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_user_is_roots() {
        let mut payers = Payers::default();
        let indom = InDom::new(70, 1).unwrap();
        let other = InDom::new(70, 2).unwrap();
        payers.add_cluster(1, 1000);
        payers.add_indom(indom, 1001);
        let pmid = |cluster| Pmid::new(70, cluster, 1).unwrap();
        assert_eq!([1, 2].map(|cluster| payers.of_metric(pmid(cluster))), [1000, ROOT]);
        assert_eq!([indom, other].map(|indom| payers.of_indom(indom)), [1001, ROOT]);
        assert_eq!(payers.of_labels(LabelTarget::Context), ROOT);
        assert_eq!(payers.of_labels(LabelTarget::Instances(indom)), 1001);
        assert_eq!(payers.of_text(TextTarget::Metric(pmid(1))), 1000);
    }
}
