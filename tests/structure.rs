//! The order of modules: among the modules of one parent, imports lead in one
//! direction.
//!
//! A reader who follows the imports of a module meets no module twice. The test
//! parses every library, binary and bench of the workspace (`modules`), resolves each
//! path in code to the module that defines its item, and fails where modules with
//! the same parent depend on each other in a circle (`circles`). Test modules are
//! left out; so is what a module has in common with its own parent or child.

mod circles;
mod modules;
mod tour;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::{Item, UseTree, Visibility};

use crate::harness::cargo::metadata;
use circles::{Circle, circles};
use modules::Crate;

/// Circles that exist: as the tests print them, by crate, parent and members.
/// An entry without its circle is an error, too. Never add to this list.
const KNOWN: &[&str] = &[];

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut found: Vec<(String, Circle)> = Vec::new();
    for (name, root) in crate_roots() {
        let circles = circles(&Crate::parse(&root)).into_iter();
        found.extend(circles.map(|circle| (format!("{name} {}", circle.title()), circle)));
    }
    let unknown: Vec<String> = found
        .iter()
        .filter(|(title, _)| !KNOWN.contains(&title.as_str()))
        .map(|(title, circle)| format!("{title}\n{circle}"))
        .collect();
    assert!(unknown.is_empty(), "modules import each other:\n{}", unknown.join("\n"));
    for known in KNOWN {
        assert!(found.iter().any(|(title, _)| title == known), "remove \"{known}\" from KNOWN");
    }
}

/// Limit on the names at the root of mmv-writer: what a program that counts has to look at.
const MAX_ROOT_NAMES: usize = 32;

#[test]
fn the_root_of_the_writer_has_few_names() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mmv-writer/src/lib.rs");
    let root = syn::parse_file(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut names = BTreeSet::new();
    for item in &root.items {
        match item {
            Item::Use(item) if is_public(&item.vis) => add_names(&item.tree, &mut names),
            Item::Mod(item) if is_public(&item.vis) => {
                names.insert(item.ident.to_string());
            }
            _ => {}
        }
    }
    assert!(names.contains("Counter") && names.contains("pcp"), "{names:?}");
    assert!(names.len() <= MAX_ROOT_NAMES, "{}: {names:?}", names.len());
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Adds the names that a `use` declares.
fn add_names(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => add_names(&path.tree, names),
        UseTree::Name(name) => {
            names.insert(name.ident.to_string());
        }
        UseTree::Rename(rename) => {
            names.insert(rename.rename.to_string());
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_names(tree, names)),
        UseTree::Glob(_) => panic!("a glob hides the names that it declares"),
    }
}

fn crate_roots() -> Vec<(String, PathBuf)> {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let roots: Vec<_> = targets
        .filter(|target| {
            let kinds = target["kind"].as_array().expect("kinds");
            kinds.iter().any(|kind| !matches!(kind.as_str(), Some("test" | "example")))
        })
        .map(|target| {
            let text = |key: &str| target[key].as_str().expect(key).to_owned();
            (text("name"), PathBuf::from(text("src_path")))
        })
        .collect();
    assert!(roots.len() >= 5, "{roots:?}");
    roots
}

/// Writes and parses a crate of the given files; `lib.rs` is its root.
fn made(files: &[(&str, &str)]) -> (tempfile::TempDir, Crate) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let made = Crate::parse(&directory.path().join("lib.rs"));
    (directory, made)
}

fn titles(files: &[(&str, &str)]) -> Vec<String> {
    let (_directory, made) = made(files);
    circles(&made).iter().map(Circle::title).collect()
}

#[test]
fn a_circle_is_printed_with_the_place_and_path_of_each_import() {
    let (directory, made) = made(&[
        ("lib.rs", "mod lexer;\nmod parser;\nmod tree;\n"),
        ("lexer.rs", "use crate::tree::Node;\npub struct Token(Node);\n"),
        ("parser.rs", "use crate::lexer::Token;\npub struct Parser(Token);\n"),
        ("tree.rs", "\npub struct Node(Box<super::parser::Parser>);\n"),
    ]);
    let found = circles(&made);
    assert_eq!(found.iter().map(Circle::title).collect::<Vec<_>>(), ["<root>: lexer parser tree"]);
    let text = found.first().unwrap().to_string();
    for (edge, file, path) in [
        ("lexer -> tree", "lexer.rs:1", "crate::tree::Node"),
        ("tree -> parser", "tree.rs:2", "super::parser::Parser"),
        ("parser -> lexer", "parser.rs:1", "crate::lexer::Token"),
    ] {
        let line = format!("  {edge}: {}: {path}\n", directory.path().join(file).display());
        assert!(text.contains(&line), "{line} in\n{text}");
    }
}

#[test]
fn one_direction_is_no_circle_nor_are_parents_and_children() {
    let files = [
        ("lib.rs", "mod a; mod b; pub struct Root(a::A);"),
        ("a.rs", "use crate::{Root, b::B}; pub struct A(B, Box<Root>);"),
        ("b.rs", "mod inner; pub struct B(inner::Inner);"),
        ("b/inner.rs", "use super::B; pub struct Inner(Box<B>);"),
    ];
    assert!(titles(&files).is_empty());
}

#[test]
fn deeper_modules_are_compared_with_their_own_siblings() {
    let files = [
        ("lib.rs", "mod outer;"),
        ("outer.rs", "mod left; mod right { pub struct R(super::left::deep::L); }"),
        ("outer/left.rs", "pub mod deep;"),
        ("outer/left/deep.rs", "pub struct L(Box<crate::outer::right::R>);"),
    ];
    assert_eq!(titles(&files), ["outer: left right"]);
}

#[test]
fn an_import_counts_for_the_module_that_defines_the_item() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use b::*; use c::C as Renamed;"),
        ("a.rs", "use crate::{B, Renamed}; pub struct A(B, Renamed);"),
        ("b.rs", "pub struct B(Box<crate::a::A>);"),
        ("c.rs", "pub struct C(Box<super::a::A>);"),
    ];
    assert_eq!(titles(&files), ["<root>: a b c"]);
}

#[test]
fn paths_in_macros_count_and_those_of_tests_do_not() {
    let files = |attribute: &str| {
        [
            ("lib.rs".to_owned(), "mod a; mod b;".to_owned()),
            (
                "a.rs".to_owned(),
                "pub fn a() { println!(\"{}\", [crate::b::b()].len()) }".to_owned(),
            ),
            (
                "b.rs".to_owned(),
                format!("pub fn b() {{}} {attribute} mod tests {{ use crate::a; }}"),
            ),
        ]
    };
    for (attribute, expected) in
        [("", 1), ("#[cfg(test)]", 0), ("#[cfg(all(test, unix))]", 0), ("#[cfg(not(test))]", 1)]
    {
        let files = files(attribute);
        let files = files.each_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        assert_eq!(titles(&files).len(), expected, "{attribute}");
    }
}
