// SPDX-License-Identifier: GPL-2.0-or-later
//! A stand-in for a compromised firewall, and a program that reports how it was started. Both are copies of this test
//! program, which `run` recognises.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ExitCode, Stdio};

use anyhow::Context;
use serde_json::{json, Value};
use testbed::netns::Namespace;
use testbed::wait::{until, PATIENCE};

/// User and group id of the stand-in.
pub const NOBODY: u32 = 65534;
/// File name of the copy of this program that reports how it was started.
pub const TELLING: &str = "telling";

/// Environment variables of the stand-in: the path of its socket, and its answer as JSON. A copy of this program runs
/// as the stand-in if the first one is set.
const SOCKET: &str = "TWINWALL_STAND_IN";
const ANSWER: &str = "TWINWALL_STAND_IN_ANSWER";

/// Process of the stand-in, killed on drop.
pub struct StandIn(Child);

impl StandIn {
    /// Starts a copy of this test program as user NOBODY, in place of a firewall. Its environment has LD_DEBUG_OUTPUT:
    /// in a program that inherits it, the dynamic linker writes files in `home`.
    /// - player: path of the copy.
    /// - home: folder of the stand-in's user.
    /// - capabilities: in setpriv's syntax; empty = none.
    /// - answer: answer to every request.
    pub fn start(
        namespace: &Namespace,
        player: &str,
        home: &str,
        capabilities: &str,
        answer: &Value,
    ) -> anyhow::Result<StandIn> {
        let socket = format!("{home}/control");
        let _ = fs::remove_file(&socket);
        let user = NOBODY.to_string();
        let mut command = namespace.command("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        if !capabilities.is_empty() {
            command.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
        }
        let linker = format!("LD_DEBUG_OUTPUT={home}/linker");
        command.args(["env", "LD_DEBUG=libs", &linker, player]);
        command.env(SOCKET, &socket).env(ANSWER, answer.to_string());
        let child = command.stdin(Stdio::null()).spawn().context("setpriv")?;
        let stand_in = StandIn(child);
        until("the stand-in listens", PATIENCE, || {
            Ok(UnixStream::connect(&socket).is_ok())
        })?;
        Ok(stand_in)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a `status` reply of a firewall without a policy. It contains this program and these arguments.
pub fn status(program: &str, arguments: &[&str]) -> Value {
    json!({
        "ok": true, "program": "c-firewall", "version": "0.1.0", "uid": NOBODY, "executable": program,
        "arguments": arguments, "time_ms": 1, "started_ms": 1, "backend": "raw", "policy": null, "queues": [],
        "ledger": {"reconciled": true, "difference": 0, "lost": 0}, "contract": [], "reload_error": null,
        "log_level": "info", "counts": {},
    })
}

/// Answers every request with ANSWER's object and this process's pid, in two equal lines. `tail` reads the second line
/// as an event.
/// - socket: path at which the stand-in listens.
fn play(socket: &str) -> anyhow::Result<()> {
    let mut answer: Value = serde_json::from_str(&std::env::var(ANSWER)?)?;
    answer["pid"] = std::process::id().into();
    for stream in UnixListener::bind(socket)?.incoming() {
        let mut stream = stream?;
        let mut line = String::new();
        let asked = BufReader::new(&stream).read_line(&mut line);
        if asked.is_ok_and(|bytes| bytes > 0) {
            let _ = write!(stream, "{answer}\n{answer}\n"); // who asked may be gone
        }
    }
    Ok(())
}

/// Prints this process's user, groups, capabilities, and the names of its environment variables.
fn tell() -> anyhow::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let of = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key));
        let first = value.and_then(|value| value.split_whitespace().next());
        first.unwrap_or("0").trim_start_matches('0').to_owned()
    };
    let groups = status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .map_or(0, |groups| groups.split_whitespace().count());
    let variables: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
    eprintln!(
        "error: uid {} gid {} groups {groups} permitted {} bounding {} no_new_privs {} variables {}",
        of("Uid:"),
        of("Gid:"),
        of("CapPrm:"),
        of("CapBnd:"),
        of("NoNewPrivs:"),
        variables.join(" ")
    );
    Ok(())
}

/// Runs this program as the stand-in or the reporting program, if it was started as one of them. Otherwise returns
/// None.
pub fn run() -> Option<ExitCode> {
    let name = std::env::args().next().unwrap_or_default();
    let played = match std::env::var(SOCKET) {
        Ok(socket) => play(&socket),
        Err(_) if name.ends_with(TELLING) => tell(),
        Err(_) => return None,
    };
    Some(ExitCode::from(u8::from(played.is_err())))
}
