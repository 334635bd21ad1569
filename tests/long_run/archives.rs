//! The logged values: archive by archive, record by record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pcp_archive::{Archive, OwnedValue, Pmid, ValueType};

use super::shape::STEADY;

/// Process and sequence number of pmcd, as prologues have them: pmlogextract compares them to see
/// whether nothing changed between two archives.
pub(super) type Server = (u64, u32);

/// The domain of pmcd, and its items for the two.
const PMCD: u32 = 2;
const PID: u32 = 23;
const SEQUENCE: u32 = 24;

#[derive(Debug)]
pub(super) struct Logged {
    pub(super) program: usize,
    pub(super) metric: String,
    pub(super) instance: Option<String>,
    pub(super) value_type: ValueType,
    /// Time that the program set it to, in microseconds since 1970.
    pub(super) value: u64,
}

impl Logged {
    /// Returns true for a value of a program that runs all the time.
    pub(super) fn is_steady(&self) -> bool {
        (self.program as u64) < STEADY
    }
}

/// A record; its timestamp in nanoseconds since 1970.
#[derive(Debug)]
pub(super) enum Entry {
    Mark,
    Sample { timestamp: u64, values: Vec<Logged> },
}

impl Entry {
    /// Returns false for a record between two ticks, which has the last values of a file alone.
    pub(super) fn is_of_tick(&self) -> bool {
        match self {
            Self::Mark => true,
            Self::Sample { values, .. } => values.iter().any(Logged::is_steady),
        }
    }
}

#[derive(Debug)]
pub(super) struct Volume {
    pub(super) base: PathBuf,
    pub(super) server: Server,
    /// Names and their descriptors, in a few words.
    pub(super) metrics: HashMap<String, (Pmid, String)>,
    pub(super) marks: usize,
    pub(super) samples: usize,
}

#[track_caller]
pub(super) fn read(base: &Path, mut show: impl FnMut(Entry)) -> Volume {
    let archive = fine(base, Archive::open(base));
    let metadata = archive.metadata();
    let mut metrics = HashMap::new();
    let mut programs = HashMap::new();
    for metric in metadata.metrics() {
        let (name, pmid) = (metric.display_name(), metric.desc.pmid);
        programs.extend(program_of(&name).map(|program| (pmid, program)));
        metrics.insert(name, (pmid, format!("{:?}", metric.desc)));
    }
    let (mut marks, mut samples, mut server) = (0, 0, (0, 0));
    let mut records = fine(base, archive.records());
    while let Some(record) = fine(base, records.next()) {
        if record.is_mark() {
            marks += 1;
            show(Entry::Mark);
            continue;
        }
        let result = record.to_owned(metadata).expect("whole values");
        let mut values = Vec::new();
        for set in &result.value_sets {
            let in_set = set.values.as_ref().expect("values");
            if set.pmid.domain() == PMCD {
                match (set.pmid.item(), &in_set[0].1) {
                    (PID, OwnedValue::U64(pid)) => server.0 = *pid,
                    (SEQUENCE, OwnedValue::U32(number)) => server.1 = *number,
                    _ => {}
                }
            }
            let Some((program, last)) = programs.get(&set.pmid) else { continue };
            let desc = &metadata.metric(set.pmid).expect("its descriptor").desc;
            for (id, value) in in_set {
                let name = |id| {
                    let known = metadata.indom_history(desc.indom.expect("a domain"));
                    known.and_then(|known| known.name_at(id, result.timestamp)).map(str::to_owned)
                };
                let instance = id.map(|id| name(id).unwrap_or_else(|| format!("unnamed {id}")));
                let value = value.as_value().as_f64().expect("a number") as u64;
                let (program, metric) = (*program, last.clone());
                let value_type = desc.value_type;
                values.push(Logged { program, metric, instance, value_type, value });
            }
        }
        if !values.is_empty() {
            samples += 1;
            show(Entry::Sample { timestamp: result.timestamp.as_nanos() as u64, values });
        }
    }
    Volume { base: base.to_owned(), server, metrics, marks, samples }
}

#[track_caller]
fn fine<T>(base: &Path, result: pcp_archive::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}: {error}", base.display()))
}

/// Parses the number of the program in `mmv.p07.now`, and the last part of the name.
fn program_of(name: &str) -> Option<(usize, String)> {
    let (file, metric) = name.strip_prefix("mmv.p")?.split_once('.')?;
    Some((file.parse().ok()?, metric.to_owned()))
}
