//! Reads the samples of a report, in pieces where possible.
//!
//! | times | read |
//! |---|---|
//! | of the records | record by record |
//! | every interval | a piece of the window at a time |
//! | every interval, stepping | loaded as a whole: a step depends on the one before |
//! | a list | loaded around each time |

use std::time::Duration;

use pcp_archive::Timestamp;
use pcp_archive::replay::{self, LoggedBatches, Replay, ReplaySelection, Sample};

use crate::Failure;
use crate::formats::Writer;
use crate::selection::warn_of_losses;
use crate::time::{Window, Zone};

pub(super) struct Request {
    pub(super) times: SampleTimes,
    pub(super) window: Window,
    /// The time between samples, over which rates are computed.
    pub(super) step: Duration,
    /// The maximum number of samples.
    pub(super) count: usize,
    /// Counters are converted to rates.
    pub(super) rates: bool,
    pub(super) zone: Zone,
    /// Counters are missing after a mark, as for PCP's programs that step through an
    /// archive.
    pub(super) stepping: bool,
}

/// The times of the samples.
pub(super) enum SampleTimes {
    /// The times of the records.
    Logged,
    /// From the first to the last time, every interval.
    Regular { first: Timestamp, last: Timestamp },
    /// At given times.
    Listed(Vec<Timestamp>),
}

pub(super) enum Samples<'a> {
    Logged(Box<LoggedBatches<'a>>),
    Regular(Box<replay::Window<'a>>),
    Loaded(Box<Replay<'a>>),
}

impl Request {
    /// Returns the sample at a time; `None` outside the archive.
    fn sample<'r>(&self, replay: &'r Replay<'_>, timestamp: Timestamp) -> Option<Sample<'r>> {
        let since = timestamp.saturating_sub(self.step);
        if self.rates {
            replay.rates_at(timestamp, since)
        } else {
            replay.at_since(timestamp, since)
        }
    }
}

impl<'a> Samples<'a> {
    /// Starts to read the selected metrics.
    pub(super) fn new(selection: ReplaySelection<'a>, request: &Request) -> Result<Self, Failure> {
        let needs_previous = request.stepping || request.rates || selection.needs_moment_before();
        let back = if needs_previous { request.step } else { Duration::ZERO };
        Ok(match &request.times {
            SampleTimes::Logged => Self::Logged(Box::new(selection.logged()?)),
            SampleTimes::Listed(times) => {
                Self::Loaded(Box::new(selection.load_moments(times, back)?))
            }
            SampleTimes::Regular { first, last } if request.stepping => {
                let spans = [first.saturating_sub(back)..=*last];
                Self::Loaded(Box::new(selection.load_spans(&spans)?))
            }
            SampleTimes::Regular { first, last } => {
                Self::Regular(Box::new(selection.window(*first..=*last, request.step, back)?))
            }
        })
    }

    /// Returns the part of the archive that is loaded.
    pub(super) fn replay(&self) -> &Replay<'a> {
        match self {
            Self::Logged(logged) => logged.replay(),
            Self::Regular(window) => window.replay(),
            Self::Loaded(replay) => replay,
        }
    }

    /// Reads samples that are not those of records, computes something from each on any thread, and
    /// takes the results in the order of times.
    pub(super) fn for_each<T: Send>(
        &mut self,
        request: &Request,
        compute: impl Fn(&Sample<'_>) -> T + Sync,
        mut take: impl FnMut(T),
    ) -> Result<(), Failure> {
        match (self, &request.times) {
            (Self::Regular(window), _) => window.for_each(
                |replay, span| {
                    let times = replay::times(span, request.step);
                    let samples = times.filter_map(|at| request.sample(replay, at));
                    Ok(samples.map(|sample| compute(&sample)).collect::<Vec<_>>())
                },
                |computed| {
                    computed.into_iter().for_each(&mut take);
                    Ok(())
                },
            ),
            (Self::Loaded(replay), SampleTimes::Listed(times)) => {
                let samples = times.iter().filter_map(|at| request.sample(replay, *at));
                samples.for_each(|sample| take(compute(&sample)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn write(
        &mut self,
        request: &Request,
        writer: &mut Writer<'_>,
    ) -> Result<(), Failure> {
        match (self, &request.times) {
            (Self::Logged(logged), _) => write_logged(logged, request, writer),
            (Self::Regular(window), _) => write_window(window, request, writer),
            (Self::Loaded(replay), SampleTimes::Listed(times)) => {
                // A time outside the archive is a sample without values, so that there
                // is one for each given time.
                let values = vec![replay::ExpressionValues::new(); replay.metrics().len()];
                let empty =
                    |timestamp| Sample { timestamp, is_mark: false, values: values.clone() };
                let samples = times.iter().map(|&timestamp| {
                    request.sample(replay, timestamp).unwrap_or_else(|| empty(timestamp))
                });
                writer.write(samples).map(|_| ())
            }
            (Self::Loaded(replay), SampleTimes::Regular { first, last }) => {
                let times = replay::times(*first..=*last, request.step);
                writer.write(replay.steps(times)).map(|_| ())
            }
            (Self::Loaded(_), SampleTimes::Logged) => Ok(()),
        }
    }
}

fn write_logged(
    logged: &mut LoggedBatches<'_>,
    request: &Request,
    writer: &mut Writer<'_>,
) -> Result<(), Failure> {
    let Window { start, end, .. } = request.window;
    let mut remaining = request.count;
    while remaining > 0 && logged.next_batch()? {
        let samples = logged.replay().observations();
        let inside = samples.filter(|sample| (start..=end).contains(&sample.timestamp));
        remaining -= writer.write(inside.take(remaining))?;
    }
    Ok(())
}

fn write_window(
    window: &mut replay::Window<'_>,
    request: &Request,
    writer: &mut Writer<'_>,
) -> Result<(), Failure> {
    let was_whole = window.is_whole();
    let written = writer
        .write_window(window, request.step, |replay, timestamp| request.sample(replay, timestamp));
    if window.is_whole() && !was_whole {
        warn_of_losses(window.replay(), &request.zone);
    }
    written
}
