// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS and QUIC ends that are separate programs: those of tests/ends, and a browser.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::proc;
use testbed::skip::skip;
use testbed::twin::built;
use testbed::wait::{wait_within, PATIENCE};

use super::ends::Heard;
use crate::evasion::net::Net;

/// Name of the TLS program with Go's crypto/tls.
pub const GO: &str = "go-tls";
/// Name of the TLS program with rustls and aws-lc-rs.
pub const AWS_LC: &str = "rustls-aws-lc";
/// Name of the QUIC program, which supports versions 1 and 2.
pub const AIOQUIC: &str = "aioquic";
/// Name of the HTTP/3 program, with aioquic.
pub const HTTP3: &str = "http3";

/// Time that a browser has to end after SIGTERM.
const GOODBYE: Duration = Duration::from_secs(5);

/// Returns the path of a program. Skips the case if it does not exist.
pub fn file(program: &str) -> anyhow::Result<PathBuf> {
    let file = built("ends").join(program);
    match file.is_file() {
        true => Ok(file),
        false => Err(skip(format!(
            "there is no build/ends/{program}: make ends says why"
        ))),
    }
}

/// Process of a server, killed on drop.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program as a server.
/// - more: arguments after its port, its certificate and its key.
/// - hear: receives each line of its output, on a separate thread.
fn serve(
    net: &Net,
    program: &str,
    port: u16,
    more: &[&str],
    mut hear: impl FnMut(&str) + Send + 'static,
) -> anyhow::Result<Server> {
    let mut child = net
        .server
        .command(file(program)?)
        .args(["serve", &port.to_string()])
        .args([net.certificate(), net.key()])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| program.to_owned())?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    let server = Server(child);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match line.as_str() {
                "ready" => drop(tell.send(())),
                line => hear(line),
            }
        }
    });
    told.recv_timeout(PATIENCE)
        .with_context(|| format!("{program} does not serve"))?;
    Ok(server)
}

/// Serves TLS by a program of tests/ends.
pub fn serve_tls(net: &Net, program: &str, port: u16) -> anyhow::Result<Server> {
    serve(net, program, port, &[], |_| {})
}

/// Reports of a QUIC server: names in complete hellos, and names of complete handshakes.
#[derive(Clone, Default)]
pub struct Told {
    pub hellos: Heard,
    pub done: Heard,
}

/// Answer of a QUIC server to a client's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The server's handshake messages, without Retry and without a request for another hello.
    Plain,
    /// Retry: the client must validate its address (RFC 9000, section 8.1.2).
    Retry,
    /// HelloRetryRequest: the client must send a second hello (RFC 8446, section 4.1.4).
    Again,
}

/// Serves QUIC by aioquic.
/// - told: receives the server's reports.
pub fn serve_quic(net: &Net, port: u16, first: First, told: &Told) -> anyhow::Result<Server> {
    let told = told.clone();
    let more: &[&str] = match first {
        First::Plain => &[],
        First::Retry => &["retry"],
        First::Again => &["again"],
    };
    serve(net, AIOQUIC, port, more, move |line| {
        let mut words = line.split(' ');
        let list = match words.next() {
            Some("hello") => &told.hellos,
            Some("done") => &told.done,
            _ => return,
        };
        let port = words.next().and_then(|word| word.parse().ok());
        if let Some((port, name)) = port.zip(words.next()) {
            list.lock().expect("no panic").push((port, name.to_owned()));
        }
    })
}

/// Handshake that a program must try.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Protocol versions, in the program's syntax.
    pub way: &'static str,
    pub server: SocketAddr,
    pub name: &'static str,
    pub patience: Duration,
}

/// Runs a program that connects for all questions concurrently. Returns the text after "yes" in the program's answer to
/// each question; None if the handshake did not complete in time. Fails if a question has no answer.
pub fn ask(
    net: &Net,
    program: &str,
    questions: &[Question],
) -> anyhow::Result<Vec<Option<String>>> {
    let lines = questions.iter().map(|question| {
        let (host, port) = (question.server.ip(), question.server.port());
        let seconds = question.patience.as_secs_f64();
        format!(
            "{} {host} {port} {} {seconds}\n",
            question.way, question.name
        )
    });
    let lines: Vec<_> = lines.collect();
    let mut child = net
        .client
        .command(file(program)?)
        .arg("ask")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| program.to_owned())?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    stdin.write_all(lines.concat().as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}", words.trim());
    let mut answers = vec![None; questions.len()];
    for line in String::from_utf8(output.stdout)?.lines() {
        let (number, said) = line.split_once(' ').context("a number and an answer")?;
        let answer = answers.get_mut(number.parse::<usize>()?);
        let said = said.strip_prefix("yes ").map(str::to_owned);
        *answer.context("an answer to a question")? = Some(said);
    }
    let answered = answers.into_iter().zip(questions);
    answered
        .map(|(answer, question)| {
            answer.with_context(|| format!("{program} says nothing of {question:?}"))
        })
        .collect()
}

/// Browser that shows one page.
pub struct Browser {
    child: Child,
    _folder: Folder,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // If the browser ends by itself, its child processes end with it.
        proc::signal(self.child.id(), libc::SIGTERM);
        if wait_within(&mut self.child, GOODBYE).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns the hash of nginx's public key (SHA-256 in base64), with which Chromium trusts any certificate of this key.
fn key_hash(net: &Net) -> anyhow::Result<String> {
    let certificate = net.certificate();
    let pipe = format!(
        "openssl x509 -in {certificate} -noout -pubkey | openssl pkey -pubin -outform der | \
         openssl dgst -sha256 -binary | base64"
    );
    let output = Command::new("sh").args(["-c", &pipe]).output()?;
    ensure!(output.status.success(), "openssl says no hash of its key");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Starts a browser with a page of pictures. The browser fetches all of them from the server, whatever their host
/// names.
/// - pictures: URLs of the pictures.
/// - over_quic: host names and ports for which the browser uses QUIC.
pub fn browse(
    net: &Net,
    browser: &str,
    pictures: &[String],
    over_quic: &[String],
) -> anyhow::Result<Browser> {
    let folder = Folder::new()?;
    let pictures = pictures
        .iter()
        .map(|place| format!("<img src=\"{place}\">\n"));
    let page: Vec<_> = pictures.collect();
    let page = folder.write("page.html", format!("<!DOCTYPE html>\n{}", page.concat()))?;
    let child = net
        .client
        .command(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-breakpad",
            "--no-first-run",
        ])
        .arg(format!("--user-data-dir={}", folder.file("profile")))
        .arg(format!("--host-resolver-rules=MAP * {}", super::server()))
        .arg(format!(
            "--ignore-certificate-errors-spki-list={}",
            key_hash(net)?
        ))
        .arg(format!("--origin-to-force-quic-on={}", over_quic.join(",")))
        .arg(format!("file://{page}"))
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| browser.to_owned())?;
    Ok(Browser {
        child,
        _folder: folder,
    })
}
