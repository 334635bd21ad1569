//! The records of instance domains as the file has them.

use super::Dump;
use crate::cli::failure::Failure;
use crate::reader::{IndomRecord, each_indom_record};

/// Prints them, each with its time, in file order.
pub(super) fn print(dump: &mut Dump<'_>) -> Result<(), Failure> {
    dump.text("\nInstance Domains on-disk ...\n");
    each_indom_record(dump.archive, |record| {
        print_record(dump, &record);
        dump.out.spill()
    })
}

fn print_record(dump: &mut Dump<'_>, record: &IndomRecord) {
    dump.push_stamp(record.stamp);
    let kind = if record.is_difference { " delta" } else { "" };
    let count = record.instances.len();
    dump.text(&format!(" InDom: {}{kind} {count} instances\n", record.indom));
    for (id, name) in &record.instances {
        let id = id.get();
        let line = match name {
            Some(name) if record.is_difference => format!("   add {id} or \"{name}\"\n"),
            Some(name) => format!("   {id} or \"{name}\"\n"),
            None => format!("   del {id}\n"),
        };
        dump.text(&line);
    }
}
