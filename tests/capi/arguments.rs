//! Compares our library's answers to bad arguments with PCP's: they are equal except for the
//! differences that the documentation of `mmv-writer/capi` lists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::capi::{compile, library, on_ours, succeed};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::producers::sources;

/// Case, libpcp_mmv 6.0.3 and 7.2.1, and ours.
const DIFFERENCES: [(&str, &str, &str); 37] = [
    // JSON that its parser lets pass.
    (r#"label 1 zone="\""#, r#"taken {"zone":"\"}"#, "EINVAL"),
    (r#"label 1 zone="\u12""#, r#"taken {"zone":"\u12"}"#, "EINVAL"),
    ("label 2 zone=-01", r#"taken {"zone":-01}"#, "EINVAL"),
    (r#"label 5 zone=[],"b":[]"#, r#"taken {"zone":[],"b":[]}"#, "EINVAL"),
    (r#"label 6 zone={},"b":{}"#, r#"taken {"zone":{},"b":{}}"#, "EINVAL"),
    (
        r#"label 6 zone={"a":{"b":1},"a":{"c":2}}"#,
        r#"taken {"zone":{"a":{"b":1},"a":{"c":2}}}"#,
        "EINVAL",
    ),
    (
        "label 5 zone=[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        "taken {\"zone\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
        "EINVAL",
    ),
    // Labels that it cuts.
    ("label 4 (235 bytes)=", "taken (243 bytes)", "E2BIG"),
    ("label 4 (236 bytes)=", "taken (243 bytes)", "E2BIG"),
    ("label 4 (237 bytes)=", "taken (243 bytes)", "E2BIG"),
    ("label 2 (238 bytes)=1", "taken (243 bytes)", "E2BIG"),
    ("label 4 (238 bytes)=", "taken (243 bytes)", "E2BIG"),
    ("label 4 (239 bytes)=", "taken (243 bytes)", "E2BIG"),
    ("start a path of 6000 bytes", "ENOENT", "ENAMETOOLONG"),
    // Numbers that the type does not have: theirs depend on the processor.
    ("set 0 4e+09", "0000000080000000", "000000007fffffff"),
    ("set 0 1e+19", "0000000080000000", "000000007fffffff"),
    ("set 0 1e+30", "0000000080000000", "000000007fffffff"),
    ("set 1 1e+19", "0000000000000000", "00000000ffffffff"),
    ("set 1 1e+30", "0000000000000000", "00000000ffffffff"),
    ("set 2 1e+19", "8000000000000000", "7fffffffffffffff"),
    ("set 2 1e+30", "8000000000000000", "7fffffffffffffff"),
    ("set 3 1e+30", "0000000000000000", "ffffffffffffffff"),
    ("the end of no interval", "added", "ignored"),
    ("a text of 2^32+5 bytes", "5", "0"),
    ("too long a text", "5", "0"), // The text before stays.
    ("a name's buffer reused", "lost", "one"),
    ("a path's buffer reused", "two", "one"),
    ("a null name", "dies", "EFAULT"),
    ("a null path", "dies", "EFAULT"),
    ("a null registry", "dies", "EFAULT"),
    ("to free null", "dies", "EFAULT"),
    ("a null text", "dies", "ignored"),
    ("null instances", "dies", "EFAULT"),
    ("-1 domains", "taken", "refused"),
    ("to stop twice", "dies", "ignored"),
    ("to stop and free", "dies", "ignored"),
    ("to stop another file", "removed", "stays"),
];

/// Keys that 7.2.1 takes as well.
const DIFFERENCES_BEFORE_7: [(&str, &str, &str); 2] = [
    (r#"label 6 zone={"a\x20b":1}"#, "EINVAL", r#"taken {"zone":{"a\x20b":1}}"#),
    (r#"label 6 zone={"":1}"#, "EINVAL", r#"taken {"zone":{"":1}}"#),
];

fn outcomes(mut program: Command) -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    program.arg(scratch.path()).env("PCP_TMP_DIR", scratch.path());
    let printed = String::from_utf8(succeed(&mut program).stdout).expect("text");
    printed
        .lines()
        .map(|line| {
            let (case, outcome) = line.rsplit_once(": ").expect("a case and what came of it");
            (case.to_owned(), outcome.to_owned())
        })
        .collect()
}

fn with_our_header() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let (include, lib) = (library().join("include"), library().join("lib"));
        let paths = [format!("-I{}", include.display()), format!("-L{}", lib.display())];
        let options = [&paths[0], &paths[1], "-lpcp_mmv"];
        compile(Command::new("gcc"), &sources().join("arguments.c"), &options)
    });
    on_ours(Command::new(program))
}

#[test]
fn bad_arguments_have_the_documented_outcome_without_pcp() {
    let ours = outcomes(with_our_header());
    for (case, _, expected) in DIFFERENCES.into_iter().chain(DIFFERENCES_BEFORE_7) {
        assert_eq!(ours.get(case).map(String::as_str), Some(expected), "{case}");
    }
    for (case, expected) in [
        (r#"label 1 zone="\xff""#, r#"taken {"zone":"\xff"}"#),
        (r"label 2 zone=\x201", r#"taken {"zone":\x201}"#),
        (r#"label 6 zone={"a":1,"a":2}"#, "EINVAL"),
        ("label 4 n=(238 bytes)", r#"taken {"n":null}"#),
        ("start a directory", "EEXIST"),
        ("start a name and a slash", "EISDIR"),
        ("start no name", "EISDIR"),
        ("an interval from zero", "0 0"),
    ] {
        assert_eq!(ours.get(case).map(String::as_str), Some(expected), "{case}");
    }
}

#[test]
fn bad_arguments_have_the_outcome_of_libpcp_mmv() {
    let Some(oracle) = Oracle::find() else { return };
    let options = ["-DWITH_PCP", "-lpcp_mmv", "-lpcp"];
    let program = compile(oracle.command("gcc"), &sources().join("arguments.c"), &options);
    let theirs = outcomes(oracle.command(&program));
    let ours = outcomes(on_ours(oracle.command(&program)));
    assert!(theirs.len() > 500 && theirs.keys().eq(ours.keys()), "{} cases", theirs.len());
    let differ = theirs.iter().zip(ours.values()).filter(|((_, theirs), ours)| theirs != ours);
    let found: BTreeMap<&str, (&str, &str)> =
        differ.map(|((case, theirs), ours)| (&case[..], (&theirs[..], &ours[..]))).collect();
    let before_7 = DIFFERENCES_BEFORE_7.into_iter().filter(|_| oracle.major() < 7);
    let documented = DIFFERENCES.into_iter().chain(before_7);
    let documented = documented.map(|(case, theirs, ours)| (case, (theirs, ours)));
    assert_eq!(found, documented.collect());
}
