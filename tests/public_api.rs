//! The public interface of the libraries as text: a change of it is seen in the change of a file.
//!
//! The text has what `pub` makes reachable from the root of a crate, at the path that a user
//! writes: items, fields, variants, methods, and which traits a type implements. It is read from
//! the source (`surface`), so that it is the same with every toolchain. Implementations that a
//! `macro_rules` writes are not in it, nor what is re-exported from `pcp-types` beyond its name.

mod surface;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::binaries::workspace;

/// Set to write the texts instead of comparing them.
const UPDATE: &str = "UPDATE_PUBLIC_API";

const CRATES: [&str; 2] = ["mmv-writer", "pcp-archive"];

/// Returns the path of the committed text about a crate.
fn committed_path(crate_name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("public_api").join(crate_name);
    path.with_extension("txt")
}

fn committed(crate_name: &str) -> String {
    fs::read_to_string(committed_path(crate_name)).expect("the committed text")
}

#[track_caller]
fn compare(crate_name: &str, root: &str) {
    let found = surface::describe(crate_name, &workspace().join(root));
    let path = committed_path(crate_name);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, found).expect("write the text");
        return;
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let mut changes = String::new();
    for line in known.lines().filter(|line| !found.lines().any(|other| other == *line)) {
        writeln!(changes, "-{line}").expect("write to a string");
    }
    for line in found.lines().filter(|line| !known.lines().any(|other| other == *line)) {
        writeln!(changes, "+{line}").expect("write to a string");
    }
    assert!(
        known == found,
        "the public interface of {crate_name} is not that of {}:\n{changes}\
         If that is meant: {UPDATE}=1 cargo test -p integration --test integration public_api",
        path.display()
    );
}

#[test]
fn interface_of_the_writer_is_the_committed_one() {
    compare("mmv-writer", "mmv-writer/src/lib.rs");
}

#[test]
fn interface_of_the_archive_library_is_the_committed_one() {
    compare("pcp-archive", "archive/src/lib.rs");
}

/// So that a new variant or field breaks no program.
#[test]
fn errors_of_the_libraries_are_non_exhaustive() {
    let mut errors = 0;
    for crate_name in CRATES {
        for line in committed(crate_name).lines().filter(|line| line.contains("thiserror::Error")) {
            assert!(line.contains("#[non_exhaustive]"), "{line}");
            errors += 1;
        }
    }
    assert!(errors >= 8, "only {errors} errors");
}

/// A program has paths as texts, or of its own.
#[test]
fn paths_are_taken_in_any_form() {
    for crate_name in CRATES {
        for line in committed(crate_name).lines() {
            let is_borrowed = line.contains(": &Path,") || line.contains(": &Path)");
            assert!(!is_borrowed, "not `impl AsRef<Path>`: {line}");
        }
    }
}

/// A user can know the root of a crate.
#[test]
fn roots_of_the_libraries_have_few_names() {
    for (crate_name, most) in CRATES.into_iter().zip([32, 40]) {
        let path = format!("{}::", crate_name.replace('-', "_"));
        let text = committed(crate_name);
        let mut names = BTreeSet::new();
        for line in text.lines() {
            let item = line.strip_prefix(&path).and_then(|rest| rest.split_once(": "));
            names.extend(item.map(|(name, _)| name).filter(|name| !name.contains("::")));
        }
        assert!((20..=most).contains(&names.len()), "{crate_name}: {names:?}");
    }
}

#[test]
fn interface_has_what_a_user_can_reach_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        (
            "lib.rs",
            "mod inner;\npub mod open { pub use crate::inner::Thing as Other; }\npub use inner::Thing;\n#[doc(hidden)] pub mod hidden { pub fn f() {} }\nmod private { pub struct Unseen; }\npub use elsewhere::Name;\n",
        ),
        (
            "inner.rs",
            "mod deep;\npub use deep::Thing;\nimpl Clone for Thing<u8> { fn clone(&self) -> Self { todo!() } }\n#[cfg(test)] mod tests { pub struct Not; }\n",
        ),
        (
            "inner/deep.rs",
            "/// Text.\n#[derive(Debug)]\npub struct Thing<T> { pub count: u32, rest: T }\nimpl<T: Copy> Thing<T> {\n    pub fn set(&mut self, to: &'static str) -> Option<Vec<T>> { todo!() }\n    fn unseen(&self) {}\n    #[doc(hidden)] pub fn hidden(&self) {}\n}\n",
        ),
    ] {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = surface::describe("a-crate", &directory.path().join("lib.rs"));
    let expected = "\
a_crate::Name: pub use elsewhere::Name
a_crate::Thing: #[derive(Debug)] pub struct Thing<T>
a_crate::Thing: impl Clone for Thing<u8>
a_crate::Thing: impl<T: Copy> Thing<T> pub fn set(&mut self, to: &'static str) -> Option<Vec<T>>
a_crate::Thing: pub count: u32
a_crate::open::Other: pub use a_crate::Thing
";
    assert_eq!(found, expected);
}
