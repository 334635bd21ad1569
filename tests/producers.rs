//! Instrumented programs of other makers: in C with libpcp_mmv, in Perl with
//! `PCP::MMV`, in Python with pcp.mmv. Their sources lie in `producers/`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::harness::capi;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::skip;

/// A running program with its MMV file in a scratch directory; killed on drop.
#[derive(Debug)]
pub(crate) struct Producer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Producer {
    pub(crate) fn c(oracle: &Oracle, scratch: &Scratch, file: &str, version: u32) -> Self {
        Self::c_with(oracle, scratch, file, 320 + version, 0, version)
    }

    pub(crate) fn c_with(
        oracle: &Oracle,
        scratch: &Scratch,
        file: &str,
        cluster: u32,
        flags: u32,
        version: u32,
    ) -> Self {
        let mut command = oracle.command(compiled(oracle));
        command.arg(scratch.mmv_dir().join(file));
        command.args([cluster, flags, version].map(|number| number.to_string()));
        Self::start(command).expect("the C program is ready")
    }

    /// Starts the Perl program; `None`, with a message, where Perl cannot load the module.
    pub(crate) fn perl(oracle: &Oracle, scratch: &Scratch, file: &str) -> Option<Self> {
        Self::interpreted(oracle, "/usr/bin/perl", "everything.pl", "410", scratch, file)
    }

    /// Starts the Python program; `None`, with a message, where Python cannot load the module.
    pub(crate) fn python(oracle: &Oracle, scratch: &Scratch, file: &str) -> Option<Self> {
        Self::interpreted(oracle, oracle.python(), "everything.py", "411", scratch, file)
    }

    /// Starts the C program on our library instead of libpcp_mmv.
    pub(crate) fn c_on_ours(oracle: &Oracle, scratch: &Scratch, file: &str, version: u32) -> Self {
        let mut command = capi::on_ours(oracle.command(compiled(oracle)));
        command.arg(scratch.mmv_dir().join(file));
        command.args([320 + version, 0, version].map(|number| number.to_string()));
        Self::start(command).expect("the C program is ready")
    }

    /// Starts the Python program on our library; `None`, with a message, where Python cannot load
    /// the module.
    pub(crate) fn python_on_ours(oracle: &Oracle, scratch: &Scratch, file: &str) -> Option<Self> {
        let command = capi::on_ours(oracle.command(oracle.python()));
        Self::script(command, "everything.py", "411", scratch, file)
    }

    fn interpreted(
        oracle: &Oracle,
        interpreter: &str,
        script: &str,
        cluster: &str,
        scratch: &Scratch,
        file: &str,
    ) -> Option<Self> {
        Self::script(oracle.command(interpreter), script, cluster, scratch, file)
    }

    fn script(
        mut command: Command,
        script: &str,
        cluster: &str,
        scratch: &Scratch,
        file: &str,
    ) -> Option<Self> {
        let interpreter = command.get_program().to_owned();
        command.arg(sources().join(script)).arg(scratch.mmv_dir().join(file));
        command.args([cluster, "0"]);
        let producer = Self::start(command);
        if producer.is_none() {
            skip::skip(&format!("{} cannot run {script} here", interpreter.display()));
        }
        producer
    }

    /// Starts a program and waits until it prints `ready`.
    fn start(mut command: Command) -> Option<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().ok()?;
        let input = process.stdin.take()?;
        let output = BufReader::new(process.stdout.take()?);
        let mut producer = Self { process, input, output };
        (producer.answer() == "ready").then_some(producer)
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line of the program");
        line.trim_end().to_owned()
    }

    pub(crate) fn order(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("write to the program");
        assert_eq!(self.answer(), "done", "the answer to {line:?}");
    }

    /// Has it stop the proper way, and waits for its end.
    pub(crate) fn stop(mut self) {
        writeln!(self.input, "stop").expect("write to the program");
        let status = self.process.wait().expect("its status");
        assert!(status.success(), "the program: {status}");
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("producers")
}

/// Returns the C program, compiled once per run.
fn compiled(oracle: &Oracle) -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = tempfile::Builder::new()
            .prefix("producer-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("a directory for the program");
        let program = directory.keep().join("everything");
        let mut gcc = oracle.command("gcc");
        gcc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
        gcc.arg(sources().join("everything.c")).args(["-lpcp_mmv", "-lpcp"]);
        let output = gcc.output().expect("start gcc");
        assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
        program
    })
}
