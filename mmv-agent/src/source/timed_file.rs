//! Time limit for reading the metadata of one file.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use mmv_format::view;

/// Longest time that reading one file may wait for the file system. What was read by then stays in
/// memory usually, so that another attempt comes further.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A file that is read within a limited time. Only the system calls count.
#[derive(Debug)]
pub(super) struct TimedFile<'a> {
    file: &'a File,
    waited: Cell<Duration>,
}

impl<'a> TimedFile<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        Self { file, waited: Cell::new(Duration::ZERO) }
    }

    fn time<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.waited.get() > LONGEST_WAIT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "reading it takes too long"));
        }
        let began = Instant::now();
        let result = call();
        self.waited.set(self.waited.get() + began.elapsed());
        result
    }
}

impl view::Source for TimedFile<'_> {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.time(|| self.file.fill(buffer, offset))
    }

    fn data(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        self.time(|| self.file.data(range))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use mmv_format::view::Source as _;

    use super::*;

    #[test]
    fn a_file_is_read_until_its_time_is_over() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"text").unwrap();
        let timed = TimedFile::new(&file);
        let mut bytes = [0; 2];
        timed.fill(&mut bytes, 1).unwrap();
        assert_eq!((&bytes, timed.data(0..4).unwrap()), (b"ex", Some(0..4)));
        assert!(timed.waited.get() > Duration::ZERO);
        timed.waited.set(2 * LONGEST_WAIT);
        assert_eq!(timed.fill(&mut bytes, 1).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(timed.data(0..4).is_err());
    }
}
