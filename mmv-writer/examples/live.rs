//! A program whose instances come and go: sessions, each counting its requests.
//!
//! ```text
//! cargo run -p mmv-writer --example live -- [DIRECTORY] [SESSIONS] [A_SECOND]
//! ```
//!
//! Opens `SESSIONS` sessions (10 000), `A_SECOND` a second (500), and closes every
//! tenth again. Without a directory the file `live` goes to this machine's MMV
//! directory.

use std::thread::sleep;
use std::time::Duration;

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Registry, Units};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Registry::builder("live");
    if let Some(directory) = arguments.next() {
        options = options.directory(directory);
    }
    let sessions = arguments.next().map_or(Ok(10_000), |sessions| sessions.parse::<u64>())?;
    let a_second = arguments.next().map_or(Ok(500.0), |rate| rate.parse::<f64>())?;

    let registry = options.build()?;
    let opened = registry.counter("opened").units(Units::count()).build()?;
    let users = registry.indom("users").help("sessions").build()?;
    let requests: NamedFamily<Counter<u64>> =
        registry.counter("requests").units(Units::count()).build_named(&users)?;
    for session in 0..sessions {
        // The count is the number of the session, so that a reader can check it.
        requests.get_or_create(&format!("s{session}"))?.add(session);
        opened.inc();
        if session % 10 == 9 {
            users.remove(&format!("s{}", session - 5));
        }
        sleep(Duration::from_secs_f64(1.0 / a_second));
    }
    println!("{} sessions are open", users.len());
    sleep(Duration::from_secs(3));
    Ok(())
}
