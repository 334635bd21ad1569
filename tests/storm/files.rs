//! MMV files of version 3 as no honest program makes them: sections of any count at any
//! place of a file of any length, of which only what is written takes room on the disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process;

use crate::harness::dice::Dice;

pub(super) const INDOM: usize = 32;
pub(super) const INSTANCE: usize = 24;
const METRIC: usize = 48;
const VALUE: usize = 32;
const STRING: usize = 256;
pub(super) const LABEL: usize = 256;

/// `MMV_FLAG_NOPREFIX` and `MMV_FLAG_PROCESS` of `mmv_stats.h`.
pub(super) const NO_PREFIX: u32 = 1;
pub(super) const PROCESS: u32 = 2;

pub(super) const INDOMS: u32 = 1;
pub(super) const INSTANCES: u32 = 2;
const METRICS: u32 = 3;
const VALUES: u32 = 4;
const STRINGS: u32 = 5;
pub(super) const LABELS: u32 = 6;

const METRICS_AT: u64 = 4096;
const VALUES_AT: u64 = 16 << 10;
const STRINGS_AT: u64 = 32 << 10;
pub(super) const FREE_AT: u64 = 128 << 10;

#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) flags: u32,
    pub(super) cluster: u32,
    pub(super) generation: u64,
    /// Singular 64-bit counters: their names and values.
    pub(super) counters: Vec<(String, u64)>,
    /// The type of all of them, of `pmapi.h`.
    pub(super) value_type: u32,
    /// Further sections: code, count, offset.
    pub(super) sections: Vec<(u32, u32, u64)>,
    pub(super) bytes: Vec<(u64, Vec<u8>)>,
    /// The length of the file, if it is longer than its contents.
    pub(super) len: u64,
    pub(super) values_at: u64,
}

impl Image {
    /// Builds a file of these counters, at most 64.
    pub(super) fn new(counters: &[(&str, u64)]) -> Self {
        Self {
            flags: PROCESS,
            cluster: 0,
            generation: 1,
            counters: counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            value_type: 3,
            sections: Vec::new(),
            bytes: Vec::new(),
            len: 0,
            values_at: VALUES_AT,
        }
    }

    fn pieces(&self) -> Vec<(u64, Vec<u8>)> {
        let count = u32::try_from(self.counters.len()).expect("few");
        let mut sections = vec![
            (METRICS, count, METRICS_AT),
            (VALUES, count, self.values_at),
            (STRINGS, count, STRINGS_AT),
        ];
        sections.extend(&self.sections);
        sections.sort_unstable();
        let mut head = b"MMV\0".to_vec();
        let entries = u32::try_from(sections.len()).expect("few");
        head.extend(3_u32.to_ne_bytes());
        head.extend(self.generation.to_ne_bytes().repeat(2));
        for word in [entries, self.flags, process::id(), self.cluster] {
            head.extend(word.to_ne_bytes());
        }
        for (code, count, offset) in sections {
            head.extend([code, count].map(u32::to_ne_bytes).concat());
            head.extend(offset.to_ne_bytes());
        }
        let (mut metrics, mut values, mut strings) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (name, value)) in self.counters.iter().enumerate() {
            let string = STRINGS_AT + (index * STRING) as u64;
            metrics.extend(string.to_ne_bytes());
            let item = index as u32 + 1;
            for word in [item, self.value_type, 1, 1 << 20, u32::MAX, 0] {
                metrics.extend(word.to_ne_bytes());
            }
            metrics.extend([0; 16]);
            let metric = METRICS_AT + (index * METRIC) as u64;
            values.extend([*value, 0, metric, 0].map(u64::to_ne_bytes).concat());
            let mut text = name.as_bytes().to_vec();
            text.resize(STRING, 0);
            strings.extend(text);
        }
        assert_eq!(
            (metrics.len() / METRIC, values.len() / VALUE),
            (count as usize, count as usize)
        );
        let pieces = [(0, head), (METRICS_AT, metrics), (self.values_at, values)];
        let strings = [(STRINGS_AT, strings)];
        pieces.into_iter().chain(strings).chain(self.bytes.iter().cloned()).collect()
    }

    pub(super) fn publish(&self, directory: &Path, name: &str) -> io::Result<()> {
        let hidden = directory.join(format!(".{name}.{}", process::id()));
        let file = File::options().write(true).create(true).truncate(true).open(&hidden)?;
        for (offset, bytes) in self.pieces() {
            file.write_all_at(&bytes, offset)?;
        }
        if file.metadata()?.len() < self.len {
            file.set_len(self.len)?;
        }
        let renamed = fs::rename(&hidden, directory.join(name));
        if renamed.is_err() {
            fs::remove_file(hidden)?;
        }
        renamed
    }
}

/// Writes both generations anew, in place.
pub(super) fn flip(file: &File, generation: u64) -> io::Result<()> {
    file.write_all_at(&generation.to_ne_bytes().repeat(2), 8)
}

/// Builds a file of ten million empty instances, and labels of all classes to look up among them.
pub(super) fn empty_instances(dice: &mut Dice) -> Image {
    let instances = 9_000_000 + dice.below(1_000_000) as u32;
    let mut image = Image::new(&[("a", 1), ("b", 2)]);
    let (indoms_at, labels_at) = (FREE_AT, FREE_AT + INDOM as u64);
    let instances_at = labels_at + 250 * LABEL as u64;
    let mut indom = [1_u32, instances].map(u32::to_ne_bytes).concat();
    indom.extend(instances_at.to_ne_bytes());
    indom.resize(INDOM, 0);
    let mut labels = Vec::new();
    for number in 0..250_u32 {
        // PM_LABEL_INSTANCES of pmapi.h.
        let mut label = [1 << 5, 1, number].map(u32::to_ne_bytes).concat();
        label.extend(format!("{{\"l{number}\":1}}").bytes());
        label.resize(LABEL, 0);
        labels.extend(label);
    }
    image.sections = vec![
        (INDOMS, 1, indoms_at),
        (LABELS, 250, labels_at),
        (INSTANCES, instances, instances_at),
    ];
    image.bytes = vec![(indoms_at, indom), (labels_at, labels)];
    image.len = instances_at + u64::from(instances) * INSTANCE as u64;
    image
}

/// Offset of the values of a file by [`publish_spread`].
pub(super) const SPREAD_VALUES_AT: u64 = 64 << 20;

/// Publishes a file of version 1 with a counter of this many instances, whose values are `stride`
/// bytes apart: 32, or a multiple. Only written bytes take room on the disk.
pub(super) fn publish_spread(
    directory: &Path,
    name: &str,
    count: u32,
    stride: u64,
) -> io::Result<File> {
    const INSTANCES_AT: u64 = 4096;
    const INSTANCE_V1: u64 = 80;
    let indom_at = INSTANCES_AT - INDOM as u64;
    let metric_at = (INSTANCES_AT + u64::from(count) * INSTANCE_V1).next_multiple_of(4096);
    let entries = u64::from(count - 1) * (stride / VALUE as u64) + 1;
    let mut head = b"MMV\0".to_vec();
    head.extend(1_u32.to_ne_bytes());
    head.extend(1_u64.to_ne_bytes().repeat(2));
    for word in [4, PROCESS, process::id(), 0] {
        head.extend(word.to_ne_bytes());
    }
    let entries = u32::try_from(entries).expect("a count");
    for (code, count, offset) in [
        (INDOMS, 1, indom_at),
        (INSTANCES, count, INSTANCES_AT),
        (METRICS, 1, metric_at),
        (VALUES, entries, SPREAD_VALUES_AT),
    ] {
        head.extend([code, count].map(u32::to_ne_bytes).concat());
        head.extend(offset.to_ne_bytes());
    }
    let mut indom = [1, count].map(u32::to_ne_bytes).concat();
    indom.extend(INSTANCES_AT.to_ne_bytes());
    indom.resize(INDOM, 0);
    let mut instances = Vec::new();
    for number in 0..count {
        instances.extend(indom_at.to_ne_bytes());
        instances.extend([0, number].map(u32::to_ne_bytes).concat());
        let mut name = format!("i{number}").into_bytes();
        name.resize(64, 0);
        instances.extend(name);
    }
    let mut metric = b"spread".to_vec();
    metric.resize(64, 0);
    // PM_TYPE_U64 and PM_SEM_COUNTER of pmapi.h.
    for word in [1_u32, 3, 1, 1 << 20, 1, 0] {
        metric.extend(word.to_ne_bytes());
    }
    metric.extend([0; 16]);
    let hidden = directory.join(format!(".{name}.{}", process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(&hidden)?;
    for (bytes, at) in
        [(head, 0), (indom, indom_at), (instances, INSTANCES_AT), (metric, metric_at)]
    {
        file.write_all_at(&bytes, at)?;
    }
    for number in 0..count {
        let instance = INSTANCES_AT + u64::from(number) * INSTANCE_V1;
        let value = [1, 0, metric_at, instance].map(u64::to_ne_bytes).concat();
        file.write_all_at(&value, SPREAD_VALUES_AT + u64::from(number) * stride)?;
    }
    file.set_len((SPREAD_VALUES_AT + u64::from(count) * stride).next_multiple_of(64 << 10))?;
    fs::rename(&hidden, directory.join(name))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use mmv_format::file;
    use mmv_format::view::{Contents, Limits};

    use super::*;

    /// The attacks are attacks only if the agent does not refuse the files for another
    /// reason than the one that is meant.
    #[test]
    fn the_files_are_valid_but_for_what_is_wrong_with_them() {
        let directory = tempfile::tempdir().unwrap();
        let view = |image: &Image| {
            image.publish(directory.path(), "app").unwrap();
            let file = file::open(&directory.path().join("app")).expect("a file");
            Contents::read(&file, &Limits::default())
        };
        let image = Image { flags: NO_PREFIX, ..Image::new(&[("a.b", 1), ("c", 2)]) };
        assert_eq!(view(&image).unwrap().metrics.len(), 2);
        let far = Image { values_at: 1 << 40, ..Image::new(&[("a", 1)]) };
        assert_eq!(view(&far).unwrap().metrics.len(), 1);
        publish_spread(directory.path(), "app", 300, 128 << 10).unwrap();
        let file = file::open(&directory.path().join("app")).expect("a file");
        let spread = Contents::read(&file, &Limits::default()).unwrap();
        assert_eq!((spread.values.len(), spread.skipped.len()), (300, 0));
        let sparse = empty_instances(&mut Dice::new(1));
        assert!(fs::metadata(directory.path()).is_ok());
        sparse.publish(directory.path(), "sparse").unwrap();
        let found = fs::metadata(directory.path().join("sparse")).unwrap();
        assert!(found.len() > 200 << 20, "{}", found.len());
    }
}
