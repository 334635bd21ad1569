//! Progress of a pass over the data volumes.

use std::collections::BTreeMap;
use std::fs;

use crate::Record;
use crate::files::MemberFiles;

/// Bytes between two reports.
const STEP: u64 = 1 << 20;

/// Reports bytes done, of bytes in all, about once a megabyte.
///
/// A compressed volume counts as long as it is on disk: within it the report
/// runs ahead, and waits at its end.
pub(crate) struct Progress<'w> {
    watch: &'w mut dyn FnMut(u64, u64),
    /// For each volume its start in the data as a whole, and its size.
    volumes: BTreeMap<u32, (u64, u64)>,
    /// Bytes of all volumes.
    size: u64,
    passes: u64,
    /// Bytes that the passes before this one have done.
    before: u64,
    reported: u64,
}

impl<'w> Progress<'w> {
    pub(crate) fn new(
        files: &MemberFiles,
        passes: u64,
        watch: &'w mut dyn FnMut(u64, u64),
    ) -> Self {
        let mut size = 0;
        let mut volumes = BTreeMap::new();
        for (number, path) in &files.volumes {
            // A file that cannot be read is an error of the walk, not of this.
            let own = fs::metadata(path).map_or(0, |found| found.len());
            volumes.insert(*number, (size, own));
            size += own;
        }
        Self { watch, volumes, size, passes, before: 0, reported: 0 }
    }

    /// Reports that the walk has reached this record.
    pub(crate) fn advance_to(&mut self, record: &Record<'_>) {
        let Some((start, size)) = self.volumes.get(&record.volume()) else { return };
        self.report(self.before + start + record.offset().min(*size), STEP);
    }

    pub(crate) fn end_pass(&mut self) {
        self.before += self.size;
        self.report(self.before, 0);
    }

    fn report(&mut self, done: u64, step: u64) {
        if done >= self.reported + step {
            self.reported = done;
            (self.watch)(done, self.size * self.passes);
        }
    }
}

#[cfg(test)]
mod tests {
    use test_archives::Builder;

    use super::STEP;
    use crate::check::check_watched;
    use crate::writer;
    use crate::writer::repair::repair_watched;

    #[test]
    fn reports_rise_by_a_megabyte_to_the_end() {
        // 4 MB of texts in three volumes.
        let text = "x".repeat(100_000);
        let row = |second| (second, [("acme.text", &*text)]);
        let builder = Builder::new().metric("acme.text", "string discrete");
        let builder = builder.rows((0..14).map(row)).volume().rows((14..28).map(row));
        let (directory, base) = builder.volume().rows((28..40).map(row)).finish().into_parts();
        let new = directory.path().join("b");
        let volumes = ["a.0", "a.1", "a.2"].map(|name| directory.path().join(name));
        let size: u64 = volumes.iter().map(|file| file.metadata().unwrap().len()).sum();
        let mut reports = [const { Vec::new() }; 3];
        let [check, repair, reindex] = &mut reports;
        check_watched(&base, &mut |done, all| check.push((done, all))).unwrap();
        repair_watched(&base, &new, &mut |done, all| repair.push((done, all))).unwrap();
        writer::repair::reindex(&base, &mut |done, all| reindex.push((done, all))).unwrap();
        for (reports, passes) in reports.iter().zip([1, 2, 2]) {
            assert!(reports.iter().all(|(_, all)| *all == passes * size), "{reports:?}");
            assert!(reports.len() as u64 > 2 * passes, "{reports:?}");
            assert_eq!(reports.last().unwrap().0, passes * size);
            for pair in reports.windows(2) {
                // The last step of a pass is shorter.
                let step = if pair[1].0.is_multiple_of(size) { 0 } else { STEP };
                assert!(pair[1].0 >= pair[0].0 + step, "{reports:?}");
            }
        }
    }
}
