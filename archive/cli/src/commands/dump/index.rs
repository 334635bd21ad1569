//! Prints the temporal index and the errors of its entries.

use std::path::Path;

use pcp_archive::Version;
use pcp_archive::raw::IndexEntry;

use super::Dump;
use crate::Failure;

/// Prints the entries with pmdumplog's column titles: "end" is the start of the
/// record and of its metadata, since old versions of pmlogger stored the ends.
///
/// Entries whose time steps back are printed as well, with an error.
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
    let mut metadata = archive.base().as_os_str().to_owned();
    metadata.push(".meta");
    let metadata_size = plain_size(Path::new(&metadata));
    let mut data_size = None;
    let mut last: Option<&IndexEntry> = None;
    for entry in archive.index().all_entries() {
        dump.push_timestamp(entry.timestamp);
        dump.text(&format!(
            "\t  {:5}  {:11}  {:11}\n",
            entry.volume, entry.metadata_offset, entry.data_offset
        ));
        if last.is_none_or(|last| last.volume != entry.volume) {
            let volume = archive.volume_path(entry.volume);
            data_size = volume.and_then(plain_size);
            if volume.is_none() {
                let volume = entry.volume;
                dump.text(&format!("\t\tWarning: file missing for log volume {volume}\n"));
            }
        }
        for (kind, offset, size) in
            [("meta", entry.metadata_offset, metadata_size), ("log", entry.data_offset, data_size)]
        {
            if let Some(size) = size.filter(|size| offset > *size) {
                let error = format!("Error: offset to {kind} file past end of file ({size})");
                dump.text(&format!("\t\t{error}\n"));
            }
        }
        if let Some(last) = last {
            print_errors(dump, last, entry);
        }
        last = Some(entry);
        dump.out.spill()?;
    }
    let mut defects = archive.index().defects().iter();
    Ok(defects.all(|defect| defect.entry.is_some() || defect.is_torn()))
}

fn plain_size(path: &Path) -> Option<u64> {
    let extension = path.extension()?.to_str()?;
    let is_plain = extension == "meta" || extension.bytes().all(|byte| byte.is_ascii_digit());
    std::fs::metadata(path).ok().filter(|_| is_plain).map(|found| found.len())
}

/// Prints what decreases from one entry to the next.
fn print_errors(dump: &mut Dump<'_>, last: &IndexEntry, entry: &IndexEntry) {
    if entry.timestamp < last.timestamp {
        let places = dump.places();
        dump.text("\t\tError: timestamp went backwards in time ");
        dump.zone.push_time(&mut dump.out.text, last.timestamp, places);
        dump.text(" -> ");
        dump.zone.push_time(&mut dump.out.text, entry.timestamp, places);
        dump.text("\n");
    }
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
