//! What one run of the agent is told to do.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

/// The folder of archives where neither an option nor systemd names one.
pub const DEFAULT_ARCHIVE_DIR: &str = "/var/log/mmv-agent";

/// Everything the agent needs to know before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The directory whose MMV files are harvested. It need not exist yet.
    pub mmv_dir: PathBuf,
    /// Where archives are put and how they are called.
    pub destination: Destination,
    /// Time from one sample to the next; not zero.
    pub interval: Duration,
    /// Stop after so many samples; `None`: go on until told to stop. A tick
    /// at which there was nothing to log counts.
    pub samples: Option<u64>,
    /// Stop when so much time has passed since the start.
    pub duration: Option<Duration>,
    /// How many bytes of records may wait for the disk. Two records may wait
    /// whatever their size.
    pub queue_bytes: usize,
}

/// Where archives go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `<folder>/<host>/YYYYMMDD.HH.MM`, the start of the archive in UTC.
    Folder(PathBuf),
    /// Exactly this base name.
    Base(PathBuf),
}

impl Settings {
    /// A second's interval, a queue of 64 MB, no end.
    pub fn new(mmv_dir: PathBuf, destination: Destination) -> Self {
        Self {
            mmv_dir,
            destination,
            interval: Duration::from_secs(1),
            samples: None,
            duration: None,
            queue_bytes: 64_000_000,
        }
    }
}

/// The folder for archives when no option names one: systemd's
/// `$LOGS_DIRECTORY`, else [`DEFAULT_ARCHIVE_DIR`].
pub fn default_archive_dir() -> PathBuf {
    let from_systemd = env::var("LOGS_DIRECTORY").ok().and_then(|list| {
        // With several directories in the unit this is a list; ours is first.
        list.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
    });
    from_systemd.unwrap_or_else(|| PathBuf::from(DEFAULT_ARCHIVE_DIR))
}

/// A text that is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a number followed by a unit.
    #[error("\"{text}\" is not a number with a unit: ms, s, m, h or d")]
    Syntax {
        /// The text given.
        text: String,
    },
    /// The number is zero, or too large to be counted in milliseconds.
    #[error("\"{text}\" is not between 1ms and 1000000d")]
    Range {
        /// The text given.
        text: String,
    },
}

/// Reads a length of time: `100ms`, `2s`, `1m`, `1.5h`, `1d`; a number alone
/// is seconds.
///
/// # Errors
///
/// [`DurationError::Syntax`] for other text, [`DurationError::Range`] for
/// less than a millisecond or more than a million days.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let syntax = || DurationError::Syntax { text: text.to_owned() };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds_each = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(syntax()),
    };
    let seconds = number.parse::<f64>().map_err(|_| syntax())? * seconds_each;
    if !(0.001..=86_400.0 * 1e6).contains(&seconds) {
        return Err(DurationError::Range { text: text.to_owned() });
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_with_their_unit() {
        for (text, millis) in [
            ("100ms", 100),
            ("500ms", 500),
            ("2s", 2_000),
            ("1m", 60_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
            ("3", 3_000),
            ("0.25", 250),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn text_without_number_or_with_another_unit_is_no_length_of_time() {
        for text in ["", "s", "1 s", "-1s", "1us", "1.2.3s", "ten", "1e3s"] {
            assert!(matches!(parse_duration(text), Err(DurationError::Syntax { .. })), "{text}");
        }
    }

    #[test]
    fn nothing_and_for_ever_are_out_of_range() {
        for text in ["0", "0s", "0.5ms", "99999999999d"] {
            assert!(matches!(parse_duration(text), Err(DurationError::Range { .. })), "{text}");
        }
    }
}
