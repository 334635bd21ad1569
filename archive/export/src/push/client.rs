//! HTTP requests to a receiver, with bounded answers.
//!
//! Redirects are not followed, and proxies of the environment are not used: only the given receiver
//! gets data and secrets.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use super::Protocol;
use super::target::{Authorization, SecretError, Target, certificates};

const MAX_ANSWER: u64 = 8 << 10;
const MAX_HEADERS: usize = 16 << 10;

pub(crate) struct ClientOptions {
    pub(crate) target: Target,
    pub(crate) protocol: Protocol,
    pub(crate) authorization: Option<Authorization>,
    pub(crate) ca_file: Option<PathBuf>,
    /// The time from the start of a request to the end of its answer.
    pub(crate) timeout: Duration,
}

/// Sends requests to one receiver.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    target: Target,
    headers: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The delay that it asks for.
    pub(crate) retry_after: Option<Duration>,
    /// The number of samples, including native histograms, that it claims to have stored.
    pub(crate) written: Option<u64>,
    /// The beginning of its text.
    pub(crate) text: Vec<u8>,
}

impl Client {
    /// Reads secrets and certificates. The first request connects.
    pub(crate) fn new(options: ClientOptions) -> Result<Self, SecretError> {
        let roots = if options.target.is_tls() {
            certificates(options.ca_file.as_deref())?
        } else {
            Vec::new()
        };
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&roots))
            .build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(options.timeout))
            .max_response_header_size(MAX_HEADERS)
            .user_agent(concat!("mmv-export/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build()
            .new_agent();
        let mut headers = protocol_headers(options.protocol);
        if let Some(authorization) = &options.authorization {
            headers.push(("Authorization", authorization.header()?));
        }
        Ok(Self { agent, target: options.target, headers })
    }

    /// Sends a request and returns the answer. After an error the receiver may still have stored the
    /// request.
    pub(super) fn post(&self, body: &[u8]) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.post(self.target.uri());
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut response = request.send(body)?;
        let mut answer = Answer {
            status: response.status().as_u16(),
            retry_after: number(&response, "Retry-After").map(Duration::from_secs),
            written: written(&response),
            text: Vec::new(),
        };
        // The status is an answer even if the text cannot be read.
        let reader = response.body_mut().as_reader();
        let _ = reader.take(MAX_ANSWER).read_to_end(&mut answer.text);
        Ok(answer)
    }
}

/// Returns the number of samples and native histograms that a receiver of remote write 2.0 stored.
/// One that stored only histograms may leave out the number of samples.
fn written<B>(response: &ureq::http::Response<B>) -> Option<u64> {
    let samples = number(response, "X-Prometheus-Remote-Write-Samples-Written");
    let histograms = number(response, "X-Prometheus-Remote-Write-Histograms-Written");
    if samples.is_none() {
        return histograms;
    }
    Some(samples?.saturating_add(histograms.unwrap_or(0)))
}

/// Returns the number in a header.
fn number<B>(response: &ureq::http::Response<B>, name: &str) -> Option<u64> {
    response.headers().get(name)?.to_str().ok()?.parse().ok()
}

fn protocol_headers(protocol: Protocol) -> Vec<(&'static str, String)> {
    let pairs: &[(&str, &str)] = match protocol {
        Protocol::RemoteWrite1 => &[
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "snappy"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ],
        Protocol::RemoteWrite2 => &[
            ("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request"),
            ("Content-Encoding", "snappy"),
            ("X-Prometheus-Remote-Write-Version", "2.0.0"),
        ],
        #[cfg(feature = "otlp")]
        Protocol::Otlp => &[("Content-Type", "application/x-protobuf")],
    };
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}
