// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages to systemd, through a socket like systemd's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure, Context};
use testbed::firewall::{take_over, Firewall};
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, watch_silence, PATIENCE};
use twinwall_tests::case::Case;

use super::inject::Held;
use super::running::{of_both, policy};

/// Message for systemd's watchdog.
const ALIVE: &str = "WATCHDOG=1";

pub fn cases() -> Vec<Case> {
    of_both(
        "notify",
        &[
            ("a-life", a_life),
            ("watchdog", watchdog),
            ("long-reload", long_reload),
            ("another-main-process", another_main_process),
            ("nobody-listens", nobody_listens),
        ],
    )
}

/// Stand-in for systemd: a socket that receives its messages.
struct Listener {
    folder: Folder,
    socket: UnixDatagram,
}

impl Listener {
    fn new() -> anyhow::Result<Listener> {
        let folder = Folder::shared()?;
        let path = folder.file("notify");
        let socket = UnixDatagram::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Listener { folder, socket })
    }

    fn variable(&self) -> String {
        format!("NOTIFY_SOCKET={}", self.folder.file("notify"))
    }

    /// Returns the lines of the next message.
    fn hear(&self) -> anyhow::Result<Vec<String>> {
        let mut message = [0; 4096];
        let length = self
            .socket
            .recv(&mut message)
            .context("no further message")?;
        let text = std::str::from_utf8(&message[..length])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Checks that the next message, except for ALIVE, is READY with this status text.
    fn expect_ready(&self, status: &str) -> anyhow::Result<()> {
        let mut heard = self.hear()?;
        while heard == [ALIVE] {
            heard = self.hear()?;
        }
        let expected = ["READY=1".to_owned(), format!("STATUS={status}")];
        ensure!(heard == expected, "{heard:?} and not {expected:?}");
        Ok(())
    }

    fn expect(&self, expected: &str) -> anyhow::Result<()> {
        let heard = self.hear()?;
        ensure!(heard == [expected], "{heard:?} and not {expected}");
        Ok(())
    }

    /// Reads all further messages on a thread: a full socket would block the firewall.
    fn read_on(&self) -> anyhow::Result<()> {
        let socket = self.socket.try_clone()?;
        thread::spawn(move || while socket.recv(&mut [0; 100]).is_ok() {});
        Ok(())
    }
}

fn a_life(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    let file = listener.folder.write("p.nft", policy(""))?;
    let arguments = ["--policy", &file, "--json"];
    let variable = listener.variable();
    let firewall = Firewall::start_under(&namespace()?, &["env", &variable], twin, &arguments)?;
    listener.expect_ready(&format!("generation 1 of {file}, rules: 1"))?;
    proc::signal(firewall.pid, libc::SIGHUP);
    let reloading = listener.hear()?;
    let (first, since) = (
        &reloading[0],
        reloading.get(1).map(String::as_str).unwrap_or_default(),
    );
    let us = since.strip_prefix("MONOTONIC_USEC=").map(str::parse::<u64>);
    ensure!(
        first == "RELOADING=1" && matches!(us, Some(Ok(1..))),
        "{reloading:?}"
    );
    listener.expect_ready(&format!("generation 2 of {file}, rules: 1"))?;
    listener.folder.write("p.nft", "nonsense")?;
    proc::signal(firewall.pid, libc::SIGHUP);
    ensure!(listener.hear()?[0] == "RELOADING=1");
    listener.expect_ready(&format!(
        "generation 2 of {file}, rules: 1; the last reload failed"
    ))?;
    firewall.end_by(libc::SIGTERM)?;
    listener.expect("STOPPING=1")
}

/// Checks that no message arrives for longer than the watchdog's time. Discards messages that have already arrived, and
/// one message that a thread was about to send.
fn expect_silence(listener: &Listener) -> anyhow::Result<()> {
    listener.socket.set_nonblocking(true)?;
    while listener.hear().is_ok() {}
    let mut late = 0;
    until("no message arrives", PATIENCE, || {
        watch_silence(Duration::from_millis(600));
        let before = late;
        while listener.hear().is_ok() {
            late += 1;
        }
        ensure!(late <= 1, "a stopped firewall says that it is alive");
        Ok(late == before)
    })?;
    listener.socket.set_nonblocking(false)?;
    Ok(())
}

/// Checks that a firewall sends messages for systemd's watchdog while all its threads work, and none while one worker
/// or the whole process is stopped.
fn watchdog(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    let variable = listener.variable();
    let wrapper = ["env", &variable, "WATCHDOG_USEC=400000"];
    let arguments = ["--json", "--queue", "0:1"];
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &arguments)?;
    listener.expect_ready("no policy: --default decides")?;
    for _ in 0..3 {
        listener.expect(ALIVE)?;
    }
    let threads = proc::threads(firewall.pid)?;
    // The workers are the last threads, except for the watchdog's.
    let [.., worker, _] = threads[..] else {
        bail!("{threads:?}");
    };
    let held = Held::new(worker)?;
    expect_silence(&listener)?;
    drop(held);
    listener.expect(ALIVE)?;
    proc::stop(firewall.pid)?;
    expect_silence(&listener)?;
    proc::signal(firewall.pid, libc::SIGCONT);
    listener.expect(ALIVE)?;
    listener.read_on()?;
    firewall.stop().map(drop)
}

/// Reloads the policy. Returns the number of messages for the watchdog during the reload.
fn count_alive(listener: &Listener, firewall: &Firewall) -> anyhow::Result<u32> {
    proc::signal(firewall.pid, libc::SIGHUP);
    while listener.hear()? == [ALIVE] {}
    let mut alive = 0;
    while listener.hear()? == [ALIVE] {
        alive += 1;
    }
    Ok(alive)
}

/// Checks that messages for the watchdog continue during a reload that takes longer than the watchdog's time.
fn long_reload(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    listener.folder.write("names.txt", "one.example\n")?;
    let text = "table inet t {\n\tset s {\n\t\ttype hostname\n\t\tfile \"names.txt\"\n\t}\n\tchain c {\n\t\t\
                type filter hook input priority 0; policy accept;\n\t\ttls sni @s drop\n\t}\n}\n";
    let file = listener.folder.write("p.nft", text)?;
    let variable = listener.variable();
    let wrapper = ["env", &variable, "WATCHDOG_USEC=40000"];
    let arguments = ["--policy", &file, "--json"];
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &arguments)?;
    listener.expect_ready(&format!("generation 1 of {file}, rules: 1"))?;
    let names: Vec<String> = (0..300_000).map(|at| format!("{at}.example\n")).collect();
    listener.folder.write("names.txt", names.concat())?;
    until("signs of life during a reload", PATIENCE, || {
        Ok(count_alive(&listener, &firewall)? > 1)
    })?;
    listener.read_on()?;
    firewall.end_by(libc::SIGTERM).map(drop)
}

/// Checks that after a take-over the old firewall reports the pid of the new one to systemd (MAINPID).
fn another_main_process(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    let (namespace, variable) = (namespace()?, listener.variable());
    let control = listener.folder.file("control");
    let wrapper = ["env", &variable];
    let arguments = ["--control", &control, "--json"];
    let old = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    listener.expect_ready("no policy: --default decides")?;
    let arguments = ["--control", &control, "--take-over", &control];
    let (new, _) = take_over(&old, || Firewall::start(&namespace, twin, &arguments))?;
    listener.expect(&format!("MAINPID={}", new.pid))?;
    let ended = old.end_by(0)?;
    ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
    let ended = new.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
    Ok(())
}

fn nobody_listens(twin: Twin) -> anyhow::Result<()> {
    let wrapper = [
        "env",
        "NOTIFY_SOCKET=/nonexistent/notify",
        "WATCHDOG_USEC=100000",
    ];
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &["--json"])?;
    firewall.stop().map(drop)
}
