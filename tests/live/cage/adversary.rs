// SPDX-License-Identifier: GPL-2.0-or-later
//! An adversary in a cage: every way out that root has outside a cage must fail inside.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{ensure, Context};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::life::of;
use super::scene::{Said, Scene, GOOD};

pub const ROWS: &[Row] = &[
    ("adversary", user),
    ("adversary-root", root),
    ("host-loopback", host_loopback),
    ("many-sockets", many_sockets),
    ("runtime-folder", runtime_folder),
    ("socket-below-the-private-folder", below_place),
    ("descriptors", descriptors),
    ("tunnels", tunnels),
];

const ADVERSARY: &str = include_str!("adversary.py");
const TUNNEL: &str = include_str!("tunnel.py");
/// The system's Python, which an ordinary user may run.
const PYTHON: &str = "/usr/bin/python3";
const PORT: &str = "8765";
/// Policy that accepts all packets: the cage must close the ways out, not the policy.
const OPEN: &str = "table inet open {
	chain output { type filter hook output priority filter; policy accept; }
}
";
/// Ways out that don't count outside the cage: a setting or a missing module of the kernel may close them there, too.
const FOR_ROOT: [&str; 3] = ["terminal", "io_uring", "vsock"];

/// Returns the result of each way out: `through`, or the error.
fn ways(said: &Said) -> anyhow::Result<BTreeMap<String, String>> {
    let lines = said
        .code(0)?
        .lines()
        .filter_map(|line| line.rsplit_once(": ").map(|_| line));
    let split = |line: &str| {
        let (way, how) = match line.strip_suffix(": through") {
            Some(way) => (way, "through"),
            None => line
                .split_once(": [")
                .or_else(|| line.split_once(": "))
                .unwrap_or((line, "")),
        };
        (way.to_owned(), how.to_owned())
    };
    Ok(lines.map(split).collect())
}

/// Resources of the host that a command in a cage must not reach.
struct Lures {
    _abstract: UnixListener,
    _path: UnixListener,
    _renamed: UnixListener,
    server: Child,
    words: [String; 5],
}

/// Python lines that bind a Unix socket by a relative path, and then serve HTTP at PORT.
const SERVER: &str = "
import http.server as h, os, socket, sys
own = socket.socket(socket.AF_UNIX)
own.bind('relative')
os.chmod('relative', 0o777)
own.listen()
h.HTTPServer.address_family = socket.AF_INET6
h.test(h.SimpleHTTPRequestHandler, h.HTTPServer, port=int(sys.argv[1]), bind='::')
";

impl Lures {
    fn new(scene: &Scene) -> anyhow::Result<Lures> {
        let name = format!("twinwall-cage-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name)?;
        let path = scene.folder.file("service");
        // Deeper than the search for sockets, which finds it by the folder of its first name.
        let (bound, renamed) = (
            scene.folder.file("a/b/c/bound"),
            scene.folder.file("a/b/c/renamed"),
        );
        std::fs::create_dir_all(scene.folder.file("a/b/c"))?;
        let relative = scene.folder.file("home/relative");
        let (abstract_, at_path, to_rename) = scene.host.enter(|| -> anyhow::Result<_> {
            Ok((
                UnixListener::bind_addr(&address)?,
                UnixListener::bind(&path)?,
                UnixListener::bind(&bound)?,
            ))
        })?;
        std::fs::rename(&bound, &renamed)?;
        for path in [&path, &renamed] {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        }
        let server = scene
            .host
            .command(PYTHON)
            .args(["-c", SERVER, PORT])
            .current_dir(scene.folder.file("home"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let port: u16 = PORT.parse()?;
        until("the host's server listens", PATIENCE, || {
            Ok(scene
                .host
                .enter(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()))
        })?;
        Ok(Lures {
            _abstract: abstract_,
            _path: at_path,
            _renamed: to_rename,
            server,
            words: [name, path, renamed, relative, PORT.to_owned()],
        })
    }
}

impl Drop for Lures {
    fn drop(&mut self) {
        let _ = self.server.kill(); // it may have ended
        let _ = self.server.wait();
    }
}

/// Runs the adversary in a cage, with the process ids of fwctl and the firewall, and the lures, as arguments.
fn try_in_cage(scene: &Scene, lures: &Lures, is_root: bool) -> anyhow::Result<Said> {
    let script = scene.folder.write("adversary.py", ADVERSARY)?;
    let policy = scene.folder.write("open.nft", OPEN)?;
    let (ready, pids) = (
        scene.folder.file("home/ready"),
        scene.folder.file("home/pids"),
    );
    let lines = format!(": > {ready}; while ! [ -s {pids} ]; do sleep 0.05; done; exec {PYTHON} {script} $(cat {pids}) {}", lures.words.join(" "));
    let mut command = scene.run_as(is_root, &["--policy", &policy, "--", "sh", "-c", &lines]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    until("the command runs", PATIENCE, || {
        Ok(Path::new(&ready).exists())
    })?;
    let firewall = of(scene, "-firewall --queue")?
        .first()
        .copied()
        .context("no firewall")?;
    scene
        .folder
        .write("pids", format!("{} {firewall}\n", child.id()))?;
    std::fs::rename(scene.folder.file("pids"), &pids)?;
    Ok(Said::of(child.wait_with_output()?))
}

fn try_both(twin: Twin, is_root: bool) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let lures = Lures::new(&scene)?;
    let inside = ways(&try_in_cage(&scene, &lures, is_root)?)?;
    let through: Vec<_> = inside
        .iter()
        .filter(|(_, how)| *how == "through")
        .map(|(way, _)| way)
        .collect();
    ensure!(
        through.is_empty(),
        "came through: {through:?}; all: {inside:#?}"
    );
    // Outside the cage, root gets through by these ways: otherwise the script would prove nothing.
    let mut words = vec![PYTHON.to_owned(), scene.folder.file("adversary.py")];
    words.extend([
        std::process::id().to_string(),
        lures.server.id().to_string(),
    ]);
    words.extend(lures.words.clone());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outside = ways(&Said::of(scene.on_host(true, &words).output()?))?;
    let ways_there = outside
        .iter()
        .filter(|(way, how)| *how == "through" && !FOR_ROOT.contains(&way.as_str()))
        .count();
    ensure!(
        inside.len() == outside.len() && ways_there >= 20,
        "{ways_there} ways are ways at all: {outside:#?}"
    );
    Ok(())
}

fn user(twin: Twin) -> anyhow::Result<()> {
    try_both(twin, false)
}

fn root(twin: Twin) -> anyhow::Result<()> {
    try_both(twin, true)
}

/// Checks that --host-loopback and --host-socket allow exactly what they name.
fn host_loopback(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let lures = Lures::new(&scene)?;
    let curl = format!("curl -s -o /dev/null --max-time 20 http://127.0.0.1:{PORT}/");
    scene.shell(&[], &curl)?.code(7)?;
    scene.shell(&["--host-loopback"], &curl)?.code(0)?;
    let connect = format!(
        "{PYTHON} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        lures.words[1]
    );
    scene.shell(&[], &connect)?.code(1)?;
    scene
        .shell(&["--host-socket", &lures.words[1]], &connect)?
        .code(0)?;
    let link = scene.folder.file("link");
    std::os::unix::fs::symlink(&lures.words[1], &link)?;
    scene.shell(&["--host-socket", &link], &connect)?.code(0)?;
    let said = scene.shell(&["--host-socket", "missing"], "echo ran")?;
    ensure!(said.code(125)?.is_empty(), "{}", said.all());
    said.says("error: --host-socket missing: No such file or directory")
}

/// Checks that neither the number nor the names of the host's sockets prevent a cage. Their paths together are longer
/// than a message between the cage's processes can be.
fn many_sockets(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let folder = scene.folder.path();
    UnixListener::bind(folder.join(OsStr::from_bytes(b"socket-\xff")))?;
    for number in 0..3000 {
        UnixListener::bind(folder.join(format!("socket-{number:060}")))?;
    }
    for is_root in [false, true] {
        let mut command = scene.run_as(is_root, &["--", "sh", "-c", "ls -l socket-*"]);
        let said = Said::of(command.output()?);
        let rows = said.code(0)?.lines();
        let open = rows.filter(|row| row.starts_with('s')).count();
        ensure!(open == 0, "{open} sockets are open");
    }
    Ok(())
}

/// Checks that XDG_RUNTIME_DIR is covered if it is a private folder of the caller, but never HOME.
fn runtime_folder(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let lines = "chmod 700 home; mkdir -m 700 home/runtime; : > home/runtime/file";
    Said::of(scene.on_host(false, &["sh", "-ec", lines]).output()?).code(0)?;
    for (name, is_covered) in [("home", false), ("home/runtime", true)] {
        let mut command = scene.run_as(false, &["--", "test", "-e", "home/runtime/file"]);
        command.env("XDG_RUNTIME_DIR", scene.folder.file(name));
        Said::of(command.output()?).code(is_covered.into())?;
    }
    Ok(())
}

/// Python script that binds a Unix socket in /mnt, where a cage mounts its private folder, and runs a command that
/// connects to the socket.
const BELOW: &str = "
import socket, subprocess, sys
own = socket.socket(socket.AF_UNIX)
own.bind('/mnt/service')
own.listen()
connect = 'import socket; socket.socket(socket.AF_UNIX).connect(\"/mnt/service\")'
sys.exit(subprocess.run(sys.argv[1:] + [sys.executable, '-c', connect]).returncode)
";

/// Checks that a socket below the mount point of the private folder is covered, too.
fn below_place(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let script = scene.folder.write("below.py", BELOW)?;
    let run = |words: &str| -> anyhow::Result<Said> {
        let lines = format!("mount -t tmpfs none /mnt; exec {PYTHON} {script} {words}");
        Ok(Said::of(
            scene.on_host(true, &["sh", "-ec", &lines]).output()?,
        ))
    };
    run("env")?.code(0)?;
    let fwctl = scene.folder.file("fwctl");
    let said = run(&format!("{fwctl} run --twin {} --", twin.name()))?;
    said.code(1)?;
    said.says("ConnectionRefusedError")
}

/// Checks that a command does not inherit a connection of the host (fwctl refuses), but inherits a pipe.
fn descriptors(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let (fwctl, twin) = (scene.folder.file("fwctl"), twin.name());
    let run = |lines: &str| -> anyhow::Result<Said> {
        Ok(Said::of(
            scene.on_host(false, &["/bin/bash", "-c", lines]).output()?,
        ))
    };
    let said = run(&format!(
        "exec 7<>/dev/tcp/{}/80; {fwctl} run --twin {twin} sh -c 'echo >&7'",
        GOOD[0]
    ))?;
    said.code(125)?;
    said.says("error: descriptor 7 is open and leads to the host's network")?;
    let said = run(&format!(
        "{fwctl} run --twin {twin} sh -c 'echo inherited >&7' 7>&1"
    ))?;
    ensure!(said.code(0)? == "inherited\n", "{}", said.all());
    Ok(())
}

fn tunnels(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let script = scene.folder.write("tunnel.py", TUNNEL)?;
    let options = [
        "--allow",
        "good.example",
        "--allow",
        "*.wild.example",
        "--",
        PYTHON,
        &script,
        GOOD[0],
    ];
    let said = scene.run(&options)?;
    let text = said.code(0)?;
    let expected = [
        "A of an allowed name: answered",
        "A of another name: ConnectionRefusedError",
        "TXT of an allowed name: ConnectionRefusedError",
        "HTTPS of an allowed name: ConnectionRefusedError",
        "hello: answered",
        "hello with ECH: ConnectionResetError",
        "hello with another name: ConnectionResetError",
        "no QUIC at QUIC's port: ConnectionRefusedError",
        "another resolver: ConnectionRefusedError",
        "another host, IPv6: ConnectionRefusedError",
    ];
    for line in expected {
        ensure!(
            text.lines().any(|one| one == line),
            "not \"{line}\": {}",
            said.all()
        );
    }
    for way in ["another name, over TCP", "ICMP to an allowed host"] {
        ensure!(!text.contains(&format!("{way}: answered")), "{text}");
    }
    let flood = text
        .lines()
        .find_map(|line| line.strip_prefix("flood: "))
        .context("no flood")?;
    ensure!(
        flood.ends_with(", 10 refused"),
        "a flood of questions is not bounded: {flood}"
    );
    let asked = scene.asked()?;
    ensure!(
        !asked.contains("secret") && !asked.contains("TXT") && !asked.contains("HTTPS"),
        "it came out: {asked}"
    );
    ensure!(asked.contains("data0000"), "no question came out");
    // With --ech an encrypted ClientHello is allowed.
    let said = scene.run(&[&["--ech"], &options[..]].concat())?;
    ensure!(
        said.code(0)?.contains("hello with ECH: answered\n"),
        "{}",
        said.all()
    );
    Ok(())
}
