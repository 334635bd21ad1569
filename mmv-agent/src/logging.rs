//! One line on stderr for each thing that changed.
//!
//! Under systemd a line begins with its priority (`<4>`, `sd-daemon(3)`), so
//! that the journal files it rightly; by hand it begins with the program and,
//! for a warning or an error, that word.

use std::env;
use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Sends what is logged to stderr from now on. A subscriber that the process
/// has already stays as it is.
pub(crate) fn start() {
    let journal = env::var_os("JOURNAL_STREAM").is_some();
    // Fails only if there is a subscriber, which is then the one wanted.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .event_format(LineFormat { journal })
        .try_init();
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
        context.field_format().format_fields(writer.by_ref(), event)?;
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

    fn logged(journal: bool) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(LineFormat { journal })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(file = "a", "harvested");
            tracing::warn!(file = "b", "refused");
            tracing::error!("disk full");
        });
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn the_journal_gets_priorities() {
        assert_eq!(logged(true), "<6>harvested file=\"a\"\n<4>refused file=\"b\"\n<3>disk full\n");
    }

    #[test]
    fn people_get_words() {
        assert_eq!(
            logged(false),
            "mmv-agent: harvested file=\"a\"\n\
             mmv-agent: warning: refused file=\"b\"\n\
             mmv-agent: error: disk full\n"
        );
    }
}
