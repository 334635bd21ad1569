//! The ways to the samples of a report: what has to be seen as a whole is
//! loaded, all else comes piece by piece.
//!
//! | moments | way |
//! |---|---|
//! | of the records | record by record |
//! | every interval | a piece of the window at a time |
//! | every interval, stepping | loaded: a step depends on the one before |
//! | one by one | loaded around each of them |

use std::time::Duration;

use pcp_types::Timestamp;

use super::{Writer, tell};
use crate::cli::failure::Failure;
use crate::cli::window::Window;
use crate::replay::{self, Logged, Replay, Sample, Selection};

/// What a report asks for.
pub(super) struct Request {
    pub(super) moments: Moments,
    pub(super) window: Window,
    /// From one sample to the next, and as far as rates look back.
    pub(super) step: Duration,
    /// The most samples there are.
    pub(super) count: usize,
    /// Counters are reported as rates.
    pub(super) rates: bool,
    /// As PCP's programs see it that step through an archive.
    pub(super) stepping: bool,
}

/// Which moments are reported.
pub(super) enum Moments {
    /// Those of the records.
    Logged,
    /// From a first to a last one, every interval.
    Even { first: Timestamp, last: Timestamp },
    /// Those given one by one.
    Listed(Vec<Timestamp>),
}

/// Where the samples come from.
pub(super) enum Answers<'a> {
    Logged(Box<Logged<'a>>),
    Even(Box<replay::Window<'a>>),
    Loaded(Box<Replay<'a>>),
}

impl Request {
    /// The sample at a moment; `None` outside the archive.
    fn sample<'r>(&self, replay: &'r Replay<'_>, at: Timestamp) -> Option<Sample<'r>> {
        let since = at.saturating_sub(self.step);
        if self.rates { replay.rates_at(at, since) } else { replay.at_since(at, since) }
    }
}

impl<'a> Answers<'a> {
    /// Begins to read the selected metrics.
    pub(super) fn new(selection: Selection<'a>, request: &Request) -> Result<Self, Failure> {
        let looks_back = request.stepping || request.rates || selection.needs_moment_before();
        let back = if looks_back { request.step } else { Duration::ZERO };
        Ok(match &request.moments {
            Moments::Logged => Self::Logged(Box::new(selection.logged()?)),
            Moments::Listed(times) => Self::Loaded(Box::new(selection.load_moments(times, back)?)),
            Moments::Even { first, last } if request.stepping => {
                let spans = [first.saturating_sub(back)..=*last];
                Self::Loaded(Box::new(selection.load_spans(&spans)?))
            }
            Moments::Even { first, last } => {
                Self::Even(Box::new(selection.window(*first..=*last, request.step, back)?))
            }
        })
    }

    /// What is read so far.
    pub(super) fn replay(&self) -> &Replay<'a> {
        match self {
            Self::Logged(logged) => logged.replay(),
            Self::Even(window) => window.replay(),
            Self::Loaded(replay) => replay,
        }
    }

    /// Writes the samples that are asked for.
    pub(super) fn write(
        &mut self,
        request: &Request,
        writer: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        match (self, &request.moments) {
            (Self::Logged(logged), _) => write_logged(logged, request, writer),
            (Self::Even(window), _) => write_window(window, request, writer),
            (Self::Loaded(replay), Moments::Listed(times)) => {
                // A time outside the archive is a line without values: as many
                // lines come out as times went in.
                let values = vec![replay::Values::new(); replay.metrics().len()];
                let nothing =
                    |timestamp| Sample { timestamp, is_mark: false, values: values.clone() };
                let sample = |&at| request.sample(replay, at).unwrap_or_else(|| nothing(at));
                writer.write(times.iter().map(sample)).map(|_| ())
            }
            (Self::Loaded(replay), Moments::Even { first, last }) => {
                let times = replay::times(*first..=*last, request.step);
                writer.write(replay.steps(times)).map(|_| ())
            }
            (Self::Loaded(_), Moments::Logged) => Ok(()),
        }
    }
}

fn write_logged(
    logged: &mut Logged<'_>,
    request: &Request,
    writer: &mut Writer<'_>,
) -> Result<(), Failure> {
    let Window { start, end, .. } = request.window;
    let is_within = |sample: &Sample<'_>| start <= sample.timestamp && sample.timestamp <= end;
    let mut left = request.count;
    while left > 0 && logged.next_piece()? {
        let samples = logged.replay().observations().filter(is_within).take(left);
        left -= writer.write(samples)?;
    }
    Ok(())
}

fn write_window(
    window: &mut replay::Window<'_>,
    request: &Request,
    writer: &mut Writer<'_>,
) -> Result<(), Failure> {
    let was_whole = window.is_whole();
    let written =
        writer.write_window(window, request.step, |replay, at| request.sample(replay, at));
    if window.is_whole() && !was_whole {
        tell(window.replay());
    }
    written
}
