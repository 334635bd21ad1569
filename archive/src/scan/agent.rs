//! The identifiers of mmv-agent's own metrics.

use crate::Pmid;

/// The domain of metrics of MMV files.
pub const DOMAIN: u32 = 70;
/// The cluster of the agent's own metrics.
pub(crate) const OWN_CLUSTER: u32 = 0;

/// The label of a cluster with the number of the user whose files have its metrics; those of root
/// and of the agent's user have none. It is for the agent, and no part of the identity of a series.
pub const OWNER_LABEL: &str = "mmv_owner";

/// The items of `mmv.agent.events` and of its parameters, in the agent's own cluster.
pub mod items {
    /// `mmv.agent.events`, an event array.
    pub const EVENTS: u32 = 1001;
    /// `mmv.agent.event.type`, a string: what happened.
    pub const KIND: u32 = 1002;
    /// `mmv.agent.event.file`, a string: the MMV file that it happened to.
    pub const FILE: u32 = 1003;
    /// `mmv.agent.event.reason`, a string: why.
    pub const REASON: u32 = 1004;
    /// `mmv.agent.event.pid`, a `u32`: the process of the file, or the agent.
    pub const PID: u32 = 1005;
    /// `mmv.agent.event.values`, a `u64`: how many values the file has.
    pub const VALUES: u32 = 1006;
    /// `mmv.agent.event.records`, a `u64`: how many records are missing.
    pub const RECORDS: u32 = 1007;
    /// `mmv.agent.event.since`, a string: from when on they are missing, in UTC.
    pub const SINCE: u32 = 1008;
    /// `mmv.agent.event.cluster`, a `u32`: the cluster that only metrics of the file have,
    /// whose names do not begin with the file's.
    pub const CLUSTER: u32 = 1009;
}

/// The PMID of the agent's event metric.
pub fn events_metric() -> Pmid {
    Pmid::from_raw(DOMAIN << 22 | OWN_CLUSTER << 10 | items::EVENTS)
}

/// The item of a metric of the agent's own cluster.
pub(crate) fn item(pmid: Pmid) -> Option<u32> {
    (pmid.domain() == DOMAIN && pmid.cluster() == OWN_CLUSTER).then(|| pmid.item())
}
