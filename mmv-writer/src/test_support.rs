//! Files of registries as another program reads them, for unit tests.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use mmv_format::view::{Contents, Limits};
use tempfile::TempDir;

use crate::Registry;
use crate::pcp::InstanceId;

pub(crate) fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the names of all files of a directory, sorted.
pub(crate) fn names_in(directory: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the file of a registry and its overflow files.
pub(crate) fn files(registry: &Registry) -> Vec<PathBuf> {
    std::iter::once(registry.path().to_owned()).chain(registry.overflow()).collect()
}

/// Reads a file once it is complete; nothing may be skipped.
pub(crate) fn contents_of(path: &Path) -> Contents {
    let contents = loop {
        match Contents::read(&File::open(path).unwrap(), &Limits::default()) {
            Err(refusal) if refusal.is_not_ready() => {}
            contents => break contents.unwrap(),
        }
    };
    assert_eq!(contents.skipped, []);
    contents
}

/// Reads metric, instance and number of each value.
pub(crate) fn values_of(path: &Path) -> Vec<(String, Option<String>, u64)> {
    let contents = contents_of(path);
    let file = File::open(path).unwrap();
    let value = |value: &mmv_format::view::ValueLocation| {
        let metric = &contents.metrics[value.metric];
        let instance = value.instance.map(|id| name_of(&contents, metric.indom.unwrap(), id));
        (metric.name.clone(), instance, word(&file, value.cell))
    };
    contents.values.iter().map(value).collect()
}

/// Reads metric and number of each value without an instance.
pub(crate) fn singular_values_of(path: &Path) -> Vec<(String, u64)> {
    let values = values_of(path).into_iter().filter(|(_, instance, _)| instance.is_none());
    values.map(|(metric, _, number)| (metric, number)).collect()
}

pub(crate) fn name_of(contents: &Contents, serial: u32, id: InstanceId) -> String {
    let instances = &contents.indom(serial).unwrap().instances;
    instances.iter().find(|instance| instance.id == id).unwrap().name.clone()
}

pub(crate) fn word(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).unwrap();
    u64::from_ne_bytes(bytes)
}
