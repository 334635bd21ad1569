//! Decides whether a mark is needed between two archives.
//!
//! pmlogger writes five values first and last into an archive, among them the
//! process of the pmcd that all values came from, and a number that counts how
//! often that pmcd changed what it serves. If both are the same at the end of
//! one archive and at the start of the next, nothing was lost between the two
//! but time, and counters may be joined (`do_not_need_mark` in
//! `src/pmlogextract/pmlogextract.c`).

use crate::{Pmid, Record, Timestamp, Value, ValueType};

/// The metric with `pmcd.pid` and `pmcd.seqnum`.
const PROCESS: Pmid = Pmid::from_raw((2 << 22) + 23);
const SEQUENCE: Pmid = Pmid::from_raw((2 << 22) + 24);
/// The number of values in such a record.
const VALUES: u32 = 5;

/// Process and sequence number of the pmcd that served the values.
type Server = (u64, u32);

/// The end of an archive and the start of the next, to decide on a mark between them.
#[derive(Debug, Default)]
pub(super) struct NeedsMark {
    /// From the newest record that names one.
    server: Option<Server>,
    /// The mark that will be due.
    mark: Option<Timestamp>,
    is_first: bool,
}

impl NeedsMark {
    /// Notes that an archive ended. A mark at this time separates it from the next one.
    pub(super) fn gap(&mut self, mark: Timestamp) {
        self.mark.get_or_insert(mark);
        self.is_first = true;
    }

    /// Notes the next record, whether it is copied or not.
    pub(super) fn pass(&mut self, record: &Record<'_>) {
        let server = server(record);
        if self.is_first {
            if server.is_some() && server == self.server {
                self.mark = None;
            }
            self.is_first = false;
            self.server = None;
        }
        self.server = server.or(self.server);
    }

    /// Returns the mark that is due before the next record.
    pub(super) fn take(&mut self) -> Option<Timestamp> {
        self.mark.take()
    }
}

fn server(record: &Record<'_>) -> Option<Server> {
    if record.len() != VALUES {
        return None;
    }
    let value = |pmid, value_type| {
        let set = record.value_sets().find(|set| set.pmid() == pmid)?;
        set.values(value_type).next()?.ok().map(|(_, value)| value)
    };
    match (value(PROCESS, ValueType::U64)?, value(SEQUENCE, ValueType::U32)?) {
        (Value::U64(process), Value::U32(sequence)) => Some((process, sequence)),
        _ => None,
    }
}
