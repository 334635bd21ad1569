//! HTTP for the page: who may ask, and how much at a time.
//!
//! One thread serves all connections; a few others read archives. The server listens on
//! 127.0.0.1, where every program of the machine can connect, and every page of any browser on
//! it can ask, though not read the answers:
//!
//! | who | is kept out by |
//! |---|---|
//! | other users and programs | a random token of 128 bits, the first part of each path |
//! | a page of another site | no CORS; `Sec-Fetch-Site`; `Cross-Origin-Resource-Policy` |
//! | a name that is made to mean 127.0.0.1 (DNS rebinding) | `Host`, which has to be this address |
//! | scripts in texts of archives | a content security policy with a nonce |
//! | many or slow connections | the limits of [`mmv_http`] |

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use mmv_http::{Busy, ConnectionPlace, GuardedBody, Listener};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task;

use super::answers::{Body, answer};
use super::archives::Archives;
use super::background::Background;
use super::question::Question;
use crate::text::warn;
use crate::{Failure, page};

/// The port of addresses that name none.
const HTTP_PORT: u16 = 80;
/// Limit on questions that are answered at the same time, since each uses all processors.
const ANSWERS: usize = 2;

/// The server of a page, which listens already.
#[derive(Debug)]
pub(super) struct Server {
    runtime: Runtime,
    listener: Listener,
    shared: ServerState,
}

/// A response, whose connection keeps its place until it is sent.
type Answer = Response<GuardedBody<Full<Bytes>, Option<Busy>>>;

/// The state that all connections share.
#[derive(Debug)]
struct ServerState {
    archives: Arc<Archives>,
    address: SocketAddr,
    token: String,
    answers: Arc<Semaphore>,
    background: Background,
}

impl Server {
    /// Creates a server with a new token on a port of the loopback interface.
    ///
    /// # Errors
    ///
    /// If the system refuses what a server needs.
    pub(super) fn new(port: u16, archives: Arc<Archives>) -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(ANSWERS).build()?;
        let listener = {
            let _entered = runtime.enter();
            Listener::tcp((Ipv4Addr::LOCALHOST, port).into())?
        };
        let shared = ServerState {
            address: listener.address()?,
            background: Background::new(Arc::clone(&archives)),
            archives,
            token: random_token()?,
            answers: Arc::new(Semaphore::new(ANSWERS)),
        };
        Ok(Self { runtime, listener, shared })
    }

    pub(super) fn address(&self) -> String {
        format!("http://{}/{}/", self.shared.address, self.shared.token)
    }

    /// Serves until SIGINT or SIGTERM.
    ///
    /// # Errors
    ///
    /// If the system refuses what a server needs.
    pub(super) fn run(self) -> io::Result<()> {
        let shared = Arc::new(self.shared);
        let serving = mmv_http::serve(
            self.listener,
            move |request, place| {
                let shared = Arc::clone(&shared);
                async move { shared.respond(&request, &place).await }
            },
            |line| warn(&line),
        );
        self.runtime.spawn(serving);
        let ended = self.runtime.block_on(ended());
        // Without waiting for answers that are being made.
        self.runtime.shutdown_background();
        ended
    }
}

/// Waits for SIGINT or SIGTERM.
async fn ended() -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    poll_fn(|context| {
        let is_pending = interrupt.poll_recv(context).is_pending();
        if is_pending && terminate.poll_recv(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    })
    .await
}

impl ServerState {
    /// Responds to a request. The connection keeps its place for those that have the token.
    async fn respond(
        self: &Arc<Self>,
        request: &Request<Incoming>,
        place: &Arc<ConnectionPlace>,
    ) -> Answer {
        let (response, busy) = match self.question(request) {
            Ok(question) => {
                let busy = place.busy();
                (self.response_to(question).await, Some(busy))
            }
            Err((status, reason)) => (plain(status, reason), None),
        };
        response.map(|body| GuardedBody::new(body, busy))
    }

    async fn response_to(self: &Arc<Self>, question: Question) -> Response<Full<Bytes>> {
        if question == Question::Page {
            return page_response();
        }
        let Ok(permit) = Arc::clone(&self.answers).acquire_owned().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
        };
        let archives = Arc::clone(&self.archives);
        // Dropped with this future when the client disconnects.
        let client = Arc::new(());
        let is_connected = Arc::downgrade(&client);
        let shared = Arc::clone(self);
        let answered = task::spawn_blocking(move || {
            let _permit = permit;
            let _busy = shared.background.give_way();
            let answered = answer(&archives, &question, &|| is_connected.strong_count() > 0);
            if matches!(question, Question::Columns { .. }) {
                shared.background.wake();
            }
            answered
        });
        match answered.await {
            Ok(Ok(Some(body))) => respond(body),
            Ok(Ok(None)) => plain(StatusCode::SERVICE_UNAVAILABLE, "client closed the connection"),
            Ok(Err(failure)) => plain(status_of(&failure), &failure.to_string()),
            Err(_) => {
                plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error while reading archives")
            }
        }
    }

    /// Returns the question of a request, if the request is permitted.
    fn question<B: hyper::body::Body>(
        &self,
        request: &Request<B>,
    ) -> Result<Question, (StatusCode, &'static str)> {
        if !self.is_own(request) {
            return Err((
                StatusCode::FORBIDDEN,
                "the header Host is not the address of this server",
            ));
        }
        if request.method() != Method::GET || !request.body().is_end_stream() {
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET requests without a body are allowed",
            ));
        }
        let unknown =
            (StatusCode::NOT_FOUND, "not found: open the address that the command printed");
        let path = request.uri().path().strip_prefix('/').ok_or(unknown)?;
        let (token, path) = path.split_once('/').ok_or(unknown)?;
        if !is_equal(token.as_bytes(), self.token.as_bytes()) {
            return Err(unknown);
        }
        // A link leads to the page from anywhere; its data is for the page alone.
        let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
        if !path.is_empty() && site.is_some_and(|site| site != b"same-origin") {
            return Err((StatusCode::FORBIDDEN, "requests from other pages are refused"));
        }
        Question::parse(path, request.uri().query())
            .ok_or((StatusCode::BAD_REQUEST, "unknown path or malformed query"))
    }

    /// Returns whether a request is meant for this address. A site whose name was made to resolve to
    /// it (DNS rebinding) sends its own name as `Host`.
    fn is_own<B>(&self, request: &Request<B>) -> bool {
        let is_name = |name: &[u8]| is_loopback(name, self.address.port());
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next();
        let more = hosts.next();
        let authority = request.uri().authority();
        host.is_some_and(|host| is_name(host.as_bytes()))
            && more.is_none()
            && authority.is_none_or(|authority| is_name(authority.as_str().as_bytes()))
    }
}

/// Returns whether an authority is this machine's loopback address with a port, which browsers omit
/// if it is that of HTTP.
fn is_loopback(authority: &[u8], port: u16) -> bool {
    let host = authority.strip_suffix(format!(":{port}").as_bytes());
    let host = host.or((port == HTTP_PORT).then_some(authority));
    host.is_some_and(|host| matches!(host, b"127.0.0.1" | b"localhost"))
}

/// Returns the page, with a nonce of its own.
fn page_response() -> Response<Full<Bytes>> {
    let Ok(nonce) = random_token() else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the system has no random numbers");
    };
    let policy = format!("{}; frame-ancestors 'none'", page::live_policy(&nonce));
    let mut response = Response::new(Full::from(page::live(&nonce)));
    set_headers(response.headers_mut(), "text/html; charset=utf-8", &policy);
    response
}

/// Returns 128 random bits as hexadecimal digits.
fn random_token() -> io::Result<String> {
    let number = || getrandom::u64().map_err(|error| io::Error::other(error.to_string()));
    Ok(format!("{:016x}{:016x}", number()?, number()?))
}

/// Compares in a time that does not depend on where they differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::NoData(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn respond(body: Body) -> Response<Full<Bytes>> {
    let (kind, bytes) = match body {
        Body::Json(text) => ("application/json", Bytes::from(text)),
        Body::Columns(bytes) => ("application/octet-stream", Bytes::from(bytes)),
    };
    let mut response = Response::new(Full::new(bytes));
    set_headers(response.headers_mut(), kind, NOTHING);
    response
}

fn plain(status: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{reason}\n")));
    *response.status_mut() = status;
    set_headers(response.headers_mut(), "text/plain; charset=utf-8", NOTHING);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

/// The policy of what is not a page.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

fn set_headers(headers: &mut HeaderMap, kind: &'static str, policy: &str) {
    let all = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in all {
        // The values are of visible ASCII: each is valid.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_the_port_of_http_may_be_left_out() {
        for (authority, port, expected) in [
            ("127.0.0.1:8080", 8080, true),
            ("localhost:8080", 8080, true),
            ("127.0.0.1:80", 80, true),
            ("127.0.0.1", 80, true),
            ("localhost", 80, true),
            ("127.0.0.1", 8080, false),
            ("127.0.0.1:8080", 80, false),
            ("evil.example", 80, false),
            ("evil.example:80", 80, false),
            ("127.0.0.1.evil.example", 80, false),
            ("", 80, false),
        ] {
            assert_eq!(is_loopback(authority.as_bytes(), port), expected, "{authority} {port}");
        }
    }
}
