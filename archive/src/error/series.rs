//! Errors of questions for one metric.

use std::fmt;

use pcp_types::printable::line;

use super::Error;

/// The reason why a series has no answer.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the message above each variant")]
pub enum SeriesError {
    /// The archive has no metric of this name. `nearest` is the name most like it.
    #[error("no metric {}{}", line(name), suggestion(nearest.as_deref()))]
    UnknownMetric { name: String, nearest: Option<String> },
    /// The name is a branch or a pattern for several metrics.
    #[error("{} stands for {count} metrics; name one of them", line(name))]
    SeveralMetrics { name: String, count: usize },
    /// The values are texts, events or bytes, which [`replay`](crate::replay) returns.
    #[error("the values of metric {} are not numbers; read them with replay", line(name))]
    NotNumbers { name: String },
    /// Quantiles were asked for of something else than a histogram.
    #[error("metric {} is not a histogram, which a quantile needs", line(name))]
    NotHistogram { name: String },
    /// A text is not an interval, such as "5min", or not longer than 0.
    #[error("\"{}\" is not an interval; expected a positive one such as \"5min\"", line(text))]
    Interval { text: String },
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] Error),
}

pub(crate) fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; the nearest name is {}", line(name)))
}

impl fmt::Debug for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// So that a program whose functions return [`Error`] asks for series as for anything else.
impl From<SeriesError> for Error {
    fn from(error: SeriesError) -> Self {
        match error {
            SeriesError::Archive(error) => error,
            error => Self::Series(Box::new(error)),
        }
    }
}
