//! The journal of a program: a line before each change, in a file of its own for each thread.
//!
//! A change happens between its line and the next one of the thread, whose time was taken
//! later. So for each time it is known which changes had certainly happened and which may
//! have, also for a program that was killed: its last change may have happened or not.
//!
//! | line | |
//! |---|---|
//! | `TIME add METRIC INSTANCE NUMBER` | a counter is increased |
//! | `TIME set METRIC INSTANCE NUMBER` | a gauge is set |
//! | `TIME record METRIC INSTANCE NUMBER` | a histogram records a value |
//! | `TIME remove METRIC INSTANCE 0` | an instance is removed |
//! | `TIME done - - 0` | the change of the line before has happened |
//! | `TIME end - - 0` | the program is about to withdraw its file |
//!
//! Times are nanoseconds since 1970; fields are separated by tabs. An instance of a metric
//! without instances is empty.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_nanos()).expect("a time before 2262")
}

#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    pub(super) fn create(path: &Path) -> Self {
        Self { file: File::create_new(path).expect("a new journal") }
    }

    /// Writes a line. Each is one write: the program may be killed anywhere.
    pub(super) fn note(&mut self, what: What, metric: &str, instance: &str, number: u64) {
        let line = format!("{}\t{}\t{metric}\t{instance}\t{number}\n", now(), what.word());
        self.file.write_all(line.as_bytes()).expect("write the journal");
    }

    /// Notes that a counter is about to appear as 0.
    pub(super) fn note_zero(&mut self, metric: &str, instance: &str) {
        self.note(What::Add, metric, instance, 0);
    }

    /// Notes that a gauge is about to appear as 0.
    pub(super) fn note_zero_gauge(&mut self, metric: &str, instance: &str) {
        self.note(What::Set, metric, instance, 0);
    }

    pub(super) fn done(&mut self) {
        self.note(What::Done, "-", "-", 0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Add,
    Set,
    Record,
    Remove,
    Done,
    End,
}

impl What {
    const ALL: [Self; 6] =
        [Self::Add, Self::Set, Self::Record, Self::Remove, Self::Done, Self::End];

    fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Set => "set",
            Self::Record => "record",
            Self::Remove => "remove",
            Self::Done => "done",
            Self::End => "end",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) what: What,
    pub(super) metric: String,
    pub(super) instance: String,
    pub(super) number: u64,
    pub(super) from: i64,
    /// Time when the change had certainly happened; `i64::MAX` if it may never have.
    pub(super) until: i64,
}

/// Reads the journal of a thread. A last line that is cut off was not followed by a change.
pub(super) fn read(path: &Path) -> Vec<Line> {
    let text = fs::read_to_string(path).expect("a journal");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut lines: Vec<Line> = Vec::new();
    for line in whole.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [time, word, metric, instance, number] = fields[..] else { panic!("{line:?}") };
        let from = time.parse().expect("a time");
        if let Some(before) = lines.last_mut() {
            before.until = from;
        }
        let what = What::ALL.into_iter().find(|what| what.word() == word).expect("a word");
        let number = number.parse().expect("a number");
        let (metric, instance) = (metric.to_owned(), instance.to_owned());
        lines.push(Line { what, metric, instance, number, from, until: i64::MAX });
    }
    // An instance is removed from all its metrics after the line of the last one.
    for number in (1..lines.len()).rev() {
        if lines[number].what == What::Remove && lines[number - 1].what == What::Remove {
            lines[number - 1].until = lines[number].until;
        }
    }
    lines
}
