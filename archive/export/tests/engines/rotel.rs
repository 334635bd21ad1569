//! rotel, a receiver of OTLP, prints the points that it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::free_port;

/// Finds the program and prints its version; `None`, with a message, where it is not.
pub(crate) fn program() -> Option<PathBuf> {
    let columns = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/columns");
    if !columns.join("rotel.complete").exists() {
        let message = "rotel is not there; ci/columns rotel fetches it";
        assert!(std::env::var_os("PCP").is_none_or(|mode| mode != "require"), "{message}");
        eprintln!("skipped: {message}");
        return None;
    }
    let mut versions = fs::read_dir(columns.join("lib")).expect("its libraries").flatten();
    let packages = versions.find_map(|version| {
        let packages = version.path().join("site-packages");
        packages.join("rotel/rotel-agent").exists().then_some(packages)
    });
    let program = packages.expect("rotel").join("rotel/rotel-agent");
    let version = Command::new(&program).arg("--version").output().expect("run rotel");
    eprintln!("{}", String::from_utf8_lossy(&version.stdout).trim());
    Some(program)
}

pub(crate) struct Rotel {
    child: Child,
    pub(crate) address: SocketAddr,
    output: PathBuf,
}

impl Drop for Rotel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The labels of a sample, `__name__` among them, and its time in milliseconds since 1970.
pub(crate) type Place = (Vec<(String, String)>, i64);

#[derive(Debug, Default)]
pub(crate) struct Points {
    /// Values of points; those of a histogram are the samples that Prometheus has of it.
    pub(crate) values: BTreeMap<Place, f64>,
    /// Start times, in nanoseconds since 1970; 0 where a point has none.
    pub(crate) starts: BTreeSet<i64>,
}

impl Rotel {
    pub(crate) fn start(program: &Path, place: &Path) -> Self {
        fs::create_dir_all(place).expect("a directory");
        let [http, grpc] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let output = place.join("output");
        let file = File::create(&output).expect("a file");
        let mut command = Command::new(program);
        command
            .args(["start", "--exporter", "blackhole"])
            .args(["--debug-log", "metrics", "--debug-log-verbosity", "detailed"])
            .args(["--otlp-http-endpoint", &http.to_string()])
            .args(["--otlp-grpc-endpoint", &grpc.to_string()])
            .arg("--pid-file")
            .arg(place.join("pid"))
            .arg("--log-file")
            .arg(place.join("log"));
        let child = command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn();
        let rotel = Self { child: child.expect("start rotel"), address: http, output };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(http).is_err() {
            assert!(Instant::now() < until, "rotel does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        rotel
    }

    /// Returns the points that it has printed, as soon as it has printed this number of samples.
    pub(crate) fn points(&self, count: usize) -> Points {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let points = parsed(&fs::read_to_string(&self.output).expect("its output"));
            if points.values.len() >= count || Instant::now() > until {
                return points;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[derive(Debug, Default)]
struct Lines {
    name: String,
    labels: Vec<(String, String)>,
    time: i64,
    bounds: Vec<String>,
    below: f64,
}

impl Lines {
    fn place(&self, suffix: &str, bound: Option<&str>) -> Place {
        let mut labels = self.labels.clone();
        labels.push(("__name__".to_owned(), format!("{}{suffix}", self.name)));
        labels.extend(bound.map(|bound| ("le".to_owned(), bound.to_owned())));
        labels.sort();
        (labels, self.time)
    }
}

fn parsed(text: &str) -> Points {
    let (mut points, mut lines) = (Points::default(), Lines::default());
    // The last line may be half of one.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        if line.contains("DataPoints #") {
            lines.labels.clear();
        }
        let Some((key, value)) = line.split_once(": ") else { continue };
        let number = || value.parse::<f64>().expect(line);
        match key.trim_start_matches([' ', '-', '>']) {
            "Name" => value.clone_into(&mut lines.name),
            "StartTimestamp" => drop(points.starts.insert(value.parse().expect(line))),
            "Timestamp" => {
                let (name, labels) = (lines.name, lines.labels);
                let time = value.parse::<i64>().expect(line) / 1_000_000;
                lines = Lines { name, labels, time, ..Lines::default() };
            }
            "Value" => drop(points.values.insert(lines.place("", None), number())),
            "Count" => drop(points.values.insert(lines.place("_count", None), number())),
            "Sum" => drop(points.values.insert(lines.place("_sum", None), number())),
            bound if bound.starts_with("ExplicitBounds #") => lines.bounds.push(value.to_owned()),
            bucket if bucket.starts_with("Buckets #") => {
                let (place, count) = line["Buckets #".len()..].split_once(", Count: ").expect(line);
                lines.below += count.parse::<f64>().expect(line);
                let bound = lines.bounds.get(place.parse::<usize>().expect(line));
                let place = lines.place("_bucket", Some(bound.map_or("+Inf", |bound| bound)));
                points.values.insert(place, lines.below);
            }
            name => {
                let text = value.strip_prefix("Str(").and_then(|value| value.strip_suffix(')'));
                if let Some(text) = text {
                    lines.labels.push((name.to_owned(), text.to_owned()));
                }
            }
        }
    }
    points
}
