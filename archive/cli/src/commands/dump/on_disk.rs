//! Prints the records of instance domains as they are in the file.

use pcp_archive::raw::IndomRecord;

use super::Dump;
use crate::Failure;

/// Prints each record with its time, in file order.
pub(super) fn print(dump: &mut Dump<'_>) -> Result<(), Failure> {
    dump.text("\nInstance Domains on-disk ...\n");
    dump.archive.each_indom_record(|record| {
        print_record(dump, &record);
        dump.out.spill()
    })
}

fn print_record(dump: &mut Dump<'_>, record: &IndomRecord) {
    dump.push_timestamp(record.timestamp);
    let kind = if record.is_difference { " delta" } else { "" };
    let count = record.instances.len();
    dump.text(&format!(" InDom: {}{kind} {count} instances\n", record.indom));
    for (id, name) in &record.instances {
        let id = id.get();
        let Some(name) = name else {
            dump.text(&format!("   del {id}\n"));
            continue;
        };
        let verb = if record.is_difference { "add " } else { "" };
        dump.text(&format!("   {verb}{id} or \""));
        dump.name(name);
        dump.text("\"\n");
    }
}
