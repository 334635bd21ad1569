//! A program that counts through the facade under a limit on the size of files is never
//! killed.
//!
//! The program is this test again, in a child process of a shell that sets the limit.

use std::process::Command;

use metrics::{counter, gauge, histogram, with_local_recorder};
use mmv_metrics::Recorder;
use mmv_writer::Registry;

/// What `ulimit -f` counts in, in a POSIX shell.
const BLOCK: u64 = 512;

#[test]
#[ignore = "run by the test below"]
fn program() {
    let directory = std::env::var("LIMIT_DIRECTORY").unwrap();
    let registry = Registry::builder("app").directory(directory).lenient().build().unwrap();
    let recorder = Recorder::new(&registry);
    with_local_recorder(&recorder, || {
        for index in 0..500u32 {
            counter!(format!("c{index}")).increment(1);
            counter!("labelled", "index" => index.to_string()).increment(1);
            gauge!("level", "index" => (index % 10).to_string()).set(1.0);
            histogram!("sizes").record(f64::from(index));
        }
    });
}

#[test]
fn what_cannot_be_counted_is_not_printed_beyond_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let blocks = 1000;
    let stderr = std::fs::File::create(&log).unwrap();
    stderr.set_len(blocks * BLOCK).unwrap();
    let append = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    let status = Command::new("sh")
        .args([
            "-c",
            &format!(
                "ulimit -f {blocks} && exec \"$0\" --ignored --exact file_size_limit::program"
            ),
        ])
        .arg(std::env::current_exe().unwrap())
        .env("LIMIT_DIRECTORY", directory.path())
        .stdout(std::process::Stdio::null())
        .stderr(append)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(log.metadata().unwrap().len(), blocks * BLOCK);
}

#[test]
fn a_program_counts_under_any_limit_on_the_size_of_its_files() {
    for blocks in [0, 1, 100, 1000, 10_000] {
        let directory = tempfile::tempdir().unwrap();
        let command = format!(
            "ulimit -f {blocks} && exec \"$0\" --ignored --nocapture --exact file_size_limit::program"
        );
        let output = Command::new("sh")
            .args(["-c", &command])
            .arg(std::env::current_exe().unwrap())
            .env("LIMIT_DIRECTORY", directory.path())
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{blocks}: {}: {complaints}", output.status);
        let entries = std::fs::read_dir(directory.path()).unwrap();
        let sizes: Vec<u64> =
            entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
        assert!(sizes.iter().all(|size| *size <= blocks * BLOCK), "{blocks}: {sizes:?}");
        // Withdrawn, as the program has ended.
        assert_eq!(complaints.contains("not published: "), blocks < 10_000, "{complaints}");
        assert!(blocks > 100 || complaints.contains("File too large"), "{complaints}");
    }
}
