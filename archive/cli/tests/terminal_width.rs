//! Tables are as wide as the terminal that they are printed on.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use test_archives::Builder;

/// Returns the longest line that `report` prints on a terminal of this width.
fn longest_line(base: &Path, width: u16, columns: Option<&str>) -> usize {
    let text = on_terminal(base, &["report", "web"], width, columns);
    assert!(text.lines().count() > 3, "{text}");
    text.lines().map(|line| line.trim_end().chars().count()).max().unwrap()
}

/// Returns what a command prints on a terminal of this width.
pub(crate) fn on_terminal(
    base: &Path,
    arguments: &[&str],
    width: u16,
    columns: Option<&str>,
) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    command
        .arg(arguments[0])
        .arg(base)
        .args(&arguments[1..])
        .stdout(terminal)
        .stderr(Stdio::piped())
        .env_remove("COLUMNS");
    command.envs(columns.map(|columns| ("COLUMNS", columns)));
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    drop(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut master, mut bytes) = (File::from(master), Vec::new());
    // Reading ends with an error once the terminal is closed.
    let _ = master.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_report_is_as_wide_as_its_terminal() {
    let names: Vec<String> = (0..30).map(|number| format!("web.number{number}")).collect();
    let builder = Builder::named("wide");
    let builder = names.iter().fold(builder, |builder, name| builder.metric(name, "u32 instant"));
    let archive = builder
        .rows((0..3).map(|second: u32| (second, names.iter().map(move |name| (name, second)))))
        .finish();
    for width in [60, 80, 133] {
        let longest = longest_line(&archive, width, None);
        let width = usize::from(width);
        assert!((width - 20..=width).contains(&longest), "{longest} of {width}");
    }
    let longest = longest_line(&archive, 80, Some("120"));
    assert!((100..=120).contains(&longest), "{longest}, COLUMNS=120");
}
