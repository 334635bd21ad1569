//! Checks of the dependencies: their licenses, registries and versions are those that `deny.toml`
//! allows, and no crate is compiled twice.
//!
//! `ci/deny` checks more (advisories, duplicates), where cargo-deny is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::binaries::workspace;
use crate::harness::cargo::{self, metadata};

#[test]
fn every_dependency_is_one_that_deny_toml_allows() {
    let text = fs::read_to_string(workspace().join("deny.toml")).unwrap();
    let policy: toml::Table = text.parse().unwrap();
    let licenses = policy["licenses"]["allow"].as_array().unwrap();
    let allowed: BTreeSet<&str> = licenses.iter().filter_map(toml::Value::as_str).collect();
    assert_eq!(policy["sources"]["unknown-registry"].as_str(), Some("deny"));
    assert_eq!(policy["bans"]["wildcards"].as_str(), Some("deny"));

    // Crates for other platforms need not be on the disk.
    let metadata = metadata(&["--filter-platform", &host()]);
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{}", packages.len());
    let faults: Vec<String> =
        packages.iter().filter_map(|package| fault(package, &allowed)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Crates of which `mmv-export` needs more than the others: prost's derive macro compares syntax
/// trees.
const DIFFER: &[&str] = &["syn"];

/// Cargo compiles a crate again for another set of features: `mmv-archive` after
/// `mmv-agent` would take a minute longer, and `ci/install` again.
#[test]
fn the_programs_need_each_crate_with_the_same_features() {
    let programs = ["mmv-agent", "mmv-archive", "mmv-export"].map(|name| (name, features(name)));
    let mut differ = Vec::new();
    for (program, crates) in &programs {
        assert!(crates.len() > 50, "{program}: {}", crates.len());
        let is_compared =
            |name: &str| !DIFFER.iter().any(|one| name.split(' ').next() == Some(one));
        for (name, features) in crates.iter().filter(|(name, _)| is_compared(name)) {
            let others = programs.iter().filter_map(|(other, crates)| {
                Some((other, crates.get(name).filter(|found| *found != features)?))
            });
            differ.extend(others.map(|(other, found)| (name, program, features, other, found)));
        }
    }
    assert!(
        differ.is_empty(),
        "programs differ in features; declare them in [workspace.dependencies]: {differ:#?}"
    );
}

/// Returns the crates that a program is built from, with all sets of features that each is
/// compiled with.
fn features(program: &str) -> BTreeMap<String, BTreeSet<String>> {
    let options = ["--package", program, "--edges", "normal,build", "--prefix", "none"];
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in cargo::tree(&options, "{p}|{f}").lines() {
        let line = line.trim_end_matches(" (*)");
        let (name, features) = line.split_once('|').expect("a crate and its features");
        crates.entry(name.to_owned()).or_default().insert(features.to_owned());
    }
    crates
}

fn host() -> String {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let output = Command::new(rustc).arg("-vV").output().expect("start rustc");
    let text = String::from_utf8(output.stdout).expect("text of rustc");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").to_owned()
}

fn fault(package: &Value, allowed: &BTreeSet<&str>) -> Option<String> {
    let name = package["name"].as_str()?;
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    if package["source"].as_str().is_some_and(|source| source != registry) {
        return Some(format!("{name} is from {}", package["source"]));
    }
    let license = package["license"].as_str().unwrap_or_default();
    if !is_allowed(license, allowed) {
        return Some(format!("{name} has the license \"{license}\""));
    }
    // Of others' dependencies the lock file decides.
    let is_wild = |dependency: &&Value| {
        let is_ours = dependency["source"].is_null();
        package["source"].is_null() && !is_ours && dependency["req"] == "*"
    };
    let dependency = package["dependencies"].as_array()?.iter().find(is_wild)?;
    Some(format!("{name} takes any version of {}", dependency["name"]))
}

fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut tokens = tokens.as_slice();
    any_of(&mut tokens, allowed) && tokens.is_empty()
}

fn any_of(tokens: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = all_of(tokens, allowed);
    while take(tokens, "OR") {
        is_met |= all_of(tokens, allowed);
    }
    is_met
}

fn all_of(tokens: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = one(tokens, allowed);
    while take(tokens, "AND") {
        is_met &= one(tokens, allowed);
    }
    is_met
}

fn one(tokens: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    if take(tokens, "(") {
        let is_met = any_of(tokens, allowed);
        return take(tokens, ")") && is_met;
    }
    let Some((license, after)) = tokens.split_first() else { return false };
    *tokens = after;
    // An exception only permits more.
    if take(tokens, "WITH") {
        *tokens = tokens.get(1..).unwrap_or_default();
    }
    allowed.contains(license)
}

fn take(tokens: &mut &[&str], token: &str) -> bool {
    let after = tokens.split_first().filter(|(first, _)| **first == token).map(|(_, after)| after);
    *tokens = after.unwrap_or(tokens);
    after.is_some()
}

#[test]
fn license_expressions_are_evaluated() {
    let allowed = BTreeSet::from(["MIT", "Apache-2.0", "Zlib"]);
    for (expression, expected) in [
        ("MIT", true),
        ("MIT/GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND Zlib", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Zlib", true),
        ("MIT OR GPL-3.0 AND GPL-2.0", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("GPL-3.0", false),
        ("", false),
        ("MIT Zlib", false),
        ("(MIT", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}
