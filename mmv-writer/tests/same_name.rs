//! Several processes with one name: of those that start at once one has the file, and the
//! file of a killed one is free at once.
//!
//! The processes are this test again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use mmv_writer::{Error, Registry};

use crate::child;

struct Process(Child);

impl Process {
    fn start(directory: &Path) -> Self {
        let mut command = child::running("same_name::publishes_until_it_is_killed");
        command.env("MMV_TEST_DIRECTORY", directory);
        Self(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn has_the_file(&mut self) -> bool {
        let mut line = String::new();
        BufReader::new(self.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        match line.trim() {
            "published" => true,
            "refused" => false,
            other => panic!("{other}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the child process of the other tests"]
fn publishes_until_it_is_killed() {
    let Some(directory) = std::env::var_os("MMV_TEST_DIRECTORY") else { return };
    let registry = Registry::builder("app").sealed().directory(directory).build().unwrap();
    let published = registry.publish();
    let result = match &published {
        Ok(_) => "published",
        Err(Error::Running { .. }) => "refused",
        Err(error) => panic!("{error}"),
    };
    // In one piece.
    std::io::stderr().write_all(format!("{result}\n").as_bytes()).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn of_processes_that_start_at_once_one_has_the_file() {
    let directory = tempfile::tempdir().unwrap();
    // In the first round there is no file, in the others that of a killed process.
    for round in 0..5 {
        let mut processes: Vec<_> = (0..6).map(|_| Process::start(directory.path())).collect();
        let publishing =
            processes.iter_mut().filter_map(|process| process.has_the_file().then_some(()));
        assert_eq!(publishing.count(), 1, "round {round}");
    }
}

#[test]
fn the_file_of_a_killed_process_is_free_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let mut process = Process::start(directory.path());
        assert!(process.has_the_file());
        let mut second = Process::start(directory.path());
        assert!(!second.has_the_file());
    }
    drop(Registry::builder("app").directory(directory.path()).build().unwrap());
}
