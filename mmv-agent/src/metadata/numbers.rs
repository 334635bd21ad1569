//! The numbers of PCP's MMV agent: domain, clusters and instance domains.

use pcp_types::InDom;

/// PCP's domain of the MMV agent, and of every PMID and indom here.
pub(crate) const DOMAIN: u32 = 70;
/// The largest cluster assigned automatically. The cluster is shifted by 11 bits
/// into an indom's 22-bit serial, so larger ones overflow.
pub(crate) const MAX_AUTOMATIC: u32 = 2047;
/// The cluster of the agent's events and own metrics: a file that states 0 gets another
/// one. pmdammv has its control metrics there, as items 0 to 3.
pub(crate) const OWN_CLUSTER: u32 = 0;

/// Bits by which a cluster is shifted into an indom's serial.
const CLUSTER_SHIFT: u32 = 11;
/// The largest cluster, and the largest serial within a file, whose indoms are
/// no other cluster's.
const MAX_PART: u32 = (1 << CLUSTER_SHIFT) - 1;

/// Set in the serials of the agent's own indoms.
const OWN_SERIALS: u32 = 1 << 10;

/// The indom for a file's serial, cut to 22 bits as pmdammv does: a large part
/// may give the number of another cluster's indom.
pub(crate) fn indom(cluster: u32, serial: u32) -> Option<InDom> {
    // A file of cluster 2048 has indoms of small numbers.
    let serial = if cluster == OWN_CLUSTER { OWN_SERIALS | serial } else { serial };
    InDom::new(DOMAIN, (cluster << CLUSTER_SHIFT | serial) & InDom::MAX_SERIAL).ok()
}

/// Whether no other cluster can have the number of such an indom.
pub(crate) fn is_clusters_own(cluster: u32, serial: u32) -> bool {
    cluster <= MAX_PART && serial <= MAX_PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_serials_and_clusters_are_cut_as_pmdammv_cuts_them() {
        let serial = |cluster, serial| indom(cluster, serial).unwrap().serial();
        assert_eq!(serial(2, 0), 4096);
        assert_eq!(serial(2047, 2047), InDom::MAX_SERIAL);
        assert_eq!(serial(1, InDom::MAX_SERIAL), InDom::MAX_SERIAL);
        assert_eq!(serial(2048, 1), 1);
    }
}
