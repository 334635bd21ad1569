//! Answers requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use mmv_http::{Busy, ConnectionPlace, GuardedBody};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::exposition::Format;
use super::newest::Newest;
use super::read::{self, ReadError, ReadQuery};
use super::select::SelectedSeries;
use super::stream::{Cut, stream};
use crate::options::SourceOptions;

/// Limit on the bytes of a request's body, which is compressed.
const MAX_BODY: usize = 1 << 18;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a request waits for a thread.
const THREAD_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit on waiting requests: half of the connections, which they keep busy.
const MAX_WAITING: usize = mmv_http::MAX_CONNECTIONS / 2;

/// A permit to read archives with one of the threads.
type Permit = Arc<OwnedSemaphorePermit>;
/// The body of an answer, which keeps its connection busy and holds its permit until it is sent.
type Body = GuardedBody<BoxBody<Bytes, Cut>, (Busy, Option<Permit>)>;

/// An answer with the permit that it holds until it is sent.
struct Answer {
    response: Response<BoxBody<Bytes, Cut>>,
    permit: Option<Permit>,
}

/// The state that all requests share.
#[derive(Debug)]
pub(super) struct Service {
    source: SourceOptions,
    newest: Newest,
    max_samples: usize,
    readers: Arc<Semaphore>,
    waiting: Semaphore,
    /// Whether browsers can connect, unlike to a unix socket.
    is_tcp: bool,
}

impl Service {
    /// Creates a service that reads the archives of hosts for at most `readers` requests at a time.
    pub(super) fn new(
        source: SourceOptions,
        newest: Newest,
        max_samples: usize,
        readers: usize,
        is_tcp: bool,
    ) -> Self {
        let readers = Arc::new(Semaphore::new(readers));
        let waiting = Semaphore::new(MAX_WAITING);
        Self { source, newest, max_samples, readers, waiting, is_tcp }
    }

    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        place: &Arc<ConnectionPlace>,
    ) -> Response<Body> {
        let is_own = !self.is_tcp || request.headers().get_all(HOST).iter().all(is_loopback);
        // The connection is idle, and may be closed, until the request is complete.
        let body = match (request.uri().path(), request.method()) {
            ("/api/v1/read", &Method::POST) if is_own => Some(whole(request.body_mut()).await),
            _ => None,
        };
        let busy = place.busy();
        let answer = match (request.uri().path(), request.method(), body) {
            _ if !is_own => {
                plain(StatusCode::FORBIDDEN, "the header Host is not a loopback address\n")
            }
            (_, _, Some(Ok(body))) => self.read(&body).await,
            (_, _, Some(Err(refused))) => refused,
            ("/metrics", &Method::GET, None) => self.scrape(&request).await,
            ("/metrics", ..) => not_allowed("GET"),
            ("/api/v1/read", ..) => not_allowed("POST"),
            _ => {
                plain(StatusCode::NOT_FOUND, "not found: the paths are /metrics and /api/v1/read\n")
            }
        };
        answer.response.map(|body| GuardedBody::new(body, (busy, answer.permit)))
    }

    async fn scrape(&self, request: &Request<Incoming>) -> Answer {
        if !self.newest.is_complete() {
            return busy("the archives are still being read: try again later\n");
        }
        let accept = request.headers().get_all(ACCEPT).iter().filter_map(|one| one.to_str().ok());
        let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
        let Some(permit) = self.reader().await else {
            return busy("too many requests: try again later\n");
        };
        let newest = self.newest.clone();
        let (sink, pieces) = stream();
        let kept = Arc::clone(&permit);
        // The thread continues while the answer is sent.
        spawn_blocking(move || {
            let _permit = kept;
            let _ = newest.send(format, sink);
        });
        with_body(StatusCode::OK, format.content_type(), pieces.boxed()).holding(permit)
    }

    async fn read(&self, body: &[u8]) -> Answer {
        let read = match ReadQuery::parse(body) {
            Ok(read) => read,
            Err(error) => return refusal(&error),
        };
        let Some(permit) = self.reader().await else {
            return busy("too many requests: try again later\n");
        };
        let job = Job {
            read,
            source: self.source.clone(),
            most: self.max_samples,
            is_over: Arc::default(),
            _permit: Arc::clone(&permit),
        };
        // Stops reading when this future is dropped because the client disconnects.
        let _over = OverOnDrop(Arc::clone(&job.is_over));
        let answered = if job.read.is_chunked { job.chunks().await } else { job.samples().await };
        match answered {
            Some(Ok(answer)) => answer.holding(permit),
            Some(Err(error)) => refusal(&error),
            None => {
                plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error while reading archives\n")
            }
        }
    }

    /// Waits for a permit to read archives; `None` if there is none in time.
    async fn reader(&self) -> Option<Permit> {
        let _waits = self.waiting.try_acquire().ok()?;
        let permit = timeout(THREAD_TIMEOUT, Arc::clone(&self.readers).acquire_owned()).await;
        permit.ok()?.ok().map(Arc::new)
    }
}

/// A remote read, which runs in a blocking thread.
struct Job {
    read: ReadQuery,
    source: SourceOptions,
    most: usize,
    /// Whether the client has disconnected.
    is_over: Arc<AtomicBool>,
    _permit: Permit,
}

/// Sets a flag when the client disconnects.
struct OverOnDrop(Arc<AtomicBool>);

impl Drop for OverOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Job {
    /// Reads the series of the request.
    fn selected(&self) -> Result<Vec<Vec<SelectedSeries>>, ReadError> {
        let hosts = self.source.hosts();
        let hosts = hosts.map_err(|failure| ReadError::Archives(failure.to_string()))?;
        let selection = self.source.selection();
        self.read.select(&hosts, &selection, self.most, &self.is_over)
    }

    /// Answers with one message; `None` if the thread failed.
    async fn samples(self) -> Option<Result<Answer, ReadError>> {
        let message = spawn_blocking(move || read::samples(self.selected()?));
        Some(message.await.ok()?.map(|message| {
            let body = Full::new(message).map_err(|never| match never {}).boxed();
            let mut answer = with_body(StatusCode::OK, "application/x-protobuf", body);
            set(&mut answer, CONTENT_ENCODING, "snappy");
            answer
        }))
    }

    /// Answers with a frame for each series, sent as they are encoded; `None` if the thread failed.
    async fn chunks(self) -> Option<Result<Answer, ReadError>> {
        let (sink, pieces) = stream();
        let (sender, is_selected) = oneshot::channel();
        spawn_blocking(move || {
            let results = match self.selected() {
                Ok(results) => results,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            if sender.send(Ok(())).is_ok() && read::send_chunks(results, &sink).is_ok() {
                let _ = sink.finish();
            }
        });
        let kind = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";
        Some(is_selected.await.ok()?.map(|()| with_body(StatusCode::OK, kind, pieces.boxed())))
    }
}

impl Answer {
    /// Adds the permit that is held until the answer is sent.
    fn holding(mut self, permit: Permit) -> Self {
        self.permit = Some(permit);
        self
    }
}

/// Receives the complete body of a request.
async fn whole(body: &mut Incoming) -> Result<Bytes, Answer> {
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(plain(StatusCode::PAYLOAD_TOO_LARGE, "the request body is too large\n"))
        }
        Ok(Err(_)) => Err(plain(StatusCode::BAD_REQUEST, "the request body is incomplete\n")),
        Err(_) => {
            Err(plain(StatusCode::REQUEST_TIMEOUT, "the request body was not received in time\n"))
        }
    }
}

/// Returns whether a header `Host` names this machine. The page of a site whose name was made to
/// resolve to a loopback address (DNS rebinding) sends the name of the site.
fn is_loopback(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = without_port.trim_start_matches('[').trim_end_matches(']').parse();
    without_port.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

fn refusal(error: &ReadError) -> Answer {
    let status = match error {
        ReadError::Request(_) => StatusCode::BAD_REQUEST,
        ReadError::Archives(_) | ReadError::Over => StatusCode::SERVICE_UNAVAILABLE,
        ReadError::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
    };
    plain(status, &format!("{error}\n"))
}

fn not_allowed(method: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed for this path\n");
    set(&mut answer, ALLOW, method);
    answer
}

fn busy(text: &str) -> Answer {
    let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, text);
    set(&mut answer, RETRY_AFTER, "1");
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    with_body(status, "text/plain; charset=utf-8", body.map_err(|never| match never {}).boxed())
}

fn with_body(status: StatusCode, content_type: &'static str, body: BoxBody<Bytes, Cut>) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let mut answer = Answer { response, permit: None };
    set(&mut answer, CONTENT_TYPE, content_type);
    answer
}

fn set(answer: &mut Answer, name: HeaderName, value: &'static str) {
    answer.response.headers_mut().insert(name, HeaderValue::from_static(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_addresses_are_served() {
        let is_loopback = |host| is_loopback(&HeaderValue::from_static(host));
        for host in
            ["127.0.0.1:9465", "127.0.0.1", "localhost:1", "LocalHost", "[::1]:9465", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "x", "web1.example:9465", "192.0.2.1:9465", "127.0.0.1.example", "[::2]:1", ":80"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
