//! The ACME factory, PCP's classic example of an instrumented program: machines
//! make anvils, rockets and giant rubber bands, one after the other.
//!
//! ```text
//! cargo run -p mmv-writer --example acme -- [DIRECTORY] [SECONDS]
//! ```
//!
//! Without a directory the file `acme` goes to this machine's MMV directory,
//! where pmcd (`pminfo -f mmv.acme`) and `mmv-agent run` find it.

use std::time::{Duration, Instant};

use mmv_writer::pcp::{
    IndomMetricExt as _, MetricBuilderExt as _, RegistryBuilderExt as _, RegistryExt as _,
};
use mmv_writer::{Gauge, Label, Registry, Units};

const PRODUCTS: [&str; 3] = ["Anvils", "Rockets", "Giant_Rubber_Bands"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Registry::builder("acme");
    if let Some(directory) = arguments.next() {
        options = options.directory(directory);
    }
    let seconds = arguments.next().map_or(Ok(60), |seconds| seconds.parse())?;

    let registry = options.sealed().cluster(321).build()?;
    registry.label(Label::new("owner", "Wile E. Coyote").optional())?;
    let products = registry
        .indom("products")
        .instance(0, PRODUCTS[0])
        .instance(1, PRODUCTS[1])
        .instance(2, PRODUCTS[2])
        .help("Acme products")
        .long_help("Most popular products produced by the Acme Corporation")
        .build()?;
    let count = registry
        .counter("products.count")
        .item(7)
        .units(Units::count())
        .help("Acme factory product throughput")
        .long_help("Monotonic count of products since the factory started")
        .build_instances(&products)?;
    let time = registry
        .counter("products.time")
        .item(8)
        .units(Units::microseconds())
        .help("Machine time spent producing Acme products")
        .build_instances(&products)?;
    let working = registry.metric::<Gauge<u32>>("machines").help("Machines at work").build()?;
    let product = registry.text("product").help("What is being made").build()?;
    registry.publish()?;
    println!("{}", registry.path().display());

    working.set(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    for (turn, name) in PRODUCTS.iter().cycle().enumerate() {
        if Instant::now() >= end {
            break;
        }
        product.set(name);
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(50 * (turn as u64 % 4)));
        if let (Some(count), Some(time)) = (count.by_name(name), time.by_name(name)) {
            count.inc();
            time.add(start.elapsed().as_micros() as u64);
        }
    }
    Ok(())
}
