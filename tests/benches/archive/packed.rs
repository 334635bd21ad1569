//! `ci/bench packed`: what compression of closed volumes costs and gains, and how much
//! longer questions take.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use pcp_archive::Compression;
use pcp_archive::compress::{Effort, compress_volume};
use tempfile::TempDir;

use crate::Options;
use crate::contest::{Rival, hold, ratio};
use crate::programs::Programs;

/// The archive in plain and packed in both ways.
const KINDS: [(&str, Option<Compression>); 3] =
    [("plain", None), ("xz", Some(Compression::Xz)), ("zstd", Some(Compression::Zstd))];

struct Bench<'o> {
    options: &'o Options,
    programs: Programs,
    scratch: TempDir,
}

/// Measures and prints everything that was asked for.
pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = Programs::find(scratch.path())?;
    let bench = Bench { options, programs, scratch };
    println!(
        "{} metrics x {} records; medians of {} rounds; {} processors\n",
        options.shape.metrics,
        options.shape.records,
        options.rounds,
        std::thread::available_parallelism().map_or(0, usize::from),
    );
    println!("| closing a volume | bytes a value | CPU, ns a value |\n|---|---|---|");
    for (name, compression) in KINDS {
        bench.close(name, compression).map_err(|error| format!("{name}: {error}"))?;
    }
    println!(
        "\n| work | plain | xz | zstd | xz / plain | zstd / plain |\n|---|---|---|---|---|---|"
    );
    let (samples, step) = (500, options.shape.records / 500);
    let every = format!("{step}s");
    let count = samples.to_string();
    bench.row("last minute of one metric", "report", &["bench.a.n0", "--last", "1m"])?;
    let all = ["bench.a.n0", "-t", &every, "-s", &count, "--format", "csv"];
    bench.row("one metric at 500 times", "report", &all)?;
    bench.row("all metrics", "summary", &[])?;
    bench.copy()
}

/// The processor time of this process.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: TimeVal| time.num_microseconds().unsigned_abs();
    Ok(Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time())))
}

impl Bench<'_> {
    fn base(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Makes the archive, and closes its volume as the agent does.
    fn close(&self, name: &str, compression: Option<Compression>) -> Result<(), Box<dyn Error>> {
        let base = self.base(name);
        self.options.shape.write_prepared(&base)?;
        let plain = PathBuf::from(format!("{}.0", base.display()));
        let begun = processor_time()?;
        let packed = match compression {
            Some(method) => compress_volume(&plain, method, Effort::Least, &mut || true)?,
            None => None,
        };
        let time = processor_time()?.saturating_sub(begun);
        let bytes = size(&packed.unwrap_or(plain));
        let values = (u64::from(self.options.shape.metrics) * self.options.shape.records) as f64;
        let (bytes, time) = (bytes as f64 / values, time.as_nanos() as f64 / values);
        println!("| {name} | {bytes:.2} | {time:.0} |");
        Ok(())
    }

    /// A command on each of the archives, which must print the same.
    fn row(&self, work: &str, command: &str, arguments: &[&str]) -> Result<(), String> {
        if !work.contains(&self.options.only) {
            return Ok(());
        }
        let ours = |name: &'static str| {
            let output = self.scratch.path().join(format!("{name}.out"));
            let run = move || {
                let mut command = self.programs.ours(&[command]);
                command.arg(self.base(name)).args(arguments);
                Ok(command)
            };
            Rival::new(name, run).to(output)
        };
        let rivals = KINDS.map(|(name, _)| ours(name));
        let medians = hold(&rivals, self.options.rounds)?;
        let outputs: Vec<_> =
            rivals.iter().filter_map(|rival| fs::read(rival.output.as_ref()?).ok()).collect();
        if outputs.len() != 3 || outputs.iter().any(|other| *other != outputs[0]) {
            return Err(format!("{work}: the archives do not print the same"));
        }
        print(work, &medians.iter().map(|median| median.wall).collect::<Vec<_>>());
        Ok(())
    }

    /// A copy of the whole archive, on which nothing is changed.
    fn copy(&self) -> Result<(), String> {
        let work = "copy of the archive by extract";
        if !work.contains(&self.options.only) {
            return Ok(());
        }
        let ours = |name: &'static str| {
            let run = move || {
                let copy = self.base("copy");
                crate::speed::remove_archive(&copy);
                let mut command = self.programs.ours(&["extract", "--no-progress"]);
                command.arg(self.base(name)).arg("-o").arg(copy);
                Ok(command)
            };
            Rival::new(name, run)
        };
        let rivals = KINDS.map(|(name, _)| ours(name));
        let medians = hold(&rivals, self.options.rounds)?;
        print(work, &medians.iter().map(|median| median.wall).collect::<Vec<_>>());
        Ok(())
    }
}

fn print(work: &str, times: &[Duration]) {
    let [plain, xz, zstd] = times else { return };
    let millis = |time: &Duration| time.as_secs_f64() * 1e3;
    println!(
        "| {work} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} x | {:.1} x |",
        millis(plain),
        millis(xz),
        millis(zstd),
        ratio(*xz, *plain),
        ratio(*zstd, *plain)
    );
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}
