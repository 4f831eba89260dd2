// SPDX-License-Identifier: GPL-2.0-or-later
//! --metrics: an HTTP server for Prometheus, on a thread of its own.
//!
//! Theory of operation: a connection serves one request and is closed, at the latest after
//! CONNECTION_MS, so a slow client holds one of CONNECTIONS_MAX places for that long and the others
//! wait in the kernel's backlog. Each answer is made from a snapshot.
// seccomp: accept4 clock_gettime close epoll_create1 epoll_ctl epoll_wait eventfd2 fcntl futex
// seccomp: getsockopt pread64 read recvfrom sendto shutdown write writev

use std::convert::Infallible;
use std::fs::File;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nix::errno::Errno;
use nix::sys::socket::{
    bind, listen, setsockopt, socket, sockopt, AddressFamily, Backlog, SockFlag, SockType,
    SockaddrStorage,
};
use nix::unistd::{sysconf, SysconfVar};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, Semaphore};

use crate::counts::{self, Count};
use crate::log::{failure_set, failure_set_start, Failure, LogExit};
use crate::metrics_plain;
use crate::metrics_text;
use crate::snapshot;
use crate::state::State;

/// At a time.
pub const CONNECTIONS_MAX: usize = 16;
/// From accept to close.
pub const CONNECTION_MS: u64 = 10 * 1000;
/// Of a request's head.
pub const REQUEST_BYTES: usize = 16 * 1024;

const BACKLOG: i32 = 16;
/// Without accepting, when the system can give no more descriptors.
const PAUSE_MS: u64 = 1000;

pub struct Metrics {
    listener: StdListener,
    /// /proc/self/statm, opened while that is allowed.
    statm: Option<Arc<File>>,
    thread: Option<(JoinHandle<()>, oneshot::Sender<()>)>,
}

/// Tells why the address can't be listened at, and what helps.
fn fail_listen(endpoint: &str, error: Errno) -> Failure {
    let (code, text) = match error {
        Errno::EADDRINUSE => (
            LogExit::Owned,
            "in use by another program: stop it or choose another port",
        ),
        Errno::EADDRNOTAVAIL => (
            LogExit::Usage,
            "this machine has no such address: choose one that `ip address` names",
        ),
        Errno::EACCES => (
            LogExit::Usage,
            "the port is for root only: choose one from 1024 on",
        ),
        error => return failure_set_start("bind", error),
    };
    failure_set(code, format_args!("--metrics {endpoint}: {text}"))
}

fn try_listen(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Stream, flags, None)?;
    // Its connections may linger.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket)
}

fn listen_at(endpoint: &str) -> Result<OwnedFd, Failure> {
    // The options have checked it.
    let address = endpoint
        .parse()
        .map_err(|_| fail_listen(endpoint, Errno::EINVAL))?;
    try_listen(address).map_err(|error| fail_listen(endpoint, error))
}

/// Opens the socket at ADDRESS:PORT or [ADDRESS]:PORT, options.metrics. To be called while the program
/// still has the rights that this needs. listener: the listening socket of options.metrics, if it was
/// taken from another process.
pub fn open(endpoint: &str, listener: Option<OwnedFd>) -> Result<Metrics, Failure> {
    let listener = listener.map_or_else(|| listen_at(endpoint), Ok)?;
    Ok(Metrics {
        listener: StdListener::from(listener),
        statm: File::open("/proc/self/statm").ok().map(Arc::new),
        thread: None,
    })
}

/// Memory of the process; 0 where the system does not tell.
fn resident_bytes(statm: Option<&File>) -> u64 {
    let mut text = [0; 128];
    let length = statm.map_or(0, |file| file.read_at(&mut text, 0).unwrap_or(0));
    let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(0);
    pages.unwrap_or(0u64) * page as u64
}

/// What answering needs.
#[derive(Clone)]
struct Source {
    state: Arc<State>,
    statm: Option<Arc<File>>,
}

/// The metrics now, in a format.
fn make_text(source: &Source, plain: bool) -> String {
    let snapshot = snapshot::take(&source.state, true);
    let counts = counts::ALL.map(|(count, _)| counts::get(count)).to_vec();
    let text = metrics_text::text(snapshot, counts, resident_bytes(source.statm.as_deref()));
    match plain {
        true => metrics_plain::plain(&text),
        false => text,
    }
}

fn answer(status: StatusCode, text: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn refuse(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    counts::add(Count::MetricsRefused, 1);
    answer(status, text.to_owned(), "text/plain; charset=utf-8")
}

/// Answers a request whose head has come.
fn on_request(source: &Source, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return refuse(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "Ask by GET.\n");
    }
    counts::add(Count::MetricsRequests, 1);
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let plain = metrics_plain::is_wanted(accept.unwrap_or_default());
    let kind = match plain {
        true => metrics_plain::PLAIN_TYPE,
        false => metrics_plain::OPENMETRICS_TYPE,
    };
    answer(StatusCode::OK, make_text(source, plain), kind)
}

/// Serves one request and closes, or closes when the time is over.
async fn serve_connection(stream: TcpStream, source: Source) {
    let answered = AtomicBool::new(false);
    let service = service_fn(|request| {
        answered.store(true, Ordering::Relaxed);
        let response = on_request(&source, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let limit = Duration::from_millis(CONNECTION_MS);
    // Why it ended is the client's affair.
    let _ = tokio::time::timeout(limit, connection).await;
    if !answered.load(Ordering::Relaxed) {
        counts::add(Count::MetricsUnanswered, 1);
    }
}

/// Serves connections for ever.
async fn serve(listener: TcpListener, source: Source) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = source.clone();
                tokio::spawn(async move {
                    serve_connection(stream, source).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await,
        }
    }
}

/// Starts the thread, which reads the state.
pub fn start(metrics: &mut Metrics, state: &Arc<State>) -> Result<(), Failure> {
    let fail = |call: &str, error: std::io::Error| {
        failure_set_start(call, Errno::try_from(error).unwrap_or(Errno::EIO))
    };
    let source = Source {
        state: Arc::clone(state),
        statm: metrics.statm.clone(),
    };
    let listener = metrics
        .listener
        .try_clone()
        .map_err(|error| fail("fcntl", error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| fail("epoll_create", error))?;
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        runtime.block_on(async {
            // It is a listening socket that does not block, so this can't fail.
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            tokio::select! {
                _ = stopped => {}
                () = serve(listener, source) => {}
            }
        });
    };
    let thread = thread::Builder::new()
        .spawn(run)
        .map_err(|error| fail("pthread_create", error))?;
    metrics.thread = Some((thread, stop));
    Ok(())
}

/// The listening socket, to be handed over.
pub fn listener(metrics: &Metrics) -> BorrowedFd<'_> {
    metrics.listener.as_fd()
}

/// Ends the thread, if it was started, and closes all.
pub fn stop(metrics: Metrics) {
    if let Some((thread, stop)) = metrics.thread {
        // It may have ended by itself.
        let _ = stop.send(());
        let _ = thread.join();
    }
}
