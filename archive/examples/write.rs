//! Writes a small archive: a counter of each product and a text, one record a
//! second, with a product that comes later and a mark.
//!
//! Usage: `write BASE`, then `mmv-archive report BASE acme` or `pmdumplog BASE`.

use std::time::Duration;

use pcp_archive::{ArchiveWriter, Timestamp, Units};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args_os().nth(1).ok_or("usage: write BASE")?;
    let mut writer = ArchiveWriter::create(base)?;
    let products = writer.instances(["anvils", "rockets"])?;
    let requests = writer
        .counter::<u64>("acme.requests")
        .instances(products)
        .units(Units::count())
        .help("requests by product")
        .label("team", "shop")
        .add()?;
    let state = writer.text("acme.state").add()?;

    let mut now = Timestamp::new(1_700_000_000, 123_456_789)?;
    for tick in 0..10 {
        if tick == 5 {
            writer.set_instances(products, ["anvils", "rockets", "magnets"])?;
        }
        writer.record(now, |r| {
            r.set_instance(requests, "anvils", 10 * tick);
            r.set_instance(requests, "rockets", 10 * tick + 1);
            if tick >= 5 {
                r.set_instance(requests, "magnets", 10 * tick + 2);
            }
            r.set(state, "open");
        })?;
        now = now.saturating_add(Duration::from_secs(1));
    }
    writer.write_mark(now)?;
    let summary = writer.finish()?;
    println!("{} records, {} bytes", summary.records, summary.bytes);
    Ok(())
}
