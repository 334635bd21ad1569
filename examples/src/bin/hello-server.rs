//! A web server on hyper: requests and time to answer by route, open connections.
//!
//! Usage: `hello-server [ADDRESS]`; it prints the address that it listens on.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use mmv_writer::{Counter, Family, Gauge, Histogram, Labels, Metrics, Registry};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Route {
    path: &'static str,
    status: u16,
}

#[derive(Labels, Clone, PartialEq, Eq, Hash)]
struct Page {
    path: &'static str,
}

#[derive(Metrics)]
struct Server {
    /// Requests answered.
    #[metric(unit = "count")]
    requests: Family<Route, Counter>,
    /// Time to answer.
    #[metric(unit = "us")]
    latency: Family<Page, Histogram>,
    /// Bytes of the bodies sent.
    #[metric(unit = "bytes")]
    sent: Counter,
    /// Connections that are open.
    connections: Gauge,
}

async fn answer(
    server: &Server,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let start = Instant::now();
    // A path that is not known is not a label: there are any number of them.
    let (path, status, body) = match request.uri().path() {
        "/" => ("/", StatusCode::OK, "hello\n"),
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(20)).await;
            ("/slow", StatusCode::OK, "sorry\n")
        }
        _ => ("other", StatusCode::NOT_FOUND, "no such page\n"),
    };
    server.requests.get(&Route { path, status: status.as_u16() }).inc();
    server.sent.add(body.len() as u64);
    server.latency.get(&Page { path }).record_duration(start.elapsed());
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    Ok(response)
}

async fn serve(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::new("hello")?;
    let server = Rc::new(Server::register(&registry)?);
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let server = Rc::clone(&server);
        tokio::task::spawn_local(async move {
            let _open = server.connections.guard();
            let service = service_fn(|request| answer(&server, request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                eprintln!("{error}");
            }
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(&address))
}
