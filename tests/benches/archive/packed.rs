//! `ci/bench packed`: cost and gain of compressing closed volumes, of archives made here and of
//! real ones, and the delay of questions. Beside it stands what the same values take as Parquet
//! (`mmv-export parquet`) and as columns of the codec pco.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use pcp_archive::compress::{Effort, compress_member, recompress};
use pcp_archive::internal::member_files;
use pcp_archive::{Archive, Compression};
use tempfile::TempDir;

use crate::Options;
use crate::contest::{Rival, hold, ratio};
use crate::made::Shape;
use crate::programs::{Programs, built};
use crate::sampled::Program;
use crate::workload::Workload;

const KINDS: [(&str, Option<Compression>); 3] =
    [("plain", None), ("xz", Some(Compression::Xz)), ("zstd", Some(Compression::Zstd))];

/// The least records of 1000 metrics that have 300 MB.
const LARGE: u64 = 9_375;

const COMMANDS: [&str; 6] = [
    "report bench.a -t 60s --format csv",
    "summary",
    "plot bench.a -o PLOT.svg",
    "check",
    "dump -a",
    "snapshot -o PAGE.html",
];

/// Further shapes of about 40 MB: metrics, instances of each, records.
const SHAPES: [(u32, u32, u64); 4] =
    [(10, 0, 100_000), (1, 10_000, 200), (10, 1_000, 200), (100, 10, 1_500)];

/// Prints the median of the milliseconds that the figures of all columns take. Arguments: directory
/// of the tables, rounds.
const SUMMARY_IN_DUCKDB: &str = r#"
import duckdb, sys, time
tables, rounds = sys.argv[1], int(sys.argv[2])
c = "COLUMNS('^bench_.*')"
query = f"SELECT count({c}), min({c}), max({c}), avg({c}::DOUBLE) FROM '{tables}/*/**/*.parquet'"
taken = []
for _ in range(rounds):
    begun = time.perf_counter()
    duckdb.sql(query).fetchall()
    taken.append(time.perf_counter() - begun)
print(f"{sorted(taken)[rounds // 2] * 1e3:.1f}")
"#;

/// Archives of the corpus that have a row of their own.
const REAL: [&str; 5] = ["20130706-a", "kenj-pc-1", "babylon.pmview_v2", "bug-1044", "amdgpu-1"];

struct Bench<'o> {
    options: &'o Options,
    programs: Programs,
    scratch: TempDir,
}

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
    println!(
        "| closing a volume | plain, bytes a value | xz | CPU, ns a value | zstd | CPU, ns a value | Parquet | pco |\n\
         |---|---|---|---|---|---|---|---|"
    );
    let shape = &options.shape;
    let name = format!("{} metrics x {} records", shape.metrics, shape.records);
    bench.close_made(&name, "", *shape).map_err(|error| error.to_string())?;
    for (metrics, instances, records) in SHAPES {
        let shape = Shape { metrics, instances, records, marks: 0 };
        let of = if instances == 0 { String::new() } else { format!(" x {instances} instances") };
        let name = format!("{metrics} metrics{of} x {records} records");
        bench.close_made(&name, &name, shape).map_err(|error| error.to_string())?;
    }
    for workload in Workload::ALL {
        let name = workload.name();
        bench
            .close_written(name, name, workload.values(), |base| workload.write(base))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    bench.close_real().map_err(|error| error.to_string())?;
    for path in &options.archives {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        bench
            .close(&name, std::slice::from_ref(path))
            .map_err(|error| format!("{name}: {error}"))?;
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
    let half = options.shape.records / 2;
    let parts = [format!("0s..{half}s"), format!("{half}s..{}s", 2 * half)];
    bench.row(
        "all metrics of both halves",
        "compare",
        &["--before", &parts[0], "--after", &parts[1]],
    )?;
    bench.summarize_in_duckdb().map_err(|error| format!("DuckDB: {error}"))?;
    bench.copy()?;
    bench.memory()
}

pub(crate) fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: TimeVal| time.num_microseconds().unsigned_abs();
    Ok(Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time())))
}

impl Bench<'_> {
    fn base(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Makes an archive three times, and closes its volume as the agent does.
    fn close_made(&self, name: &str, prefix: &str, shape: Shape) -> Result<(), Box<dyn Error>> {
        self.close_written(name, prefix, shape.values(), |base| shape.write_prepared(base))
    }

    fn close_written(
        &self,
        name: &str,
        prefix: &str,
        values: u64,
        write: impl Fn(&Path) -> crate::made::Result<()>,
    ) -> Result<(), Box<dyn Error>> {
        let mut row = Row::new(name, values);
        for (kind, compression) in KINDS {
            let base = self.base(&format!("{prefix}{kind}"));
            write(&base)?;
            row.close(&[volume(&base)], compression)?;
        }
        self.add_columns(&mut row, &[self.base(&format!("{prefix}plain"))])?;
        println!("{}", row.text);
        Ok(())
    }

    fn add_columns(&self, row: &mut Row, archives: &[PathBuf]) -> Result<(), Box<dyn Error>> {
        let export = built("mmv-export")?;
        let codec = std::env::var_os("BENCH_CODEC").ok_or("BENCH_CODEC: run by ci/bench")?;
        let mut parquet = 0;
        let mut columns = Columns::default();
        for base in archives {
            let tables = tempfile::tempdir_in(self.scratch.path())?;
            let mut command = Command::new(&export);
            command.arg("parquet").arg(base).arg("-o").arg(tables.path());
            output(&mut command)?;
            parquet += bytes_below(tables.path())?;
            columns.add_line(&output(Command::new(&codec).arg(base))?)?;
        }
        let per_value = parquet as f64 / row.values as f64;
        write!(row.text, " {per_value:.2} | {:.2} |", columns.bytes / columns.values)?;
        Ok(())
    }

    fn close(&self, name: &str, archives: &[PathBuf]) -> Result<(), Box<dyn Error>> {
        let mut volumes = Vec::new();
        let mut values = 0;
        for base in archives {
            let archive = Archive::open_tolerant(base)?;
            values += count_values(&archive)?;
            volumes.extend(member_files(base)?.into_iter().filter(|file| is_volume(file)));
        }
        let mut row = Row::new(name, values);
        for (kind, compression) in KINDS {
            let directory = self.base(&format!("{name}, {kind}"));
            fs::create_dir(&directory)?;
            let mut copies = Vec::new();
            for (number, volume) in volumes.iter().enumerate() {
                let copy = directory.join(format!("{number}.0"));
                fs::copy(volume, &copy)?;
                copies.push(copy);
            }
            row.close(&copies, compression)?;
            fs::remove_dir_all(directory)?;
        }
        self.add_columns(&mut row, archives)?;
        println!("{}", row.text);
        Ok(())
    }

    fn close_real(&self) -> Result<(), Box<dyn Error>> {
        let agent = built("mmv-agent")?;
        for program in Program::ALL {
            let base = self.base(program.name());
            program.sample(&agent, &base)?;
            self.close(program.name(), &[base])?;
        }
        let Some(corpus) = test_corpus::find("archives") else { return Ok(()) };
        let mut archives = Vec::new();
        for (number, file) in fs::read_dir(corpus)?.enumerate() {
            let index = file?.path();
            if index.extension().is_none_or(|extension| extension != "index") {
                continue;
            }
            let archive = Archive::open_tolerant(index.with_extension(""))?;
            let plain = self.base(&format!("corpus-{number}"));
            // Some are damaged.
            if recompress(&archive, &plain, None, Effort::Least, &mut |_| {})?.is_none() {
                continue;
            }
            let name = index.file_stem().unwrap_or_default().to_string_lossy();
            if REAL.contains(&&*name) {
                self.close(&format!("pmlogger, {name}"), std::slice::from_ref(&plain))?;
            }
            archives.push(plain);
        }
        self.close(&format!("pmlogger, {} archives", archives.len()), &archives)
    }

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

    /// Prints how long `DuckDB` takes for the figures of `summary`, of the same values as Parquet.
    ///
    /// The start of Python, and of `DuckDB`, is not counted.
    fn summarize_in_duckdb(&self) -> Result<(), Box<dyn Error>> {
        let work = "all metrics by DuckDB, of Parquet";
        if !work.contains(&self.options.only) {
            return Ok(());
        }
        let python = std::env::var_os("BENCH_PYTHON").ok_or("BENCH_PYTHON: run by ci/bench")?;
        let tables = tempfile::tempdir_in(self.scratch.path())?;
        let mut export = Command::new(built("mmv-export")?);
        output(export.arg("parquet").arg(self.base("plain")).arg("-o").arg(tables.path()))?;
        let mut query = Command::new(python);
        query.arg("-c").arg(SUMMARY_IN_DUCKDB).arg(tables.path());
        let millis = output(query.arg(self.options.rounds.to_string()))?;
        println!("| {work} | {} ms | | | | |", millis.trim());
        Ok(())
    }

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

impl Bench<'_> {
    fn memory(&self) -> Result<(), String> {
        println!(
            "\n| peak memory, 1000 metrics x {LARGE} records | plain | xz | zstd |\n|---|---|---|---|"
        );
        let shape = Shape { metrics: 1000, instances: 0, records: LARGE, marks: 0 };
        let commands = COMMANDS.iter().filter(|command| command.contains(&self.options.only));
        let commands: Vec<&str> = commands.copied().collect();
        if commands.is_empty() {
            return Ok(());
        }
        for (kind, compression) in KINDS {
            let base = self.base(&format!("large-{kind}"));
            shape.write_prepared(&base).map_err(|error| error.to_string())?;
            if let Some(method) = compression {
                let plain = PathBuf::from(format!("{}.0", base.display()));
                compress_member(&plain, method, Effort::Least, &mut || true)
                    .map_err(|error| error.to_string())?;
            }
        }
        for line in commands {
            let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
            print!("| {line} |");
            for (kind, _) in KINDS {
                let base = self.base(&format!("large-{kind}"));
                let words = rest.split_whitespace().map(|word| match word {
                    "PLOT.svg" | "PAGE.html" => self.scratch.path().join(word),
                    word => PathBuf::from(word),
                });
                let mut command = self.programs.ours(&[command]);
                command.arg(base).args(words);
                let peak = crate::child::run(command, None)?.peak;
                print!(" {:.0} MB |", peak as f64 / 1e6);
            }
            println!();
        }
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

struct Row {
    text: String,
    values: u64,
}

impl Row {
    fn new(name: &str, values: u64) -> Self {
        Self { text: format!("| {name} |"), values }
    }

    fn close(
        &mut self,
        volumes: &[PathBuf],
        compression: Option<Compression>,
    ) -> Result<(), Box<dyn Error>> {
        let values = self.values as f64;
        let mut bytes = 0;
        let begun = processor_time()?;
        for plain in volumes {
            let packed = match compression {
                Some(method) => compress_member(plain, method, Effort::Least, &mut || true)?,
                None => None,
            };
            bytes += size(packed.as_ref().unwrap_or(plain));
        }
        let time = processor_time()?.saturating_sub(begun);
        write!(self.text, " {:.2} |", bytes as f64 / values)?;
        if compression.is_some() {
            write!(self.text, " {:.0} |", time.as_nanos() as f64 / values)?;
        }
        Ok(())
    }
}

/// What `bench-codec` prints, added up.
#[derive(Default)]
struct Columns {
    bytes: f64,
    values: f64,
}

impl Columns {
    fn add_line(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        let (bytes, values) = line.trim().split_once(' ').ok_or("bench-codec: no two numbers")?;
        self.bytes += bytes.parse::<f64>()?;
        self.values += values.parse::<f64>()?;
        Ok(())
    }
}

fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {message}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn bytes_below(directory: &Path) -> Result<u64, Box<dyn Error>> {
    let mut bytes = 0;
    for file in fs::read_dir(directory)? {
        let file = file?;
        bytes += if file.file_type()?.is_dir() {
            bytes_below(&file.path())?
        } else {
            file.metadata()?.len()
        };
    }
    Ok(bytes)
}

fn volume(base: &Path) -> PathBuf {
    PathBuf::from(format!("{}.0", base.display()))
}

fn is_volume(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    extension.parse::<u32>().is_ok()
}

fn count_values(archive: &Archive) -> Result<u64, Box<dyn Error>> {
    let mut records = archive.records()?;
    let mut values = 0;
    while let Some(record) = records.next()? {
        values += record.value_sets().map(|set| set.len() as u64).sum::<u64>();
    }
    Ok(values)
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}
