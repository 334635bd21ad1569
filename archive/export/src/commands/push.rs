//! `mmv-export push`: archives to a receiver of Prometheus remote write or OTLP.

mod follow;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;

use crate::Failure;
use crate::options::SourceOptions;
use crate::push::client::{Client, ClientOptions};
use crate::push::queue::{FillResult, HostQueue, OpenError, shown};
use crate::push::sender::{BATCH, DeliveryFailure, Sender};
use crate::push::state::{StateDirectory, StateError};
use crate::push::target::{Authorization, SecretError, Target};
use crate::push::{DeliveryCounts, Protocol};
use crate::samples::HistogramForm;
use crate::text::{json_line, print, warn};
use crate::tree::Host;

/// Advice for receivers that refuse old samples.
const OLD_SAMPLES_ADVICE: &str = "storage.tsdb.out_of_order_time_window in the configuration of Prometheus \
                      lets them in, --drop-too-old drops them";

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Send all existing data to Prometheus:
    mmv-export push --url http://127.0.0.1:9090/api/v1/write \\
        --state /var/lib/mmv-export @
  Also send what one program logs later, until a signal:
    mmv-export push --follow --url http://127.0.0.1:9090/api/v1/write \\
        --state /var/lib/mmv-export-shop @ mmv.shop
  Send to a receiver of OTLP, with a token:
    mmv-export push --protocol otlp --bearer-token-file /etc/token \\
        --url https://otlp.example.org/v1/metrics \\
        --state /var/lib/mmv-export-otlp @";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct PushCommand {
    #[command(flatten)]
    source: SourceOptions,

    /// Receiver, without credentials
    #[arg(long, help = "Receiver, as in http://127.0.0.1:9090/api/v1/write; without credentials")]
    url: String,

    /// Directory that stores, for each host, the position up to which archives were sent; for
    /// one receiver, one selection of metrics and one process at a time
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// Continue with records that are logged later, until a signal
    #[arg(long)]
    follow: bool,

    /// Protocol of the requests
    #[arg(long, value_enum, default_value = "1.0")]
    protocol: Protocol,

    /// Form of histograms
    #[arg(long, value_enum, default_value = "classic")]
    histograms: HistogramForm,

    /// File with a bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    bearer_token_file: Option<PathBuf>,

    /// User name, with --password-file
    #[arg(long, requires = "password_file")]
    user: Option<String>,

    /// File with the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// File with the certificates (PEM) of authorities to trust, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Seconds to wait for the complete answer to a request
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// Seconds after which a request without an answer, or with one that asks to retry, is given
    /// up; unlimited with --follow
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    retry_for: u64,

    /// Publish counts of each host as metrics mmv.NAME.*, which mmv-agent logs
    #[arg(long = "metrics", value_name = "NAME", requires = "follow")]
    own_metrics: Option<String>,

    /// Drop samples that the receiver refuses as too old or out of order, and count them
    #[arg(long)]
    drop_too_old: bool,

    /// Print the counts at the end as one object of JSON
    #[arg(long)]
    json: bool,
}

impl PushCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        // Not by the command line parser, which would print a URL with credentials.
        let target: Target = self.url.parse().map_err(Failure::Url)?;
        self.protocol.check_histograms(self.histograms).map_err(Failure::Usage)?;
        let state = StateDirectory::open(&self.state)?;
        let client = Client::new(ClientOptions {
            target,
            protocol: self.protocol,
            authorization: self.authorization(),
            ca_file: self.ca_file.clone(),
            timeout: Duration::from_secs(self.timeout),
        })?;
        let sender = Sender {
            client,
            protocol: self.protocol,
            drops_too_old: self.drop_too_old,
            retry_for: (!self.follow).then_some(Duration::from_secs(self.retry_for)),
            stop,
        };
        if self.follow {
            follow::run(self, &sender, &state)
        } else {
            self.back_fill(&sender, &state)
        }
    }

    fn authorization(&self) -> Option<Authorization> {
        if let Some(file) = &self.bearer_token_file {
            return Some(Authorization::Bearer(file.clone()));
        }
        Some(Authorization::Basic(self.user.clone()?, self.password_file.clone()?))
    }

    fn open(&self, host: &Host, state: &StateDirectory) -> Result<HostQueue, OpenError> {
        let selection = self.source.selection();
        HostQueue::open(host, &selection, state, &self.url, self.protocol, self.histograms)
    }

    /// Sends all existing data, one host after the other.
    fn back_fill(&self, sender: &Sender, state: &StateDirectory) -> Result<(), Failure> {
        let hosts = self.source.hosts()?;
        let mut counts = DeliveryCounts::default();
        let mut unsent = 0;
        let mut damaged = 0;
        for host in &hosts {
            let mut queue = match self.open(host, state) {
                Ok(queue) => queue,
                Err(OpenError::State(error)) => return Err(error.into()),
                Err(OpenError::Archive(error)) => {
                    warn(&format_args!("{}: {error}", host.name));
                    damaged += 1;
                    continue;
                }
            };
            let before = *queue.counts();
            let result = send_all(&mut queue, sender);
            let here = queue.counts().since(&before);
            damaged += usize::from(here.damaged > 0);
            counts.add(&here);
            queue.close()?;
            match result {
                Ok(is_all) => unsent += usize::from(!is_all),
                Err(failure) => {
                    self.print(&counts)?;
                    return Err(failure);
                }
            }
        }
        self.print(&counts)?;
        match (unsent, damaged) {
            (0, 0) => Ok(()),
            (0, hosts_) => Err(Failure::Hosts { hosts: hosts_, all: hosts.len() }),
            (unsent, _) => Err(Failure::Unsent { hosts: unsent, all: hosts.len() }),
        }
    }

    fn print(&self, counts: &DeliveryCounts) -> Result<(), Failure> {
        print(&if self.json { json_line(counts)? } else { format!("{counts}\n") })
    }
}

/// Sends all existing data of a host, and returns false if some of it has to wait.
fn send_all(queue: &mut HostQueue, sender: &Sender) -> Result<bool, Failure> {
    loop {
        match queue.fill(BATCH)? {
            FillResult::Nothing => return Ok(true),
            FillResult::Future(_) => return Ok(false),
            FillResult::Batch => {}
        }
        match sender.deliver(queue) {
            Ok(()) => queue.done(),
            Err(DeliveryFailure::Held(why)) => {
                report_held(queue, &why);
                return Ok(false);
            }
            Err(other) => return Err(other.into()),
        }
    }
}

fn report_held(queue: &HostQueue, why: &str) {
    let until = queue.sent_until().map_or_else(|| "the start".to_owned(), shown);
    let name = &queue.name;
    warn(&format_args!(
        "{name}: held after {until}: the receiver says {why:?}: {OLD_SAMPLES_ADVICE}"
    ));
}

// Here and not in `failure`, which modules of `push` depend on.
impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::State(error.to_string())
    }
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Self {
        Self::Secret(error.to_string())
    }
}

impl From<DeliveryFailure> for Failure {
    fn from(undelivered: DeliveryFailure) -> Self {
        match undelivered {
            DeliveryFailure::Stopped => Self::Stopped,
            DeliveryFailure::GaveUp(why) | DeliveryFailure::Held(why) => Self::GaveUp(why),
            DeliveryFailure::NoReceiver(why) => Self::NoReceiver(why),
        }
    }
}
