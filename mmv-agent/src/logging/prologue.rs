//! The first record of an archive, as pmlogger writes it.
//!
//! | PMID | name | value |
//! |---|---|---|
//! | 2.3.3 | `pmcd.pmlogger.host` | this host, by logger |
//! | 2.3.0 | `pmcd.pmlogger.port` | 0: it does not listen, by logger |
//! | 2.3.2 | `pmcd.pmlogger.archive` | the base name, by logger |
//! | 2.0.23 | `pmcd.pid` | the pid of the agent that began to count |
//! | 2.0.24 | `pmcd.seqnum` | the number of losses since then |
//!
//! pmlogextract recognizes the prologue by its five value sets (`src/pmlogger/src/logue.c`,
//! `src/pmlogextract/pmlogextract.c`), and joins archives with equal values of the last two
//! without a mark.

use std::path::Path;

use pcp_archive::raw::{FetchResult, ValueSet};
use pcp_archive::{ArchiveWriter, Error, Instance, MetricDesc, OwnedValue, WriterLabel};
use pcp_types::{InDom, InstanceId, Pmid, Semantics, Timestamp, Units, ValueType};

use crate::housekeeping::PrologueIds;

const DOMAIN: u32 = 2;

/// Writes the prologue of the archive `base` that starts at `timestamp`.
///
/// # Errors
///
/// As [`ArchiveWriter::write_result`].
pub(crate) fn write(
    writer: &mut ArchiveWriter,
    base: &Path,
    label: &WriterLabel,
    server: PrologueIds,
    timestamp: Timestamp,
) -> Result<(), Error> {
    let base = std::path::absolute(base);
    let base = base.as_deref().unwrap_or(Path::new("")).as_os_str();
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(base).to_vec();
    let loggers = InDom::new(DOMAIN, 1).ok();
    let logger = InstanceId::new(label.pid).ok();
    let values = [
        (
            3,
            3,
            "pmcd.pmlogger.host",
            true,
            OwnedValue::String(label.hostname.to_bytes().into_owned()),
        ),
        (3, 0, "pmcd.pmlogger.port", true, OwnedValue::U32(0)),
        (3, 2, "pmcd.pmlogger.archive", true, OwnedValue::String(bytes)),
        (0, 23, "pmcd.pid", false, OwnedValue::U64(server.pid)),
        (0, 24, "pmcd.seqnum", false, OwnedValue::U32(server.seqnum)),
    ];
    if let (Some(indom), Some(id)) = (loggers, logger) {
        let name = label.pid.to_string().into();
        writer.declare_indom(indom, &[Instance { id, name }])?;
    }
    let mut value_sets = Vec::with_capacity(values.len());
    for (cluster, item, name, by_logger, value) in values {
        let Ok(pmid) = Pmid::new(DOMAIN, cluster, item) else { continue };
        let value_type = match value {
            OwnedValue::U32(_) => ValueType::U32,
            OwnedValue::U64(_) => ValueType::U64,
            _ => ValueType::String,
        };
        let desc = MetricDesc {
            pmid,
            value_type,
            indom: loggers.filter(|_| by_logger),
            semantics: Semantics::Discrete,
            units: Units::NONE,
        };
        writer.declare_metric(&desc, &[name])?;
        let instance = logger.filter(|_| by_logger);
        value_sets.push(ValueSet { pmid, values: Ok(vec![(instance, value)]) });
    }
    writer.write_result(&FetchResult { timestamp, value_sets })
}
