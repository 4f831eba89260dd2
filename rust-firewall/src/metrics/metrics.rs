// SPDX-License-Identifier: GPL-2.0-or-later
//! --metrics: an HTTP server for Prometheus, on a thread of its own.
//!
//! Theory of operation: a connection serves one request and is closed, at the latest after
//! CONNECTION_MS, so a slow client holds one of CONNECTIONS_MAX places for that long and the others
//! wait in the kernel's backlog.
//!
//! An answer is a rendering of a snapshot, and clients share it: for SHARE times as long as it took
//! to make, so that making takes a tenth of a processor at most, however many clients ask and
//! counters there are. There are two renderings at most, the newest and one that slow clients still
//! read; as long as both are being read, the newest is given. So memory has a bound whatever clients
//! do, and no answer is older than CONNECTION_MS.
// seccomp: accept4 clock_gettime close epoll_create1 epoll_ctl epoll_wait eventfd2 fcntl futex
// seccomp: getsockopt pread64 read recvfrom sendto setsockopt shutdown write writev

use std::convert::Infallible;
use std::fs::File;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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

use crate::base::counts::{self, Count};
use crate::base::lock;
use crate::base::log::{failure_set, failure_set_start, Failure, LogExit};
use crate::metrics;
use crate::state::snapshot;
use crate::state::State;

/// At a time.
pub const CONNECTIONS_MAX: usize = 16;
/// The time from accept to close.
pub const CONNECTION_MS: u64 = 10 * 1000;
/// Bytes of a request's head.
pub const REQUEST_BYTES: usize = 16 * 1024;
/// A rendering is shared for SHARE times as long as it took to make.
pub const SHARE: u32 = 9;

const BACKLOG: i32 = 16;
/// How long nothing is accepted when the system can give no more descriptors.
const PAUSE_MS: u64 = 1000;

pub struct Metrics {
    listener: StdListener,
    /// /proc/self/statm, opened while that is allowed.
    statm: Option<Arc<File>>,
    thread: Option<(JoinHandle<()>, oneshot::Sender<()>)>,
}

/// Explains why listening at the address failed, with the cure.
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

/// Text of one snapshot. Readers hold a reference.
struct Rendering {
    /// In OpenMetrics.
    text: Bytes,
    /// In the older format, if it was asked for.
    plain: OnceLock<Bytes>,
    /// Time until which it is recent enough.
    until: Instant,
}

#[derive(Default)]
struct Renderings {
    newest: Option<Arc<Rendering>>,
    /// Previous rendering, as long as a client reads it.
    older: Weak<Rendering>,
}

/// State for answering.
struct Source {
    state: Arc<State>,
    statm: Option<Arc<File>>,
    renderings: Mutex<Renderings>,
}

/// The metrics now, in OpenMetrics.
fn make_text(source: &Source) -> String {
    let snapshot = snapshot::take(&source.state, true);
    let counts = counts::ALL.map(|(count, _)| counts::get(count)).to_vec();
    metrics::text::text(snapshot, counts, resident_bytes(source.statm.as_deref()))
}

fn make_rendering(source: &Source) -> Rendering {
    let begin = Instant::now();
    let text = make_text(source).into();
    let now = Instant::now();
    let shared = (now - begin) * SHARE;
    Rendering {
        text,
        plain: OnceLock::new(),
        until: now + shared.min(Duration::from_millis(CONNECTION_MS)),
    }
}

/// Returns a rendering for a new client: the newest, or a newer one.
fn current_rendering(source: &Source) -> Arc<Rendering> {
    let mut renderings = lock::lock(&source.renderings);
    if let Some(newest) = renderings.newest.take() {
        let is_read = Arc::strong_count(&newest) > 1;
        let is_kept = is_read && renderings.older.strong_count() > 0;
        if Instant::now() < newest.until || is_kept {
            return Arc::clone(renderings.newest.insert(newest));
        }
        if is_read {
            renderings.older = Arc::downgrade(&newest);
        }
    }
    Arc::clone(renderings.newest.insert(Arc::new(make_rendering(source))))
}

/// The text of a rendering, in a format.
fn text_of(rendering: &Rendering, plain: bool) -> Bytes {
    let make_plain = || {
        // It was a String.
        let text = String::from_utf8_lossy(&rendering.text);
        metrics::plain::plain(&text).into()
    };
    match plain {
        true => rendering.plain.get_or_init(make_plain).clone(),
        false => rendering.text.clone(),
    }
}

fn refuse(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    counts::add(Count::MetricsRefused, 1);
    let text = Bytes::from_static(text.as_bytes());
    answer(status, text, "text/plain; charset=utf-8")
}

fn answer(status: StatusCode, text: Bytes, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// Answers a request whose head has come.
/// - reads: takes the rendering that the connection is given.
fn on_request(
    source: &Source,
    reads: &OnceLock<Arc<Rendering>>,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return refuse(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "Ask by GET.\n");
    }
    counts::add(Count::MetricsRequests, 1);
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let plain = metrics::plain::is_wanted(accept.unwrap_or_default());
    let kind = match plain {
        true => metrics::plain::PLAIN_TYPE,
        false => metrics::plain::OPENMETRICS_TYPE,
    };
    let rendering = reads.get_or_init(|| current_rendering(source));
    answer(StatusCode::OK, text_of(rendering, plain), kind)
}

/// Serves one request and closes, or closes when the time is over.
async fn serve_connection(stream: TcpStream, source: &Source) {
    let reads = OnceLock::new();
    let answered = AtomicBool::new(false);
    let service = service_fn(|request| {
        answered.store(true, Ordering::Relaxed);
        let response = on_request(source, &reads, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let limit = Duration::from_millis(CONNECTION_MS);
    // Why it ended in time is the client's affair.
    if tokio::time::timeout(limit, &mut connection).await.is_err() {
        // Data on its way to the client is discarded.
        let _ = connection.into_parts().io.inner().set_zero_linger();
    }
    if !answered.load(Ordering::Relaxed) {
        counts::add(Count::MetricsUnanswered, 1);
    }
}

/// Serves connections for ever.
async fn serve(listener: TcpListener, source: Arc<Source>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = Arc::clone(&source);
                tokio::spawn(async move {
                    serve_connection(stream, &source).await;
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
    let source = Arc::new(Source {
        state: Arc::clone(state),
        statm: metrics.statm.clone(),
        renderings: Mutex::default(),
    });
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
