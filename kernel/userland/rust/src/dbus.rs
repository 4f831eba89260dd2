// SPDX-License-Identifier: GPL-2.0-or-later
//! The processes of a D-Bus transport: a private daemon and a server, which end with this process. All three processes
//! start as the same program, whose first argument selects the role; the daemon then becomes dbus-daemon.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{ensure, Context, Result};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

pub const LAB_NAME: &str = "org.twinwall.Lab";
pub const LAB_PATH: &str = "/lab";

/// First argument with which this program runs as the bus daemon.
const DAEMON: &str = "--daemon";
/// First argument with which this program runs as the server on the bus.
const SERVER: &str = "--server";

/// Configuration of a bus for a single user, without service activation.
const CONFIGURATION: &str =
    "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
     \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\
     <busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>\
     <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
     <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>";

/// A child process, killed on drop.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    /// Starts this program with the arguments `kind` and `value`; returns the process and the first line that it
    /// prints.
    fn start(kind: &str, value: &str) -> Result<(Peer, String)> {
        let mut command = Command::new(env::current_exe()?);
        command.args([kind, value]).stdin(Stdio::null());
        let mut peer = Peer(
            command
                .stdout(Stdio::piped())
                .spawn()
                .context("a process")?,
        );
        let mut line = String::new();
        let said = peer.0.stdout.take().context("its output")?;
        BufReader::new(said).read_line(&mut line)?;
        ensure!(!line.is_empty(), "{kind}: it has ended");
        Ok((peer, line.trim_end().to_owned()))
    }
}

/// A private bus and a server on it, two child processes.
pub struct Bus {
    // Dropped in this order: the server ends first.
    server: Peer,
    daemon: Peer,
    pub address: String,
}

impl Bus {
    pub fn start() -> Result<Bus> {
        let file = env::temp_dir().join(format!("ipc-dbus-{}.conf", std::process::id()));
        fs::write(&file, CONFIGURATION).with_context(|| file.display().to_string())?;
        let daemon = Peer::start(DAEMON, &file.display().to_string());
        fs::remove_file(&file)?;
        let (daemon, address) = daemon?;
        let (server, _) = Peer::start(SERVER, &address)?;
        Ok(Bus {
            server,
            daemon,
            address,
        })
    }

    pub fn peers(&self) -> Vec<u32> {
        vec![self.server.0.id(), self.daemon.0.id()]
    }
}

/// Becomes the daemon or the server if the arguments say so, and returns only on errors. Returns None for other
/// arguments.
/// - server: runs the server at a bus address; calls its second argument once it accepts requests.
pub fn serve(server: impl FnOnce(&str, &dyn Fn()) -> Result<()>) -> Option<Result<()>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kind, value] = &arguments[..] else {
        return None;
    };
    if kind != DAEMON && kind != SERVER {
        return None;
    }
    let ready = set_pdeathsig(Signal::SIGKILL).map_err(anyhow::Error::from);
    Some(ready.and_then(|()| match kind.as_str() {
        DAEMON => Err(daemon(value)),
        _ => server(value, &|| println!("ready")),
    }))
}

/// Becomes the daemon, by exec of dbus-daemon; returns only on errors.
/// - file: the bus's configuration.
fn daemon(file: &str) -> anyhow::Error {
    let mut command = Command::new("dbus-daemon");
    command.arg(format!("--config-file={file}"));
    command.args(["--nofork", "--nopidfile", "--print-address=1"]);
    anyhow::Error::new(command.exec()).context("dbus-daemon")
}
