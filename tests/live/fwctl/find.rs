// SPDX-License-Identifier: GPL-2.0-or-later
//! Selection of the firewall if no socket is named.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Stdio;

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::namespace;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::ctl::{binary, Said};

pub const ROWS: &[Row] = &[
    ("find-the-only-one", only_one),
    ("find-one-of-several", one_of_several),
    ("find-beside-one-that-was-killed", beside_a_killed_one),
    ("find-none-that-somebody-else-laid", laid_by_another),
];

/// Machine whose /run is a folder of the case.
struct Run {
    namespace: Namespace,
    folder: Folder,
}

impl Run {
    fn new() -> anyhow::Result<Run> {
        let (namespace, folder) = (namespace()?, Folder::new()?);
        fs::create_dir(folder.file("twinwall"))?;
        Ok(Run { namespace, folder })
    }

    /// Starts a firewall like a systemd instance: its socket is in the folder of its name.
    fn start(&self, twin: Twin, name: &str, queue: &str) -> anyhow::Result<Firewall> {
        let folder = self.folder.file(&format!("twinwall/{name}"));
        fs::create_dir_all(&folder)?;
        let socket = format!("{folder}/control");
        Firewall::start(
            &self.namespace,
            twin,
            &["--queue", queue, "--control", &socket],
        )
    }

    /// Runs fwctl with the case's folder as /run.
    fn fwctl(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        let mount = "mount --bind \"$0\" /run && exec \"$@\"";
        let mut command = self.namespace.command("unshare");
        command.args(["--mount", "sh", "-c", mount, &self.folder.file("")]);
        command.arg(binary()).args(arguments).stdin(Stdio::null());
        let output = command.env_remove("TWINWALL_CONTROL").output()?;
        Ok(Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// Checks that fwctl with these arguments reaches a firewall.
    fn check_reaches(&self, arguments: &[&str], firewall: &Firewall) -> anyhow::Result<()> {
        let object = self
            .fwctl(&[arguments, &["status", "--json"]].concat())?
            .object()?;
        ensure!(object["pid"] == firewall.pid, "{arguments:?}: {object}");
        Ok(())
    }
}

fn only_one(twin: Twin) -> anyhow::Result<()> {
    let run = Run::new()?;
    run.fwctl(&["status"])?.error(
        3,
        "/run/twinwall/control: no firewall has this control socket: start",
    )?;
    let none =
        "no instance \"web\" has a control socket below /run/twinwall (there: none): start it";
    run.fwctl(&["-i", "web", "status"])?.error(3, none)?;
    let firewall = run.start(twin, "rust-web", "0")?;
    for arguments in [
        &[][..],
        &["-i", "web"],
        &["--instance", "rust-web"],
        &["-i", "twinwall-rust@web"],
        &["-i", "twinwall-rust@web.service"],
        &["--socket", "/run/twinwall/rust-web/control"],
    ] {
        run.check_reaches(arguments, &firewall)?;
    }
    let other = "no instance \"twinwall-c@web\" has a control socket below /run/twinwall (there: -i rust-web)";
    run.fwctl(&["status", "-i", "twinwall-c@web"])?
        .error(3, other)
}

fn one_of_several(twin: Twin) -> anyhow::Result<()> {
    let run = Run::new()?;
    let web = run.start(twin, "rust-web", "0")?;
    let other = run.start(twin, "c-web", "1")?;
    let mail = run.start(twin, "c-mail", "2")?;
    let all = "several firewalls run: choose one with -i c-mail, -i c-web, -i rust-web\n";
    run.fwctl(&["status"])?.error(3, all)?;
    run.fwctl(&["doctor"])?.error(3, all)?;
    let two = "several firewalls run: choose one with -i c-web, -i rust-web\n";
    run.fwctl(&["-i", "web", "status"])?.error(3, two)?;
    run.check_reaches(&["-i", "rust-web"], &web)?;
    run.check_reaches(&["-i", "twinwall-c@web"], &other)?;
    run.check_reaches(&["-i", "mail"], &mail)
}

/// Checks that fwctl ignores the socket that a killed firewall has left.
fn beside_a_killed_one(twin: Twin) -> anyhow::Result<()> {
    let run = Run::new()?;
    let killed = run.start(twin, "rust-web", "0")?;
    let lives = run.start(twin, "c-web", "1")?;
    killed.kill()?;
    run.check_reaches(&[], &lives)?;
    lives.kill()?;
    run.fwctl(&["-i", "c-web", "status"])?
        .error(3, "has ended: start one")
}

/// Checks that fwctl trusts /run/twinwall only if root owns it, because only root can then create folders there, and
/// that a link to an instance's folder is no instance.
fn laid_by_another(twin: Twin) -> anyhow::Result<()> {
    let run = Run::new()?;
    let firewall = run.start(twin, "rust-web", "0")?;
    let folder = run.folder.file("twinwall");
    chown(&folder, Some(12345), None)?;
    let words =
        "/run/twinwall is no folder of root's alone, so that no socket in it is believed: name one";
    run.fwctl(&["status"])?.error(3, words)?;
    run.fwctl(&["-i", "web", "status"])?.error(3, words)?;
    run.check_reaches(&["--socket", "/run/twinwall/rust-web/control"], &firewall)?;
    chown(&folder, Some(0), None)?;
    std::os::unix::fs::symlink("rust-web", run.folder.file("twinwall/c-link"))?;
    run.check_reaches(&[], &firewall)?;
    run.fwctl(&["-i", "link", "status"])?
        .error(3, "no instance \"link\"")
}
