//! Shared helpers of the tests: scratch directories, our binaries, the agent as a process, PCP's
//! programs, and parsers of their output.

pub(crate) mod agent;
pub(crate) mod archive_facts;
pub(crate) mod binaries;
pub(crate) mod capi;
pub(crate) mod cargo;
pub(crate) mod corpus;
pub(crate) mod dice;
pub(crate) mod dump_text;
pub(crate) mod facts;
pub(crate) mod mmv_archive;
pub(crate) mod mmv_file;
pub(crate) mod oracle;
pub(crate) mod own_archives;
pub(crate) mod pmcd;
pub(crate) mod pminfo;
pub(crate) mod pmlogger;
pub(crate) mod pmproxy;
pub(crate) mod scratch;
pub(crate) mod shell;
pub(crate) mod shim;
pub(crate) mod silent_mount;
pub(crate) mod skip;
pub(crate) mod wait;
