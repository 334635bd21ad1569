//! The limit: only what no harvest can do without.
//!
//! All cells are loaded, their bytes swapped, and put into a prepared buffer of the
//! size of the agent's record; each file is looked at once (fstat); a second
//! thread hands the buffer to the kernel with one write. It keeps no
//! metadata, detects no change and checks nothing, and the result is not readable.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam::channel::bounded;
use mmv_format::mapping::{CellPlan, ReadMapping, guard};
use mmv_format::view::{Contents, Limits};

/// Record header with its length, time and count; and the length at its end.
const FRAME: usize = 4 + 12 + 4 + 4;
/// Head of a value set, value, and block of eight bytes.
const SINGULAR: usize = 12 + 8 + 12;
/// Value, and block of eight bytes.
const INSTANCE: usize = 8 + 12;

struct Source {
    file: File,
    mapping: ReadMapping,
    cells: CellPlan,
    words: Vec<u64>,
}

impl Source {
    fn open(path: &Path) -> Result<(Self, usize), String> {
        let failed = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let file = File::open(path).map_err(|error| failed(&error))?;
        let contents = Contents::read(&file, &Limits::default()).map_err(|error| failed(&error))?;
        let mapping = ReadMapping::map(&file).map_err(|error| failed(&error))?;
        let cells = contents.values.iter().map(|value| value.cell);
        let cells = CellPlan::new(cells, mapping.len()).ok_or_else(|| failed(&"cells"))?;
        let size = if contents.indoms.is_empty() { SINGULAR } else { INSTANCE };
        let words = vec![0; cells.len()];
        Ok((Self { file, mapping, cells, words }, size))
    }

    /// Puts all values into their places of a buffer; `false` if the file is not
    /// what it was.
    fn read(&mut self, buffer: &mut [u8], size: usize) -> bool {
        let loaded = self.mapping.load_while(&self.cells, &mut self.words, || true);
        for (place, word) in buffer.chunks_exact_mut(size).zip(&self.words) {
            if let Some(place) = place.last_chunk_mut() {
                *place = word.to_be_bytes();
            }
        }
        let len = self.file.metadata().map_or(0, |metadata| metadata.len());
        loaded && len == self.mapping.len() as u64
    }
}

pub(crate) fn run(directory: &Path, output: &Path, interval: Duration) -> Result<(), String> {
    guard::install().map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        sources.push(Source::open(&entry.map_err(failed)?.path())?);
    }
    let bytes: usize = sources.iter().map(|(source, size)| source.cells.len() * size).sum();
    let record = FRAME + bytes;
    let mut prepared = vec![0; record];
    prepared[..4].copy_from_slice(&(record as u32).to_be_bytes());

    let mut file = File::create(output).map_err(|error| error.to_string())?;
    let (full, to_write) = bounded::<Vec<u8>>(2);
    let (written, empty) = bounded(2);
    for _ in 0..2 {
        let _ = written.send(prepared.clone());
    }
    thread::spawn(move || {
        for buffer in &to_write {
            // A disk that is full shows: there are no records to be counted.
            let _ = file.write_all(&buffer);
            let _ = written.send(buffer);
        }
    });
    loop {
        let mut buffer: Vec<u8> = empty.recv().map_err(|error| error.to_string())?;
        let mut rest = &mut buffer[FRAME - 4..];
        for (source, size) in &mut sources {
            let (part, others) = rest.split_at_mut(source.cells.len() * *size);
            if !source.read(part, *size) {
                return Err("a file has changed".to_owned());
            }
            rest = others;
        }
        full.send(buffer).map_err(|error| error.to_string())?;
        thread::sleep(until_next(interval));
    }
}

fn until_next(interval: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let past = now.as_nanos() % interval.as_nanos().max(1);
    interval.saturating_sub(Duration::from_nanos(past as u64))
}
