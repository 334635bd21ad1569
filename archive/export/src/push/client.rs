//! One request, one answer, both bounded.
//!
//! Redirects are not followed: a receiver that was not named gets nothing, least of all
//! secrets. Proxies of the environment are not used either.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use super::Protocol;
use super::target::{Authorization, SecretError, Target, certificates};

/// No more is read of an answer.
const LONGEST_ANSWER: u64 = 8 << 10;
/// Nor of its headers.
const LONGEST_HEADERS: usize = 16 << 10;

/// How to reach a receiver.
pub(crate) struct ClientOptions {
    pub(crate) target: Target,
    pub(crate) protocol: Protocol,
    pub(crate) authorization: Option<Authorization>,
    pub(crate) ca_file: Option<PathBuf>,
    /// From the start of a request to the end of its answer.
    pub(crate) timeout: Duration,
}

/// Sends requests to one receiver.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    target: Target,
    headers: Vec<(&'static str, String)>,
}

/// What a receiver answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// How long it asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// How many samples it says that it stored.
    pub(crate) written: Option<u64>,
    /// The beginning of its text.
    pub(crate) text: Vec<u8>,
}

impl Client {
    /// Reads secrets and certificates; connects with the first request.
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
            .max_response_header_size(LONGEST_HEADERS)
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

    /// Sends a request; an error if there is no whole answer. The receiver may have stored
    /// it nevertheless.
    pub(super) fn post(&self, body: &[u8]) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.post(self.target.uri());
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut response = request.send(body)?;
        let header = |name: &str| response.headers().get(name)?.to_str().ok()?.parse().ok();
        let mut answer = Answer {
            status: response.status().as_u16(),
            retry_after: header("Retry-After").map(Duration::from_secs),
            written: header("X-Prometheus-Remote-Write-Samples-Written"),
            text: Vec::new(),
        };
        // A status is an answer, whatever becomes of its text.
        let reader = response.body_mut().as_reader();
        let _ = reader.take(LONGEST_ANSWER).read_to_end(&mut answer.text);
        Ok(answer)
    }
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
