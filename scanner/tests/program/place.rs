// SPDX-License-Identifier: GPL-2.0-or-later
//! Test environment: namespaces, servers in them, and the program as a child.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testbed::netns::Namespace;
use testbed::wait::wait_within;

/// Time limit of a run; a longer run counts as a hang.
const LIMIT: Duration = Duration::from_secs(400);
/// Values of --read-timeout in milliseconds, for scans that find silent servers: each is tried if a busy machine has
/// made other servers silent for the one before.
pub const READ_LIMITS: [&str; 4] = ["500", "4000", "30000", "120000"];

/// Creates an empty namespace. Fails with a message unless run as root: a skipped test must not pass.
pub fn namespace() -> Namespace {
    Namespace::new().unwrap_or_else(|error| panic!("{error:#}: make check-root"))
}

/// Loads nftables rules for incoming packets.
pub fn filter(place: &Namespace, rules: &str) {
    let chain = "table inet f { chain input { type filter hook input priority 0;";
    let input = format!("{chain}\n{rules}\n}}; }}\n");
    place.feed("nft", &["-f", "-"], &input).unwrap();
}

/// Runs the program in the namespace to its end.
pub fn scan(place: &Namespace, words: &str) -> Output {
    scan_with(place, &words.split_whitespace().collect::<Vec<_>>())
}

pub fn scan_with(place: &Namespace, words: &[&str]) -> Output {
    let mut child = place
        .command(env!("CARGO_BIN_EXE_scanner"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the scanner starts");
    let mut pipes = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let stdout = thread::spawn(move || read(&mut pipes.0));
    let stderr = thread::spawn(move || read(&mut pipes.1));
    let Some(status) = wait_within(&mut child, LIMIT) else {
        let _ = child.kill();
        panic!("{words:?} is not done after {LIMIT:?}");
    };
    Output {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// Kills a child that exceeds the time limit, so that the test does not wait for ever. Stops when dropped; must live until
/// the child was waited for.
pub struct Bound {
    _done: Sender<()>,
}

impl Bound {
    pub fn new(child: &Child) -> Bound {
        let (done, is_done) = channel();
        let id = child.id() as i32;
        thread::spawn(move || {
            if is_done.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                // SAFETY: kill(2) touches no memory; the child was not waited for yet, so its process id is not reused.
                unsafe { libc::kill(id, libc::SIGKILL) };
            }
        });
        Bound { _done: done }
    }
}

fn read(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the results and the summary of a run with `-o json --show all`, which must succeed.
pub fn results(place: &Namespace, words: &str) -> (Vec<Value>, Value) {
    let output = scan(place, &format!("{words} -o json --show all"));
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    parsed(&output)
}

pub fn parsed(output: &Output) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    let mut last = lines.pop().expect("there is a summary");
    (lines, last["summary"].take())
}

/// Returns the targets that were reported with a state, as address:port, sorted as text.
pub fn with_state(results: &[Value], state: &str) -> Vec<String> {
    let mut found: Vec<String> = results
        .iter()
        .filter(|result| result["state"] == state)
        .map(|result| format!("{}:{}", result["address"].as_str().unwrap(), result["port"]))
        .collect();
    found.sort();
    found
}

/// Starts a server in the namespace, which serves each connection on a thread of its own until the test ends.
pub fn serve(
    place: &Namespace,
    address: &str,
    serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static,
) -> SocketAddr {
    let listener = place.enter(|| TcpListener::bind(address)).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    at
}

/// Returns a handler that sends `words` at once, and then waits until the client sends a byte or closes the connection.
pub fn says(words: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + Clone + 'static {
    move |mut stream| {
        let _ = stream.write_all(words);
        let _ = stream.set_read_timeout(Some(LIMIT));
        let _ = stream.read(&mut [0; 1]);
    }
}

/// Returns a handler that reads a request's head and answers with `words`.
pub fn answers(words: &'static [u8]) -> impl Fn(TcpStream) + Send + Sync + Clone + 'static {
    move |mut stream| {
        let mut heard = Vec::new();
        let mut byte = [0; 1];
        while !heard.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
            heard.push(byte[0]);
        }
        let _ = stream.write_all(words);
    }
}
