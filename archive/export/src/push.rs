//! Archives to receivers of Prometheus remote write and OTLP.
//!
//! In: the archives of hosts. Out: requests in the order of the archive, each of which is repeated
//! byte for byte until its answer is known. The archive is the queue: only a [cursor](state) is
//! stored for each host.
//!
//! ```text
//! walk --> samples --> queue: batches between two records --> sender --> client
//!                        |                                      |
//!                      state: what was sent, what is being sent  verdict: meaning of an answer
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`target`] | the URL and credentials of a receiver |
//! | [`client`] | one request, one answer, both bounded |
//! | [`verdict`] | the meaning of an answer |
//! | [`series`], [`batch`] | samples between two records, in the order in which they are sent |
//! | [`native`] | native histograms and exponential buckets |
//! | [`labels`], [`remote_write`], [`otlp`] | the bytes of requests |
//! | [`state`] | the cursor of a host, in a file |
//! | [`queue`] | the batches of a host |
//! | [`sender`] | sends, retries, drops or gives up by verdict |
//! | [`backoff`], [`counts`] | delays before retries; counts of samples by outcome |
//! | [`own_metrics`] | the counts as metrics of an MMV file |
//!
//! A batch is identified by the positions at its beginning and end. Both are stored before its
//! first request is sent, so that a killed sender repeats exactly the requests of that batch.

mod backoff;
mod batch;
pub(crate) mod client;
mod counts;
mod labels;
mod native;
#[cfg(feature = "otlp")]
mod otlp;
pub(crate) mod own_metrics;
pub(crate) mod queue;
mod remote_write;
pub(crate) mod sender;
mod series;
pub(crate) mod state;
pub(crate) mod target;
mod verdict;

pub(crate) use counts::DeliveryCounts;

use crate::samples::HistogramForm;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// Prometheus remote write 1.0
    #[value(name = "1.0")]
    RemoteWrite1,
    /// Prometheus remote write 2.0, for receivers that count what they store
    #[value(name = "2.0")]
    RemoteWrite2,
    /// OTLP over HTTP
    #[cfg(feature = "otlp")]
    #[value(name = "otlp")]
    Otlp,
}

impl Protocol {
    /// Returns whether all receivers know the start times of points, so that no zero is sent for
    /// them.
    const fn replaces_zeros(self) -> bool {
        match self {
            Self::RemoteWrite1 | Self::RemoteWrite2 => false,
            #[cfg(feature = "otlp")]
            Self::Otlp => true,
        }
    }

    /// Checks that requests can have histograms in a form.
    pub(crate) fn check_histograms(self, form: HistogramForm) -> Result<(), String> {
        match (self, form) {
            (_, HistogramForm::Classic)
            | (Self::RemoteWrite1, HistogramForm::Exponential)
            | (Self::RemoteWrite2, _) => Ok(()),
            #[cfg(feature = "otlp")]
            (Self::Otlp, HistogramForm::Exponential) => Ok(()),
            (Self::RemoteWrite1, HistogramForm::Custom) => {
                Err("--histograms custom: remote write 1.0 has no custom buckets; use \
                     --protocol 2.0, or --histograms exponential"
                    .to_owned())
            }
            #[cfg(feature = "otlp")]
            (Self::Otlp, HistogramForm::Custom) => {
                Err("--histograms custom: a histogram of OTLP has the buckets of the archive with \
                     --histograms classic"
                    .to_owned())
            }
        }
    }
}
