//! `mmv-agent demo`: from an instrumented program to an archive in five seconds.
//!
//! A small instrumented program (`shop`) and the agent run in this process and share only the
//! directory between them. Then the archive is read back.

mod directions;
mod shop;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mmv_chart::{Point, sparkline};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use super::archive_summary::{grouped, summarize};
use crate::config::{Destination, Settings};
use crate::run;
use directions::Directions;
use shop::Shop;

const LASTS: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(100);
const SPARKLINE: usize = 28;

/// The reason why the demo failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DemoError {
    #[error("{}: {source}", directory.display())]
    Directory { directory: PathBuf, source: io::Error },
    /// The instrumented program cannot publish its metrics.
    #[error(transparent)]
    Publish(#[from] mmv_writer::Error),
    #[error(transparent)]
    Agent(#[from] crate::error::Error),
    /// The archive cannot be read back.
    #[error(transparent)]
    Archive(#[from] pcp_archive::Error),
    /// A signal ended it early.
    #[error("interrupted; the directory of the demo is removed")]
    Interrupted { signal: u8 },
    /// The output cannot be written.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

/// Runs the demo, with progress on stderr and the result on stdout. The archive stays at the
/// printed path, unless there is an error or a signal.
///
/// # Errors
///
/// Any [`DemoError`].
pub(crate) fn demo() -> Result<(), DemoError> {
    let received = received_signal()?;
    let scene = Scene::set()?;
    writeln!(
        io::stderr(),
        "For {} seconds, a program counts the visitors of a shop in an MMV file, and the\n\
         agent samples it every {} ms and logs what has changed into an archive:\n\n  \
         {}\n  {}\n",
        LASTS.as_secs(),
        INTERVAL.as_millis(),
        scene.mmv_dir.join("shop").display(),
        scene.base.display(),
    )?;
    let shop = Shop::open(&scene.mmv_dir)?;
    let destination = Destination::Base(scene.base.clone());
    let agent = run::start(&Settings::new(scene.mmv_dir.clone(), destination, INTERVAL))?;
    watch(&shop, Progress::new(), &received)?;
    agent.stop()?;
    drop(shop);
    if let Ok(signal @ 1..) = u8::try_from(received.load(Ordering::Relaxed)) {
        return Err(DemoError::Interrupted { signal });
    }

    let summary = summarize(&scene.base, "mmv.shop", &["requests.total", "queue.length"])?;
    let mut out = io::stdout().lock();
    writeln!(out, "{summary}")?;
    writeln!(out, "{}", Directions::here().text(scene.directory.path(), &scene.base))?;
    scene.keep()
}

/// Returns a cell that gets the number of the signal that ends the demo; 0 until then.
fn received_signal() -> io::Result<Arc<AtomicUsize>> {
    let received = Arc::new(AtomicUsize::new(0));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&received), number)?;
    }
    Ok(received)
}

/// Temporary directories, removed on drop.
struct Scene {
    directory: TempDir,
    mmv_dir: PathBuf,
    base: PathBuf,
}

impl Scene {
    fn set() -> Result<Self, DemoError> {
        let parent = std::env::temp_dir();
        let directory = tempfile::Builder::new()
            .prefix("mmv-demo-")
            .tempdir_in(&parent)
            .map_err(|source| DemoError::Directory { directory: parent, source })?;
        let mmv_dir = directory.path().join("mmv");
        fs::create_dir(&mmv_dir)
            .map_err(|source| DemoError::Directory { directory: mmv_dir.clone(), source })?;
        let base = directory.path().join("shop");
        Ok(Self { directory, mmv_dir, base })
    }

    fn keep(self) -> Result<(), DemoError> {
        fs::remove_dir_all(&self.mmv_dir)
            .map_err(|source| DemoError::Directory { directory: self.mmv_dir, source })?;
        let _kept = self.directory.keep();
        Ok(())
    }
}

/// Shows the progress until the time is up, or a signal was received.
fn watch(shop: &Shop, mut progress: Progress, received: &AtomicUsize) -> io::Result<()> {
    let begun = Instant::now();
    let mut rates: Vec<Point> = Vec::new();
    let mut before = (0.0, shop.meters.requests.value());
    while begun.elapsed() < LASTS && received.load(Ordering::Relaxed) == 0 {
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
