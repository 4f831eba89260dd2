// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures real agents with real etcd, but without firewalls. In place of root's service, this process verifies the
//! pointer (signed text that names a channel's generation) and stores the phase of each agent. This way the agents load
//! etcd, and not nft on this machine.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use fleet::keys::Keys;
use fleet::local::protocol::{self, Answer, Request};
use fleet::pointer::Pointer;
use fleet::report::{Local, Phase};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use testbed::twin::built;
use twinwall_tests::fleet::{policy, Place, Plan, Running, CHANNEL};

use super::measure::{bytes_at_rest, database_bytes, memory_mb, push_well, wait_for_alive};
use super::report::Run;

const PUSH: [&str; 4] = ["--observe", "0", "--confirm", "120"];
/// Number of measured pushes.
const PUSHES: usize = 3;
/// Number of threads that answer agents.
const THREADS: usize = 8;

type States = Arc<Mutex<HashMap<i32, Local>>>;

/// Serves a request of an agent. The process ID of the client identifies the agent.
fn serve(states: &States, keys: &Keys, stream: &UnixStream) -> anyhow::Result<()> {
    let pid = getsockopt(stream, PeerCredentials)?.pid();
    let read = protocol::read(BufReader::new(stream));
    let (request, bundle) = read.map_err(|failure| anyhow::anyhow!(failure.text))?;
    // Verified before the lock, so that agents are served at the same time.
    let applied = match &request {
        Request::Apply { pointer, .. } => {
            let text = pointer.verify(keys);
            let pointer = text.and_then(Pointer::parse);
            let pointer = pointer.map_err(|failure| anyhow::anyhow!(failure.text))?;
            let is_whole = fleet::bundle::digest(&bundle) == pointer.digest;
            anyhow::ensure!(is_whole, "another bundle");
            Some(pointer)
        }
        _ => None,
    };
    let mut states = states.lock().expect("no thread panics");
    let local = states.entry(pid).or_default();
    if let Some(pointer) = applied {
        local.generation = pointer.generation;
        local.digest = pointer.digest;
        local.phase = Phase::Pending;
    }
    match request {
        Request::Confirm { generation } => {
            local.phase = Phase::Confirmed;
            local.confirmed = generation;
        }
        Request::Revert { why, .. } => {
            local.phase = Phase::Reverted;
            local.why = Some(why);
        }
        _ => {}
    }
    let answer = Answer::Done(local.clone());
    drop(states);
    let mut stream = stream;
    Ok(writeln!(stream, "{}", serde_json::to_string(&answer)?)?)
}

/// Starts threads that serve agents at the socket `path` until this process ends.
fn listen(path: &str, keys: Keys) -> anyhow::Result<()> {
    let listener = Arc::new(UnixListener::bind(path)?);
    let (states, keys) = (States::default(), Arc::new(keys));
    for _ in 0..THREADS {
        let (listener, states, keys) = (listener.clone(), states.clone(), keys.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = serve(&states, &keys, &stream) {
                    eprintln!("an agent's request: {error:#}");
                }
            }
        });
    }
    Ok(())
}

pub fn run(count: usize) -> anyhow::Result<Run> {
    let begun = Instant::now();
    let place = Place::with(Plan {
        store_first: true,
        ..Plan::default()
    })?;
    let socket = place.folder.file("socket");
    let text = std::fs::read_to_string(place.folder.file("out/fleet.keys"))?;
    let keys = Keys::parse("fleet.keys", &text).map_err(|failure| anyhow::anyhow!(failure.text))?;
    listen(&socket, keys)?;
    let mut agents = Vec::new();
    for number in 1..=count {
        let id = format!("a{number}");
        let staging = place.folder.file(&format!("staging/{id}"));
        std::fs::create_dir_all(&staging)?;
        let mut command = place.operator.command(built("twinwall-agent"));
        command
            .args(["--etcd", &place.etcd_urls()])
            .args(["--login", &place.folder.file("out/operator.login")])
            .args(["--host", &id, "--channel", CHANNEL])
            .args(["--staging", &staging, "--local", &socket])
            .stderr(Stdio::null());
        agents.push(Running(command.spawn()?));
    }
    wait_for_alive(&place, count)?;
    let started = begun.elapsed().as_secs_f64();
    eprintln!("{count} agents are there after {started:.1} s");
    let bytes = database_bytes(&place)?;
    let mut all = Vec::new();
    for number in 0..PUSHES {
        let one = push_well(&place, count, &policy(7000 + number as u16), &PUSH)?;
        eprintln!("push {}: {:.1} s", number + 1, one.seconds);
        all.push(one);
    }
    let bytes = database_bytes(&place)?.saturating_sub(bytes) / (count * PUSHES) as u64;
    Ok(Run {
        name: format!("{count} agents without a firewall"),
        hosts: count,
        started,
        pushes: all,
        observed: 0.0,
        etcd_mb: memory_mb(place.etcd_pid()?)?,
        bytes_a_push: bytes,
        bytes_at_rest: bytes_at_rest(&place, count)?,
        unknown: 0,
        canary: None,
        traffic: None,
        rest: None,
    })
}
