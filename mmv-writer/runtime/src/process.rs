//! Metrics of this process from the system (getrusage(2), proc(5)).

use std::fs;
use std::io;

use mmv_writer::{Error, Gauge, Metrics, Registry, Units};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// Metrics of this process, in the branch `process`.
///
/// ```
/// use mmv_runtime::ProcessMetrics;
/// use mmv_writer::Registry;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let registry = Registry::builder("shop");
/// # let registry = registry.directory(directory.path());
/// let registry = registry.build()?;
/// let process = ProcessMetrics::new(&registry)?;
///
/// process.update()?; // in a loop of the program's, or with `mmv_runtime::every`
/// # Ok(())
/// # }
/// ```
///
/// | metric | semantics | units |
/// |---|---|---|
/// | `process.cpu.user`, `process.cpu.system` | counter | microseconds |
/// | `process.memory.resident`, `process.memory.resident_max` | instant | KiB |
/// | `process.threads`, `process.fds` | instant | count |
/// | `process.page_faults.minor`, `process.page_faults.major` | counter | count |
/// | `process.context_switches.voluntary`, `process.context_switches.involuntary` | counter | count |
///
/// They hold 0 until the first update.
#[derive(Debug, Metrics)]
pub struct ProcessMetrics {
    cpu: Cpu,
    memory: MemoryMetrics,
    /// Threads of the process.
    #[metric(units = Units::count())]
    threads: Gauge<u64>,
    /// Open file descriptors.
    #[metric(units = Units::count())]
    fds: Gauge<u64>,
    page_faults: PageFaults,
    context_switches: ContextSwitches,
}

#[derive(Debug, Metrics)]
struct Cpu {
    /// Processor time of all threads in the program.
    #[metric(units = Units::microseconds(), semantics = counter)]
    user: Gauge<u64>,
    /// Processor time of all threads in the kernel.
    #[metric(units = Units::microseconds(), semantics = counter)]
    system: Gauge<u64>,
}

#[derive(Debug, Metrics)]
struct MemoryMetrics {
    /// Memory of the process that is in RAM.
    #[metric(units = Units::kilobytes())]
    resident: Gauge<u64>,
    /// The most memory of the process that was in RAM.
    #[metric(units = Units::kilobytes())]
    resident_max: Gauge<u64>,
}

#[derive(Debug, Metrics)]
struct PageFaults {
    /// Page faults that read nothing from a disk.
    #[metric(units = Units::count(), semantics = counter)]
    minor: Gauge<u64>,
    /// Page faults that read from a disk.
    #[metric(units = Units::count(), semantics = counter)]
    major: Gauge<u64>,
}

#[derive(Debug, Metrics)]
struct ContextSwitches {
    /// How often a thread waited for something.
    #[metric(units = Units::count(), semantics = counter)]
    voluntary: Gauge<u64>,
    /// How often a thread was suspended for another.
    #[metric(units = Units::count(), semantics = counter)]
    involuntary: Gauge<u64>,
}

impl ProcessMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    ///
    /// The errors of [`mmv_writer::MetricBuilder::build`]; [`Error::NameTaken`] if the metrics are
    /// registered already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        Self::register_under(registry, "process")
    }

    /// Sets all values to the current ones. Takes about 20 microseconds.
    ///
    /// # Errors
    ///
    /// The errors of reading `/proc/self`, if no file descriptor is left or it is not mounted. The
    /// values that were read before are set.
    pub fn update(&self) -> io::Result<()> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let microseconds = |time: TimeVal| time.num_microseconds().cast_unsigned();
        self.cpu.user.set(microseconds(usage.user_time()));
        self.cpu.system.set(microseconds(usage.system_time()));
        self.memory.resident_max.set(usage.max_rss().cast_unsigned());
        self.page_faults.minor.set(usage.minor_page_faults().cast_unsigned());
        self.page_faults.major.set(usage.major_page_faults().cast_unsigned());
        let switches = &self.context_switches;
        switches.voluntary.set(usage.voluntary_context_switches().cast_unsigned());
        switches.involuntary.set(usage.involuntary_context_switches().cast_unsigned());
        let status = fs::read("/proc/self/status")?;
        for (field, gauge) in [("VmRSS:", &self.memory.resident), ("Threads:", &self.threads)] {
            if let Some(value) = field_of(&status, field) {
                gauge.set(value);
            }
        }
        self.fds.set(open_files()?);
        Ok(())
    }
}

/// Returns the number after the name of a field. The name is compared at the start of a line, as
/// the name of the process, in another field, may have any bytes.
fn field_of(status: &[u8], field: &str) -> Option<u64> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(field.as_bytes()))?;
    let mut words = std::str::from_utf8(value).ok()?.split_ascii_whitespace();
    words.next()?.parse().ok()
}

fn open_files() -> io::Result<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    // Linux 6.2 and later have their number as the size.
    let known = fs::metadata(DIRECTORY)?.len();
    if known > 0 {
        return Ok(known);
    }
    // Without that of the directory itself.
    Ok((fs::read_dir(DIRECTORY)?.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, Instant};

    use super::*;

    fn metrics() -> (tempfile::TempDir, Registry, ProcessMetrics) {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
        let process = ProcessMetrics::new(&registry).unwrap();
        (directory, registry, process)
    }

    #[test]
    fn values_follow_what_the_process_does() {
        let (_directory, _registry, process) = metrics();
        assert_eq!(process.threads.value(), 0);
        process.update().unwrap();
        let user = process.cpu.user.value();
        let fds = process.fds.value();
        assert!(process.memory.resident.value() > 500);
        assert!(process.memory.resident_max.value() >= process.memory.resident.value() / 2);
        assert!(process.threads.value() >= 1 && fds >= 3);
        let faults = process.page_faults.minor.value();
        let files: Vec<_> = (0..200).map(|_| File::open("/dev/null").unwrap()).collect();
        let waiting = std::thread::spawn(|| std::thread::park_timeout(Duration::from_secs(60)));
        let since = Instant::now();
        let system = process.cpu.system.value();
        // A busy machine may give others the time.
        while process.cpu.user.value() <= user || process.cpu.system.value() <= system {
            assert!(since.elapsed() < Duration::from_secs(60), "{process:?}");
            // New pages each time.
            std::hint::black_box(vec![1u8; 1 << 22]);
            process.update().unwrap();
        }
        assert!(process.threads.value() >= 2);
        assert!(process.page_faults.minor.value() > faults);
        let more = process.fds.value();
        assert!(more >= 200, "{more} after {fds}");
        drop(files);
        process.update().unwrap();
        assert!(process.fds.value() < more);
        waiting.thread().unpark();
        waiting.join().unwrap();
    }

    #[test]
    fn a_field_is_found_whatever_the_name_of_the_process_is() {
        let status =
            b"Name:\tVmRSS: 7\xff\nUmask:\t0022\nVmRSS:\t  1234 kB\nThreads:\t12\nSeccomp:\t\n";
        assert_eq!(field_of(status, "VmRSS:"), Some(1234));
        assert_eq!(field_of(status, "Threads:"), Some(12));
        assert_eq!(field_of(status, "Seccomp:"), None);
        assert_eq!(field_of(status, "Umask: "), None);
        assert_eq!(field_of(b"VmRSS:\t-1 kB", "VmRSS:"), None);
        assert_eq!(field_of(b"", "VmRSS:"), None);
    }

    #[test]
    fn the_metrics_are_there_once() {
        let (_directory, registry, _process) = metrics();
        assert!(matches!(ProcessMetrics::new(&registry), Err(Error::NameTaken { .. })));
    }
}
