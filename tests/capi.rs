//! Our libpcp_mmv, made of `mmv-writer/capi`, against PCP's: the same symbols, and
//! the same from programs that were compiled for it.

mod arguments;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mmv_format::layout::{Header, LabelEntry, NO_VALUE, SectionKind, TocEntry, until_nul};
use mmv_format::view::{Contents, Limits};
use zerocopy::FromBytes as _;

use crate::harness::binaries::workspace;
use crate::harness::capi::{compile, library, on_ours, succeed};
use crate::harness::oracle::Oracle;
use crate::harness::pmcd::Pmcd;
use crate::harness::pminfo;
use crate::harness::scratch::Scratch;
use crate::harness::skip;
use crate::producers::{Producer, sources};

/// Files that `families make PATH` publishes.
const MADE: [&str; 4] = ["f.registry", "f.labels", "f.init", "f.init2"];

/// Prepares the program that calls every function, with our header and library.
fn families() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let (include, lib) = (library().join("include"), library().join("lib"));
        let paths = [format!("-I{}", include.display()), format!("-L{}", lib.display())];
        let options = [&paths[0], &paths[1], "-lpcp_mmv"];
        compile(Command::new("gcc"), &sources().join("families.c"), &options)
    });
    on_ours(Command::new(program))
}

/// Prepares the same program with PCP's headers and library.
fn families_of_pcp(oracle: &Oracle) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let options = ["-DWITH_PCP", "-lpcp_mmv", "-lpcp"];
        compile(oracle.command("gcc"), &sources().join("families.c"), &options)
    });
    oracle.command(program)
}

/// Returns the functions and the versions they are found under, as `mmv_inc@@PCP_MMV_1.4`.
fn symbols(library: &Path) -> BTreeSet<String> {
    let output = succeed(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(library));
    let listed = String::from_utf8(output.stdout).expect("text");
    let defined = listed.lines().filter(|line| !line.contains(" UND "));
    let names = defined.filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.contains("@@")).map(str::to_owned).collect()
}

fn contents(file: &Path) -> Contents {
    let contents = Contents::read(&File::open(file).expect("the file"), &Limits::default());
    let contents = contents.unwrap_or_else(|refusal| panic!("{}: {refusal}", file.display()));
    assert_eq!(contents.skipped, [], "{}", file.display());
    contents
}

/// Reads the cell of a value, as any process sees it.
fn cell(file: &Path, metric: &str, instance: Option<&str>) -> u64 {
    let contents = contents(file);
    let index = contents.metrics.iter().position(|found| found.name == metric);
    let index = index.expect("the metric");
    let indom = contents.metrics[index].indom.and_then(|serial| contents.indom(serial));
    let named = |name| indom?.instances.iter().find(|found| found.name == name);
    let id = instance.map(|name| named(name).expect("the instance").id);
    let value = contents.values_of(index).find(|value| value.instance == id);
    let mut bytes = [0; 8];
    let file = File::open(file).expect("the file");
    file.read_exact_at(&mut bytes, value.expect("its value").cell).expect("its cell");
    u64::from_ne_bytes(bytes)
}

/// Returns a file's bytes without generations and process, which differ from run to run, and
/// without the bytes after the end of a label, where PCP's library leaves whatever was in memory.
fn comparable(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).expect("the file");
    let (header, _) = Header::read_from_prefix(&bytes).expect("a header");
    assert_eq!((header.generation1, header.generation1 == 0), (header.generation2, false));
    bytes[8..24].fill(0);
    bytes[32..36].fill(0);
    for index in 0..header.toc_count as usize {
        let entry = &bytes[Header::BYTES + index * TocEntry::BYTES..];
        let (entry, _) = TocEntry::read_from_prefix(entry).expect("a table entry");
        if entry.kind != SectionKind::Labels.code() {
            continue;
        }
        let labels = &mut bytes[entry.offset as usize..];
        for label in labels.chunks_exact_mut(size_of::<LabelEntry>()) {
            let json = &mut label[12..];
            let end = until_nul(json).expect("an end").len();
            json[end..].fill(0);
        }
    }
    bytes
}

#[test]
fn the_library_has_the_symbols_of_libpcp_mmv_and_no_others() {
    let list = fs::read_to_string(workspace().join("mmv-writer/capi/symbols")).expect("the list");
    let expected: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let ours = symbols(&library().join("lib/libpcp_mmv.so.1"));
    let functions: BTreeSet<String> =
        ours.iter().filter(|name| !name.starts_with("PCP_MMV_")).cloned().collect();
    assert_eq!(functions, expected);
    if let Some(oracle) = Oracle::find() {
        // Versions up to the one that the oracle has.
        let theirs = symbols(&oracle.root().join("usr/lib/libpcp_mmv.so.1"));
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert!(!theirs.is_empty() && missing.is_empty(), "{missing:?} of {theirs:?}");
    }
}

#[test]
fn no_limit_on_the_size_of_files_kills_a_c_program() {
    use std::os::unix::process::ExitStatusExt as _;

    let scratch = Scratch::new();
    let path = scratch.mmv_dir().join("f");
    let mut failed = 0;
    for bytes in [0, 1, 100, 512, 1024, 2048, 4096, 8192, 16_384, 1 << 20] {
        let program = families();
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}")).arg(program.get_program());
        let variables = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(variables).arg("make").arg(&path).current_dir(scratch.path());
        let output = command.output().expect("run prlimit");
        // The program says what it was refused and ends; no signal ends it.
        assert_eq!(output.status.signal(), None, "{bytes}: {output:?}");
        failed += u32::from(!output.status.success());
        for entry in fs::read_dir(scratch.mmv_dir()).expect("the directory") {
            let entry = entry.expect("a file");
            assert!(entry.metadata().expect("its size").len() <= bytes, "{bytes}: {entry:?}");
            fs::remove_file(entry.path()).expect("remove it");
        }
    }
    assert!((1..10).contains(&failed), "{failed} of 10 limits are too low");
}

#[test]
fn every_function_works_from_c_without_pcp() {
    let scratch = Scratch::new();
    let path = scratch.mmv_dir().join("f");
    for mode in ["make", "refuse", "interval", "stop", "forked", "nulls"] {
        succeed(families().current_dir(scratch.path()).args([mode.as_ref(), path.as_os_str()]));
    }
    succeed(families().args(["make".as_ref(), path.as_os_str()]));
    let file = |name: &str| scratch.mmv_dir().join(name);
    assert_eq!(contents(&file("f.registry")).header.version, 1);
    assert_eq!(contents(&file("f.init2")).header.version, 2);
    let labelled = contents(&file("f.labels"));
    assert_eq!((labelled.header.version, labelled.labels.len()), (3, 6));
    // 1000 + 1 + 10 - 3 by the first functions, then what each type was given.
    assert_eq!(cell(&file("f.registry"), "i32", None), 808);
    assert_eq!(cell(&file("f.labels"), "i32", None), NO_VALUE);
    assert_eq!(cell(&file("f.registry"), "u32", None), 1);
    assert_eq!(cell(&file("f.registry"), "u64", None), 1008);
    assert_eq!(cell(&file("f.registry"), "double", None), 1009.0f64.to_bits());
    assert_eq!(cell(&file("f.registry"), "i64", None), (-2i64).cast_unsigned());
    assert_eq!(cell(&file("f.registry"), "disk", Some("sda")), 180);
    assert_eq!(cell(&file("f.registry"), "disk", Some("sdb")), 79);
    assert_eq!(cell(&file("f.registry"), "elapsed", None), 30);
}

/// Standards of C and C++ that gcc of Debian 12 and later knows.
const STANDARDS: [(&str, &[&str]); 2] = [
    ("c", &["c89", "c99", "c11", "c17", "c2x", "gnu89", "gnu17"]),
    ("c++", &["c++11", "c++14", "c++17", "c++20", "c++23", "gnu++17"]),
];

/// Compiles and runs `units.c` in each standard, with `pmUnits` of one origin.
fn initialize_units(compiler: impl Fn(&str) -> Command, shape: u32) {
    let include = library().join("include");
    let program = Scratch::new();
    let program = program.path().join("units");
    for (language, standards) in STANDARDS {
        let gcc = if language == "c" { "gcc" } else { "g++" };
        if Command::new(gcc).arg("--version").output().is_err() {
            skip::skip("the header in C++ needs g++");
            continue;
        }
        for standard in standards {
            let mut gcc = compiler(gcc);
            gcc.args(["-Wall", "-Wextra", "-Werror", "-pedantic-errors"]);
            gcc.args([format!("-std={standard}"), format!("-DSHAPE={shape}")]);
            gcc.arg("-I").arg(&include).args(["-x", language, "-o"]).arg(&program);
            succeed(gcc.arg(sources().join("units.c")));
            succeed(&mut Command::new(&program));
        }
    }
}

#[test]
fn the_header_compiles_in_every_standard() {
    initialize_units(|gcc| Command::new(gcc), 1);
}

#[test]
fn the_header_takes_units_of_pcp_7() {
    initialize_units(|gcc| Command::new(gcc), 3);
}

#[test]
fn the_header_compiles_after_pcps_own_in_every_standard() {
    let Some(oracle) = Oracle::find() else { return };
    let headers = oracle.root().join("usr/include");
    // System headers: what their own standard allows is theirs.
    initialize_units(
        |gcc| {
            let mut gcc = oracle.command(gcc);
            gcc.arg("-isystem").arg(&headers).env_remove("C_INCLUDE_PATH");
            // They need `struct timespec` in the standards without it.
            gcc.arg("-D_DEFAULT_SOURCE");
            gcc
        },
        2,
    );
}

#[test]
fn program_compiled_for_libpcp_mmv_writes_the_same_bytes() {
    let Some(oracle) = Oracle::find() else { return };
    let (theirs, ours) = (Scratch::new(), Scratch::new());
    for mode in ["make", "refuse", "interval", "stop", "forked"] {
        let paths = [&theirs, &ours].map(|scratch| scratch.mmv_dir().join("f"));
        let [on_theirs, on_ours_] = [families_of_pcp(&oracle), on_ours(families_of_pcp(&oracle))];
        for (mut program, path) in [on_theirs, on_ours_].into_iter().zip(paths) {
            succeed(program.args([mode.as_ref(), path.as_os_str()]));
        }
        if mode == "make" {
            for file in MADE {
                let [theirs, ours] =
                    [&theirs, &ours].map(|all| comparable(&all.mmv_dir().join(file)));
                assert!(theirs == ours, "{file} differs");
            }
        }
    }
}

#[test]
fn other_programs_for_libpcp_mmv_write_the_same_bytes_on_ours() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let file = |name: &str| scratch.mmv_dir().join(name);
    for version in 1..=3 {
        let mut theirs = Producer::c(&oracle, &scratch, "theirs", version);
        let mut ours = Producer::c_on_ours(&oracle, &scratch, "ours", version);
        for order in ["add 5", "add 0.5", "text changed"] {
            theirs.order(order);
            ours.order(order);
        }
        assert!(comparable(&file("theirs")) == comparable(&file("ours")), "version {version}");
    }
    let theirs = Producer::python(&oracle, &scratch, "theirs");
    let ours = Producer::python_on_ours(&oracle, &scratch, "ours");
    if theirs.is_some() {
        assert!(ours.is_some(), "Python runs on PCP's library and not on ours");
        assert!(comparable(&file("theirs")) == comparable(&file("ours")), "Python's");
    }
}

#[test]
fn pmdammv_and_mmvdump_read_what_ours_writes() {
    let Some(oracle) = Oracle::find() else { return };
    let (theirs, ours) = (Scratch::new(), Scratch::new());
    let served = |scratch: &Scratch, mut program: Command| {
        let path = scratch.mmv_dir().join("f");
        succeed(program.args(["make".as_ref(), path.as_os_str()]));
        let pmcd = Pmcd::start(&oracle, scratch);
        pminfo::ask(&oracle, ["-h", &pmcd.host()])
    };
    let by_pcp = served(&theirs, families_of_pcp(&oracle));
    let by_us = served(&ours, families());
    assert!(by_us.len() > 20, "{} metrics", by_us.len());
    assert_eq!(by_us, by_pcp);
    let dump = oracle.root().join("usr/lib/pcp/pmdas/mmv/mmvdump");
    for file in MADE {
        let printed = succeed(oracle.command(&dump).arg(ours.mmv_dir().join(file)));
        assert!(String::from_utf8_lossy(&printed.stdout).contains("TOC[0]"), "{file}");
    }
}

#[test]
fn the_example_in_c_counts_what_its_machines_make() {
    let lib = library().join("lib");
    let options = [
        format!("-I{}", library().join("include").display()),
        format!("-L{}", lib.display()),
        "-lpcp_mmv".to_owned(),
    ];
    let source = workspace().join("mmv-writer/capi/examples/acme.c");
    let program = compile(Command::new("gcc"), &source, &options.each_ref().map(String::as_str));
    let scratch = Scratch::new();
    let file = scratch.mmv_dir().join("acme");
    let output = succeed(on_ours(Command::new(program)).arg(&file).arg("5000"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "10000 products\n");
    assert!(!file.exists());
}

#[test]
fn threads_lose_nothing_through_the_c_interface() {
    let each = if std::env::var_os("MMV_LONG").is_some() { 10_000_000 } else { 500_000 };
    let scratch = Scratch::new();
    let counted = |mut program: Command, threads: u64| {
        let path = scratch.mmv_dir().join("f");
        program.arg("threads").arg(path).args([each, threads].map(|number| number.to_string()));
        let output = succeed(&mut program);
        String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
    };
    for threads in [2, 8] {
        let all = threads * each;
        assert_eq!(counted(families(), threads), format!("{all} {all} {all} -{all}"));
        assert_eq!(cell(&scratch.mmv_dir().join("f.registry"), "u64", None), all);
        if let Some(oracle) = Oracle::find() {
            let left = counted(families_of_pcp(&oracle), threads);
            let line = format!("of {all} each, {threads} threads of libpcp_mmv kept: {left}");
            // Not `eprintln!`: the test runner swallows what it prints in a test that passes.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}
