// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages to systemd, through a socket like its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::PATIENCE;
use twinwall_tests::case::Case;

use super::running::{of_both, policy};

pub fn cases() -> Vec<Case> {
    of_both(
        "notify",
        &[
            ("a-life", a_life),
            ("watchdog", watchdog),
            ("patience", patience),
            ("another-main-process", another_main_process),
            ("nobody-listens", nobody_listens),
        ],
    )
}

/// Stand-in for systemd.
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

    /// Expects READY with the text of `systemctl status`.
    fn expect_ready(&self, status: &str) -> anyhow::Result<()> {
        let heard = self.hear()?;
        let expected = ["READY=1".to_owned(), format!("STATUS={status}")];
        ensure!(heard == expected, "{heard:?} and not {expected:?}");
        Ok(())
    }

    fn expect(&self, expected: &str) -> anyhow::Result<()> {
        let heard = self.hear()?;
        ensure!(heard == [expected], "{heard:?} and not {expected}");
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

/// Two messages per watchdog time, as long as the main thread works.
fn watchdog(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    let variable = listener.variable();
    let wrapper = ["env", &variable, "WATCHDOG_USEC=400000"];
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &["--json"])?;
    listener.expect_ready("no policy: --default decides")?;
    for _ in 0..5 {
        listener.expect("WATCHDOG=1")?;
    }
    proc::stop(firewall.pid)?;
    while listener.socket.set_nonblocking(true).is_ok() && listener.hear().is_ok() {}
    std::thread::sleep(std::time::Duration::from_millis(600));
    ensure!(
        listener.hear().is_err(),
        "a stopped firewall says that it is alive"
    );
    proc::signal(firewall.pid, libc::SIGCONT);
    firewall.stop().map(drop)
}

/// During a reload, which may take long, systemd waits longer for the next message.
fn patience(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    let file = listener.folder.write("p.nft", policy(""))?;
    let variable = listener.variable();
    let wrapper = ["env", &variable, "WATCHDOG_USEC=30000000"];
    let arguments = ["--policy", &file, "--json"];
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &arguments)?;
    listener.expect_ready(&format!("generation 1 of {file}, rules: 1"))?;
    listener.expect("WATCHDOG=1")?;
    for generation in [2, 3] {
        proc::signal(firewall.pid, libc::SIGHUP);
        listener.expect("WATCHDOG_USEC=600000000")?;
        ensure!(listener.hear()?[0] == "RELOADING=1");
        listener.expect_ready(&format!("generation {generation} of {file}, rules: 1"))?;
        listener.expect("WATCHDOG_USEC=30000000")?;
    }
    firewall.end_by(libc::SIGTERM)?;
    listener.expect("STOPPING=1")
}

/// The old firewall reports the process that took over.
fn another_main_process(twin: Twin) -> anyhow::Result<()> {
    let listener = Listener::new()?;
    let (namespace, variable) = (namespace()?, listener.variable());
    let control = listener.folder.file("control");
    let wrapper = ["env", &variable];
    let arguments = ["--control", &control, "--json"];
    let old = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    listener.expect_ready("no policy: --default decides")?;
    let arguments = ["--control", &control, "--take-over", &control];
    let new = Firewall::start(&namespace, twin, &arguments)?;
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
