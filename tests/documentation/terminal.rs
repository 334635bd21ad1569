//! A terminal of 80 columns with a shell.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, killpg};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::Pid;

/// Limit on the time of a command. The longest compile the workspace.
const PATIENCE: Duration = Duration::from_secs(900);

/// Around the exit status in the prompt; nothing else prints it.
const MARK: char = '\u{1e}';

/// A terminal, its shell killed on drop.
#[derive(Debug)]
pub(crate) struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// Text printed since the last command was typed.
    text: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) output: String,
    pub(crate) status: i32,
}

impl Terminal {
    /// Starts a shell; `command` is all that comes before `bash`, such as `env`.
    pub(crate) fn start(mut command: Command) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).expect("a terminal");
        let mut modes = tcgetattr(&pair.slave).expect("the terminal's modes");
        modes.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &modes).expect("a terminal without echo");
        let terminal = File::from(pair.slave);
        let shell = command
            .args(["setsid", "--ctty", "--wait"])
            .args(["bash", "--norc", "--noprofile", "--noediting", "-i"])
            .env("PS1", format!("{MARK}$?{MARK}"))
            .stdin(terminal.try_clone().expect("the terminal"))
            .stdout(terminal.try_clone().expect("the terminal"))
            .stderr(terminal)
            .spawn()
            .expect("start a shell");
        drop(command);
        let keyboard = File::from(pair.master);
        let mut master = keyboard.try_clone().expect("the terminal");
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = master.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self { shell, keyboard, screen, text: Vec::new() };
        terminal.prompt();
        terminal
    }

    pub(crate) fn run(&mut self, command: &str) -> Outcome {
        self.send(command);
        self.prompt()
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.text.clear();
        self.press(format!("{command}\n").as_bytes());
    }

    pub(crate) fn interrupt(&mut self) -> Outcome {
        self.press(&[3]);
        self.prompt()
    }

    /// Returns the text printed within a time, or until `seen` is content with it.
    pub(crate) fn watch(&mut self, patience: Duration, seen: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + patience;
        while !seen(&plain(&self.text)) && self.receive(deadline) {}
        plain(&self.text)
    }

    fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).expect("type in the terminal");
    }

    fn prompt(&mut self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = plain(&self.text);
            let parts: Vec<_> = text.split(MARK).collect();
            if let [.., output, status, ""] = parts[..] {
                self.text.clear();
                let status = status.parse().expect("the status in the prompt");
                return Outcome { output: output.to_owned(), status };
            }
            assert!(self.receive(deadline), "no prompt after {PATIENCE:?}, or no shell:\n{text}");
        }
    }

    /// Waits for more text; false at the deadline and at the end of the shell.
    fn receive(&mut self, deadline: Instant) -> bool {
        match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(bytes) => self.text.extend(bytes),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
        }
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Interrupts what runs in the foreground, then ends the shell.
        let _ = self.keyboard.write_all(&[3]);
        let _ = self.keyboard.write_all(b"exit\n");
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.shell.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        let group = Pid::from_raw(i32::try_from(self.shell.id()).unwrap_or(0));
        let _ = killpg(group, Signal::SIGKILL);
        let _: io::Result<()> = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Returns text as lines, without escape sequences.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut result = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => {}
            '\u{1b}' => {
                // `ESC [`, parameters, a letter; or `ESC` and a character.
                if characters.next() == Some('[') {
                    let _ = characters.by_ref().find(char::is_ascii_alphabetic);
                }
            }
            _ => result.push(character),
        }
    }
    result
}
