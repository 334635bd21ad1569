//! The corpus of foreign files, which is too big for this repository.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::own_archives;

/// The corpus' directory of MMV files.
#[derive(Debug, Clone)]
pub(crate) struct Corpus {
    mmv: PathBuf,
}

impl Corpus {
    /// Finds it; `None`, with a message, where it is missing.
    pub(crate) fn find() -> Option<Self> {
        test_corpus::directory("mmv").map(|mmv| Self { mmv })
    }

    /// Lists the good files: name without the suffix, path, and description.
    pub(crate) fn good(&self) -> Vec<(String, PathBuf, Value)> {
        let manifest = read_json(&self.mmv.join("MANIFEST.json"));
        let names = manifest.as_array().expect("a list").iter().map(|entry| text(&entry["name"]));
        names
            .map(|name| {
                let path = self.mmv.join(format!("{name}.mmv"));
                let description = read_json(&self.mmv.join(format!("{name}.json")));
                (name, path, description)
            })
            .collect()
    }

    pub(crate) fn archive(&self, name: &str) -> PathBuf {
        self.mmv.with_file_name("archives").join(name)
    }

    pub(crate) fn archives(&self) -> Vec<(String, PathBuf)> {
        let archives = self.mmv.with_file_name("archives");
        let manifest = read_json(&archives.join("MANIFEST.json"));
        let names = manifest.as_array().expect("a list").iter().map(|entry| text(&entry["name"]));
        names.map(|name| (name.clone(), archives.join(name))).collect()
    }

    /// Lists the bad files: path, defect, and expected verdict.
    pub(crate) fn bad(&self) -> Vec<(PathBuf, String, String)> {
        let directory = self.mmv.join("bad");
        let expected = read_json(&directory.join("EXPECTED.json"));
        let entries = expected.as_array().expect("a list").iter();
        entries
            .map(|entry| {
                (
                    directory.join(text(&entry["file"])),
                    text(&entry["what"]),
                    text(&entry["verdict"]),
                )
            })
            .collect()
    }
}

/// An archive of the corpus, or one in its place.
#[derive(Debug, Clone)]
pub(crate) struct CorpusArchive {
    pub(crate) name: String,
    pub(crate) base: PathBuf,
}

/// Lists the good archives of the corpus; without a corpus, a few that are written here.
pub(crate) fn archives() -> Vec<CorpusArchive> {
    let Some(directory) = test_corpus::find("archives") else { return own_archives::all() };
    let manifest = read_json(&directory.join("MANIFEST.json"));
    let names = manifest.as_array().expect("a list").iter().map(|entry| text(&entry["name"]));
    names.map(|name| CorpusArchive { base: directory.join(&name), name }).collect()
}

fn read_json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}
