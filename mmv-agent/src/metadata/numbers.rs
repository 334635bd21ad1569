//! Numbers of PCP's MMV agent: domain, clusters and instance domains.

use pcp_types::InDom;

/// PCP's domain of the MMV agent, and of every PMID and instance domain here.
pub(crate) const DOMAIN: u32 = 70;
/// Largest automatic cluster. The cluster is shifted by 11 bits into the 22-bit serial of an
/// instance domain, so larger ones overflow.
pub(crate) const MAX_AUTOMATIC: u32 = 2047;
/// Cluster of the agent's events and own metrics; a file that states 0 gets another one. pmdammv
/// has its control metrics there, as items 0 to 3.
pub(crate) const OWN_CLUSTER: u32 = 0;

/// Bits by which a cluster is shifted into the serial of an instance domain.
const CLUSTER_SHIFT: u32 = 11;
/// Largest cluster and serial for which the instance domain cannot be another cluster's.
const MAX_PART: u32 = (1 << CLUSTER_SHIFT) - 1;

/// Bit in the serials of the agent's own instance domains.
const OWN_SERIALS: u32 = 1 << 10;

/// Returns the instance domain for a file's serial, cut to 22 bits as pmdammv does: a large
/// cluster or serial may give the number of another cluster's instance domain.
pub(crate) fn indom(cluster: u32, serial: u32) -> Option<InDom> {
    // A file of cluster 2048 has instance domains with small numbers.
    let serial = if cluster == OWN_CLUSTER { OWN_SERIALS | serial } else { serial };
    InDom::new(DOMAIN, (cluster << CLUSTER_SHIFT | serial) & InDom::MAX_SERIAL).ok()
}

/// Returns true if no other cluster can have this instance domain.
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
