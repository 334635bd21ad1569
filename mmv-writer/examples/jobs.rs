//! A queue of jobs with an incident: for a while one endpoint is slow and fails.
//!
//! ```text
//! cargo run -p mmv-writer --example jobs -- LOG [CALM INCIDENT CALM]
//! ```
//!
//! The three numbers are seconds. In the incident jobs of `/render` take ten times as long, and
//! every third of them fails. A line of the log has the time of the answer in nanoseconds since
//! 1970, the endpoint, the code and the duration in nanoseconds.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mmv_writer::{Counter, Family, Gauge, Histogram, Labels, Metrics, Registry};

const ENDPOINTS: [&str; 4] = ["/render", "/mail", "/render", "/thumb"];
const PAUSE: Duration = Duration::from_millis(2);
/// Time of a job of `/render` outside the incident.
const USUAL: Duration = Duration::from_millis(4);
/// How much longer such a job takes in the incident.
const FACTOR: u32 = 10;

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Route {
    endpoint: &'static str,
    code: u16,
}

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Endpoint {
    endpoint: &'static str,
}

#[derive(Metrics)]
struct Queue {
    /// Jobs that were answered.
    #[metric(unit = "count")]
    jobs: Family<Route, Counter>,
    /// Bytes of all results.
    #[metric(unit = "bytes")]
    written: Counter,
    /// Time from a job to its answer.
    #[metric(unit = "ns")]
    latency: Family<Endpoint, Histogram>,
    /// Jobs that wait.
    waiting: Gauge,
    /// Threads that work.
    workers: Gauge,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let log = arguments.next().ok_or("usage: jobs LOG [CALM INCIDENT CALM]")?;
    let mut log = BufWriter::new(File::options().create(true).append(true).open(log)?);
    let mut seconds = |usual| arguments.next().map_or(Ok(usual), |text| text.parse());
    let calm = Duration::from_secs_f64(seconds(60.0)?);
    let incident = calm + Duration::from_secs_f64(seconds(30.0)?);
    let all = incident + Duration::from_secs_f64(seconds(60.0)?);

    let registry = Registry::new("jobs")?;
    let queue = Queue::register(&registry)?;
    queue.workers.set(4.0);
    let begin = Instant::now();
    for turn in 0_usize.. {
        let start = Instant::now();
        let age = start - begin;
        if age >= all {
            break;
        }
        let endpoint = ENDPOINTS[turn % ENDPOINTS.len()];
        let is_slow = endpoint == "/render" && age >= calm && age < incident;
        let usual = if endpoint == "/render" { USUAL } else { USUAL / 4 };
        sleep(if is_slow { usual * FACTOR } else { usual });
        let duration = start.elapsed();
        let code = if is_slow && turn.is_multiple_of(3) { 503 } else { 200 };
        queue.jobs.get(&Route { endpoint, code }).inc();
        queue.latency.get(&Endpoint { endpoint }).record_duration(duration);
        queue.written.add(20_000);
        queue.waiting.set(if age >= calm && age < incident { 40.0 } else { (turn % 3) as f64 });
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        writeln!(log, "{} {endpoint} {code} {}", now.as_nanos(), duration.as_nanos())?;
        log.flush()?;
        sleep(PAUSE);
    }
    Ok(())
}
