//! The log: one line on stderr for each change.
//!
//! Under systemd a line begins with its priority (`<4>`, `sd-daemon(3)`), so that the journal
//! files it by priority. Otherwise it begins with the name of the program, and for a warning or an
//! error with that word.

use std::env;
use std::fmt;

use pcp_types::printable;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts to log to stderr, unless the process has a subscriber already.
pub(crate) fn start() {
    let journal = env::var("JOURNAL_STREAM").is_ok_and(|stream| is_stderr(&stream));
    // This fails only if there is a subscriber.
    let _ = tracing_subscriber::fmt()
        // Otherwise an unwritable stderr (a log on a full disk) would cause a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .event_format(LineFormat { journal })
        .try_init();
}

/// Returns true if stderr is the stream that systemd names by device and inode (`$JOURNAL_STREAM`,
/// `systemd.exec(5)`). Children inherit the variable even if their stderr goes elsewhere.
fn is_stderr(stream: &str) -> bool {
    nix::sys::stat::fstat(std::io::stderr())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

struct LineFormat {
    journal: bool,
}

impl LineFormat {
    fn prefix(&self, level: Level) -> &'static str {
        match (self.journal, level) {
            (true, Level::ERROR) => "<3>",
            (true, Level::WARN) => "<4>",
            (true, Level::INFO) => "<6>",
            (true, _) => "<7>",
            (false, Level::ERROR) => "mmv-agent: error: ",
            (false, Level::WARN) => "mmv-agent: warning: ",
            (false, _) => "mmv-agent: ",
        }
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(self.prefix(*event.metadata().level()))?;
        let mut line = String::new();
        context.field_format().format_fields(Writer::new(&mut line), event)?;
        // Names come from files of any process: they must not begin a line.
        writer.write_str(&printable::line(&line))?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(journal: bool, what: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(LineFormat { journal })
            .finish();
        tracing::subscriber::with_default(subscriber, what);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn three_lines() {
        tracing::info!(file = "a", "harvested");
        tracing::warn!(file = "b", "refused");
        tracing::error!("disk full");
    }

    #[test]
    fn for_the_journal_lines_have_priorities() {
        assert_eq!(
            logged(true, three_lines),
            "<6>harvested file=\"a\"\n<4>refused file=\"b\"\n<3>disk full\n"
        );
    }

    #[test]
    fn a_name_cannot_begin_a_line_of_its_own() {
        let name = "a\n<3>disk full\x1b[2J\u{9b}0m\u{202e}";
        let logged = logged(true, || tracing::info!(file = %name, "refused"));
        let expected = "<6>refused file=a\\x0a<3>disk full\\x1b[2J\\xc2\\x9b0m\\xe2\\x80\\xae\n";
        assert_eq!(logged, expected);
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let stat = nix::sys::stat::fstat(std::io::stderr()).unwrap();
        assert!(is_stderr(&format!("{}:{}", stat.st_dev, stat.st_ino)));
        assert!(!is_stderr("1:1") && !is_stderr(""));
    }

    #[test]
    fn without_the_journal_lines_have_words() {
        assert_eq!(
            logged(false, three_lines),
            "mmv-agent: harvested file=\"a\"\n\
             mmv-agent: warning: refused file=\"b\"\n\
             mmv-agent: error: disk full\n"
        );
    }
}
