//! Archives in the current directory, named without a path.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::run;

fn archive() -> TempDir {
    let builder = Builder::named("acme").metric("a.b", "u32 instant count");
    builder.row(0, [("a.b", 1)]).finish().into_parts().0
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn repair_in_the_current_directory_keeps_its_files() {
    let whole = ["acme.0", "acme.index", "acme.meta"];
    for name in ["acme", "./acme", "acme.meta", ".", "acme.index"] {
        for command in [&["repair", "--index"][..], &["repair", "--in-place"]] {
            let directory = archive();
            let arguments = [command, &[name]].concat();
            let output = run(directory.path(), &arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            assert_eq!(files(directory.path()), whole, "{arguments:?}");
            let checked = run(directory.path(), &["check", "acme"]);
            assert!(checked.status.success(), "{arguments:?}: {checked:?}");
        }
    }
}

#[test]
fn an_extract_never_replaces_its_own_source() {
    let directory = archive();
    for (source, target) in [("acme", "acme"), ("./acme", "acme"), (".", "./acme")] {
        let output = run(directory.path(), &["extract", source, "-o", target, "--force"]);
        assert_eq!(output.status.code(), Some(74), "{source} {target}: {output:?}");
        assert!(run(directory.path(), &["check", "acme"]).status.success());
    }
}

#[test]
fn messages_have_the_paths_of_the_command_line() {
    let directory = archive();
    let output = run(directory.path(), &["extract", "acme", "-o", "acme"]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "mmv-archive: acme.meta: already exists; choose another name, files are never overwritten\n"
    );
    let output = run(directory.path(), &["extract", "./acme", "-o", "./acme"]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "mmv-archive: ./acme.meta: already exists; choose another name, files are never overwritten\n"
    );
}
