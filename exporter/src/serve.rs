// SPDX-License-Identifier: GPL-2.0-or-later
//! An HTTP server for Prometheus.
//!
//! Theory of operation: a connection serves one request and is closed, at the latest after CONNECTION_MS. So a slow
//! client holds one of CONNECTIONS_MAX places for that long, and further connections wait in the kernel's backlog.
//!
//! A rendering is the text of the metrics, made from the firewall's answers. Clients share it for SHARE times as long
//! as it took to make, at most for CONNECTION_MS. So this program and the firewall each use at most a tenth of a
//! processor for it, for any number of clients, unless it takes longer than a second. There are two renderings at most:
//! the newest, and one that slow clients still read. As long as both are being read, new clients get the newest. So
//! memory is bounded whatever clients do, and no answer is older than CONNECTION_MS.
//!
//! If the firewall does not answer within ANSWER_MS, all clients that have waited for the answer get the reason, since
//! another attempt might exceed CONNECTION_MS.

use std::convert::Infallible;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OnceCell, Semaphore};

use crate::{control, plain, text};

/// Maximum number of simultaneous connections.
const CONNECTIONS_MAX: usize = 16;
/// Time limit from accept to close, in milliseconds.
const CONNECTION_MS: u64 = 10 * 1000;
/// Time limit for the firewall's answers from which a rendering is made, in milliseconds. It is less than
/// CONNECTION_MS, so that the client still receives the reason.
const ANSWER_MS: u64 = 5 * 1000;
/// Maximum size of a request's head in bytes.
const REQUEST_BYTES: usize = 16 * 1024;
/// Time for which a rendering is shared by clients, as a multiple of the time that it took to make; at most
/// CONNECTION_MS.
const SHARE: u32 = 9;
/// Pause after an error of accept, such as no free descriptor, in milliseconds.
const PAUSE_MS: u64 = 1000;
/// Content type of a message that a client gets instead of the metrics.
const WORDS_TYPE: &str = "text/plain; charset=utf-8";

/// Text of the metrics at one moment. Clients that read it hold a reference.
struct Rendering {
    /// Text in OpenMetrics.
    text: Bytes,
    /// Text in Prometheus' text format 0.0.4, if it was requested.
    plain: OnceLock<Bytes>,
    /// Time until which new clients get this rendering. They get it for longer if clients still read both renderings.
    until: Instant,
}

#[derive(Default)]
struct Renderings {
    newest: Option<Arc<Rendering>>,
    /// Previous rendering, as long as a client reads it.
    older: Weak<Rendering>,
    /// End of the last failed attempt to make a rendering, and the reason.
    failed: Option<(Instant, String)>,
}

/// Counts of the exporter, in the order of `COUNTS`.
#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    unanswered: AtomicU64,
    refused: AtomicU64,
}

/// State of the HTTP server, which all connections share.
struct Source {
    /// Control socket of the firewall.
    control: PathBuf,
    renderings: Mutex<Renderings>,
    counts: Counts,
    /// True if the last attempt to get the firewall's answers failed.
    silent: AtomicBool,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Returns the resident memory of a process in bytes; None if the system does not report it.
fn resident_bytes(pid: u64) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("VmRSS:"));
    let kib = lines.next()?.trim().strip_suffix(" kB")?;
    Some(kib.parse::<u64>().ok()? * 1024)
}

/// Returns the present metrics, in OpenMetrics. Fails with the reason, at the latest after ANSWER_MS.
async fn make_text(source: &Source) -> Result<String, String> {
    let limit = Duration::from_millis(ANSWER_MS);
    let answers = tokio::time::timeout(limit, control::ask(&source.control)).await;
    let answers = answers.map_err(|_| {
        let seconds = limit.as_secs();
        format!("no complete answer within {seconds} s: check whether it is stopped or overloaded")
    })??;
    let pid = answers.status.get("pid").and_then(Value::as_u64);
    let Counts {
        requests,
        unanswered,
        refused,
    } = &source.counts;
    let own = [requests, unanswered, refused].map(|count| count.load(Ordering::Relaxed));
    Ok(text::text(
        answers,
        own.to_vec(),
        pid.and_then(resident_bytes),
    ))
}

/// Makes a rendering. Prints a message when the firewall no longer answers, and when it answers again.
async fn make_rendering(source: &Source) -> Result<Rendering, String> {
    let begin = Instant::now();
    let text = make_text(source).await;
    let shown = source.control.display();
    let was_silent = source.silent.swap(text.is_err(), Ordering::Relaxed);
    match (&text, was_silent) {
        (Err(error), false) => {
            eprintln!("warning: the firewall at {shown} does not answer: {error}")
        }
        (Ok(_), true) => eprintln!("the firewall at {shown} answers again"),
        _ => {}
    }
    let text = text?.into();
    let now = Instant::now();
    let shared = (now - begin) * SHARE;
    Ok(Rendering {
        text,
        plain: OnceLock::new(),
        until: now + shared.min(Duration::from_millis(CONNECTION_MS)),
    })
}

/// Returns a rendering for a new client: the newest if it is recent enough, or if clients still read both renderings;
/// otherwise a new one. Fails with the reason, also if an attempt failed while this client waited.
async fn current_rendering(source: &Source) -> Result<Arc<Rendering>, String> {
    let begin = Instant::now();
    let mut renderings = source.renderings.lock().await;
    match &renderings.failed {
        Some((end, reason)) if begin < *end => return Err(reason.clone()),
        _ => {}
    }
    if let Some(newest) = renderings.newest.take() {
        let is_read = Arc::strong_count(&newest) > 1;
        let is_kept = is_read && renderings.older.strong_count() > 0;
        if Instant::now() < newest.until || is_kept {
            return Ok(Arc::clone(renderings.newest.insert(newest)));
        }
        if is_read {
            renderings.older = Arc::downgrade(&newest);
        }
    }
    match make_rendering(source).await {
        Ok(made) => Ok(Arc::clone(renderings.newest.insert(Arc::new(made)))),
        Err(reason) => {
            renderings.failed = Some((Instant::now(), reason.clone()));
            Err(reason)
        }
    }
}

/// Returns a rendering's text in OpenMetrics or the plain format.
fn text_of(rendering: &Rendering, is_plain: bool) -> Bytes {
    let make_plain = || {
        // The bytes are UTF-8, because they come from a String.
        let text = String::from_utf8_lossy(&rendering.text);
        plain::plain(&text).into()
    };
    match is_plain {
        true => rendering.plain.get_or_init(make_plain).clone(),
        false => rendering.text.clone(),
    }
}

fn refuse(source: &Source, status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    add(&source.counts.refused);
    answer(status, Bytes::from_static(text.as_bytes()), WORDS_TYPE)
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

/// Answers a request whose head was received.
/// - reads: holds the rendering for as long as the connection reads it.
async fn on_request(
    source: &Source,
    reads: &OnceCell<Arc<Rendering>>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return refuse(
            source,
            StatusCode::NOT_FOUND,
            "The metrics are at /metrics.\n",
        );
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return refuse(source, StatusCode::METHOD_NOT_ALLOWED, "Ask by GET.\n");
    }
    add(&source.counts.requests);
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let is_plain = plain::is_wanted(accept.unwrap_or_default());
    let kind = match is_plain {
        true => plain::PLAIN_TYPE,
        false => plain::OPENMETRICS_TYPE,
    };
    match reads.get_or_try_init(|| current_rendering(source)).await {
        Ok(rendering) => answer(StatusCode::OK, text_of(rendering, is_plain), kind),
        Err(error) => {
            let text = format!("The firewall does not answer: {error}\n");
            answer(StatusCode::SERVICE_UNAVAILABLE, text.into(), WORDS_TYPE)
        }
    }
}

/// Serves one request and closes the connection, at the latest when its time is over.
async fn serve_connection(stream: TcpStream, source: &Source) {
    let reads = OnceCell::new();
    let answered = AtomicBool::new(false);
    let service = service_fn(|request| {
        answered.store(true, Ordering::Relaxed);
        let response = on_request(source, &reads, request);
        async { Ok::<_, Infallible>(response.await) }
    });
    let mut connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let limit = Duration::from_millis(CONNECTION_MS);
    // If the connection ends in time, the reason does not matter.
    if tokio::time::timeout(limit, &mut connection).await.is_err() {
        // Data on its way to the client is discarded.
        let _ = connection.into_parts().io.inner().set_zero_linger();
    }
    if !answered.load(Ordering::Relaxed) {
        add(&source.counts.unanswered);
    }
}

/// Serves connections for ever.
/// - listener: listening socket.
/// - control: control socket of the firewall.
pub async fn serve(listener: TcpListener, control: PathBuf) -> ExitCode {
    let source = Arc::new(Source {
        control,
        renderings: Mutex::default(),
        counts: Counts::default(),
        silent: AtomicBool::default(),
    });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return ExitCode::FAILURE;
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
