//! `mmv-agent demo`: from an instrumented program to an archive in five seconds.
//!
//! A small instrumented program (`shop`) and the agent run in this process,
//! each knowing nothing of the other but the directory between them. Then the
//! archive is read back.

mod shop;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mmv_chart::{Point, sparkline};

use super::archive_summary::{grouped, summarize};
use crate::config::{Destination, Settings};
use crate::run;
use shop::Shop;

const LASTS: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(100);
const SPARKLINE: usize = 30;

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// No directory for it.
    #[error("{}: {source}", directory.display())]
    Directory {
        /// The directory that cannot be made.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The instrumented program cannot publish its metrics.
    #[error(transparent)]
    Publish(#[from] mmv_writer::Error),
    /// The agent does not run.
    #[error(transparent)]
    Agent(#[from] crate::error::Error),
    /// The archive cannot be read back.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
    /// There is no output to show it on.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

/// Shows it: progress on stderr, the result on stdout. The archive stays at
/// the printed path.
///
/// # Errors
///
/// Any [`Error`].
pub(crate) fn demo() -> Result<(), Error> {
    let scene = Scene::set()?;
    writeln!(
        io::stderr(),
        "A small shop counts its visitors in {}\nand the agent logs them every {} ms into {}\n",
        scene.mmv_dir.join("shop").display(),
        INTERVAL.as_millis(),
        scene.base.display(),
    )?;
    let shop = Shop::open(&scene.mmv_dir)?;
    let destination = Destination::Base(scene.base.clone());
    let agent = run::start(&Settings::new(scene.mmv_dir.clone(), destination, INTERVAL))?;
    watch(&shop, Progress::new())?;
    agent.stop()?;
    drop(shop);

    let mut out = io::stdout().lock();
    writeln!(out, "{}", summarize(&scene.base, "mmv.shop", &["requests.total", "queue.length"])?)?;
    writeln!(out, "{}", scene.directions())?;
    Ok(())
}

/// The directories of one showing.
struct Scene {
    mmv_dir: PathBuf,
    base: PathBuf,
}

impl Scene {
    fn set() -> Result<Self, Error> {
        let directory = fresh_folder()?;
        let mmv_dir = directory.join("mmv");
        fs::create_dir(&mmv_dir)
            .map_err(|source| Error::Directory { directory: mmv_dir.clone(), source })?;
        Ok(Self { mmv_dir, base: directory.join("shop") })
    }

    /// How to look further, as commands that work from here.
    fn directions(&self) -> String {
        let base = self.base.display();
        let command = archive_command();
        format!(
            "The archive is {base}.0, .meta and .index. To look further:\n\n    \
             {command} report {base} mmv.shop -t 500ms\n    \
             {command} dump {base}\n\n\
             Performance Co-Pilot reads it too: pmrep -a {base} mmv.shop"
        )
    }
}

/// A directory that did not exist, below the system's directory for temporary files.
fn fresh_folder() -> Result<PathBuf, Error> {
    let parent = std::env::temp_dir();
    let mut attempt = 0u32;
    loop {
        let directory = parent.join(format!("mmv-demo-{}-{attempt}", std::process::id()));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
            Err(source) => return Err(Error::Directory { directory, source }),
        }
    }
}

/// How to call mmv-archive: by its path next to this program if it was built, with cargo
/// in a checkout, else by name.
fn archive_command() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    let sibling = exe.with_file_name("mmv-archive");
    let in_checkout = exe.ancestors().nth(3).is_some_and(|root| root.join("archive").is_dir());
    if sibling.is_file() {
        shortened(&sibling)
    } else if in_checkout {
        "cargo run --release -p mmv-archive --".to_owned()
    } else {
        "mmv-archive".to_owned()
    }
}

/// A path relative to the current directory, if it is below it.
fn shortened(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// Shows what goes on until the time is up.
fn watch(shop: &Shop, mut progress: Progress) -> io::Result<()> {
    let begun = Instant::now();
    let mut rates: Vec<Point> = Vec::new();
    let mut before = (0.0, shop.meters.requests.value());
    while begun.elapsed() < LASTS {
        std::thread::sleep(INTERVAL);
        let now = (begun.elapsed().as_secs_f64(), shop.meters.requests.value());
        rates.push((now.0, Some((now.1 - before.1) as f64 / (now.0 - before.0))));
        before = now;
        let columns = (SPARKLINE as f64 * now.0 / LASTS.as_secs_f64()).ceil() as usize;
        progress.update(&format!(
            "  {:4.1} s  visitors served {:>7}  waiting {:>5}  {}",
            now.0,
            grouped(now.1.cast_signed()),
            grouped(shop.meters.queue.value()),
            sparkline(&rates, columns.clamp(1, SPARKLINE)),
        ))?;
    }
    progress.end()
}

/// A line on stderr: updated in place on a terminal, elsewhere repeated now and then.
struct Progress {
    terminal: bool,
    updates: u32,
}

impl Progress {
    fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), updates: 0 }
    }

    fn update(&mut self, line: &str) -> io::Result<()> {
        self.updates += 1;
        if self.terminal {
            write!(io::stderr(), "\r{line}\x1b[K")
        } else if self.updates.is_multiple_of(10) {
            writeln!(io::stderr(), "{line}")
        } else {
            Ok(())
        }
    }

    fn end(self) -> io::Result<()> {
        writeln!(io::stderr(), "{}", if self.terminal { "\n" } else { "" })
    }
}
