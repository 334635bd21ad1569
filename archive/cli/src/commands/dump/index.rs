//! Prints the temporal index and the errors of its entries.

use pcp_archive::{IndexDefect, IndexEntry, Version};

use super::Dump;
use crate::Failure;

/// Prints the entries with pmdumplog's column titles: "end" is the start of the
/// record and of its metadata, since old versions of pmlogger stored the ends.
///
/// Returns whether these are all; a last entry that the file ends within does not count.
pub(super) fn print(dump: &mut Dump<'_>) -> Result<bool, Failure> {
    dump.text("\nTemporal Index\n");
    let tabs = match dump.dates {
        0 => 0,
        1 => 2,
        _ => 4,
    };
    let version = usize::from(dump.archive.version() == Version::V3);
    dump.text(&"\t".repeat(tabs + version));
    dump.text("\t\tLog Vol    end(meta)     end(log)\n");
    let archive = dump.archive;
    let mut last: Option<&IndexEntry> = None;
    for entry in archive.index().entries() {
        dump.push_timestamp(entry.timestamp);
        dump.text(&format!(
            "\t  {:5}  {:11}  {:11}\n",
            entry.volume, entry.metadata_offset, entry.data_offset
        ));
        if let Some(last) = last {
            print_errors(dump, last, entry);
        }
        last = Some(entry);
        dump.out.spill()?;
    }
    Ok(archive.index().defects().iter().all(IndexDefect::is_torn))
}

/// Prints what decreases from one entry to the next.
fn print_errors(dump: &mut Dump<'_>, last: &IndexEntry, entry: &IndexEntry) {
    if entry.volume < last.volume {
        dump.text("\t\tError: volume number decreased\n");
    }
    if entry.volume == last.volume && entry.metadata_offset < last.metadata_offset {
        dump.text("\t\tError: offset to meta file decreased\n");
    }
    if entry.volume == last.volume && entry.data_offset < last.data_offset {
        dump.text("\t\tError: offset to log file decreased\n");
    }
}
