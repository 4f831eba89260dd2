// SPDX-License-Identifier: GPL-2.0-or-later
//! A command in a cage runs as with env(1). A cage leaves nothing behind, and without its firewall or uplink no packet
//! passes.

use std::io::Write;
use std::process::{Child, Stdio};

use anyhow::{bail, ensure, Context};
use testbed::twin::Twin;
use testbed::wait::{until, wait_within, PATIENCE};
use twinwall_tests::case::Row;

use super::scene::{Said, Scene, USER};

pub const ROWS: &[Row] = &[
    ("exit-codes", exit_codes),
    ("signals", signals),
    ("streams", streams),
    ("terminal", terminal),
    ("end-of-fwctl", end_of_fwctl),
    ("end-of-firewall", end_of_firewall),
    ("end-of-uplink", end_of_uplink),
    ("firewall-that-does-not-end", firewall_without_end),
    ("daemons", daemons),
    ("refused", refused),
    ("in-a-container", in_a_container),
];

fn exit_codes(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    for (lines, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255)] {
        scene.shell(&[], lines)?.code(code)?;
    }
    let said = scene.run(&["--", "/nowhere/at-all"])?;
    said.code(127)?;
    said.says("error: /nowhere/at-all: No such file or directory\n")?;
    let said = scene.run(&["--", "/etc/passwd"])?;
    said.code(126)?;
    said.says("error: /etc/passwd: Permission denied\n")?;
    // Arguments after the command's name belong to the command, not to fwctl.
    ensure!(scene.run(&["echo", "--verbose", "-x"])?.code(0)? == "--verbose -x\n");
    // A command ended by a signal ends fwctl by the same signal.
    let status = scene
        .run_as(false, &["--", "sh", "-c", "kill -USR1 $$"])
        .status()?;
    ensure!(
        std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGUSR1),
        "{status}"
    );
    Ok(())
}

/// Starts a cage whose command runs the shell lines `lines`. Returns when they have ended; the command then continues
/// with `then`.
fn start(scene: &Scene, lines: &str, then: &str) -> anyhow::Result<Child> {
    let marker = scene.folder.file("home/runs");
    let lines = format!("{lines}\n: > {marker}\n{then}");
    let mut command = scene.run_as(
        false,
        &["--allow", "good.example", "--", "sh", "-c", &lines],
    );
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    until("the command runs", PATIENCE, || {
        Ok(std::path::Path::new(&marker).exists())
    })?;
    Ok(child)
}

/// Shell lines that end only by a signal.
const WAITS: &str = "while :; do sleep 0.05; done";

fn kill(pid: u32, signal: i32) -> anyhow::Result<()> {
    // SAFETY: kill(2) takes numbers and touches no memory.
    let result = unsafe { libc::kill(pid as i32, signal) };
    ensure!(
        result == 0,
        "kill {pid}: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

fn end(mut child: Child) -> anyhow::Result<Said> {
    if wait_within(&mut child, PATIENCE).is_none() {
        kill(child.id(), libc::SIGKILL)?;
        bail!(
            "it does not end: {}",
            Said::of(child.wait_with_output()?).all()
        );
    }
    Ok(Said::of(child.wait_with_output()?))
}

/// Checks that the command receives the signals that are sent to fwctl.
fn signals(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    for (signal, code) in [
        (libc::SIGTERM, 11),
        (libc::SIGINT, 12),
        (libc::SIGHUP, 13),
        (libc::SIGUSR2, 14),
    ] {
        let _ = std::fs::remove_file(scene.folder.file("home/runs"));
        let traps =
            "trap 'exit 11' TERM; trap 'exit 12' INT; trap 'exit 13' HUP; trap 'exit 14' USR2";
        let child = start(&scene, traps, WAITS)?;
        kill(child.id(), signal)?;
        end(child)
            .with_context(|| format!("signal {signal}"))?
            .code(code)?;
    }
    Ok(())
}

fn streams(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let lines = "cat; echo error >&2; pwd; id -u; echo $HOME";
    let mut command = scene.run_as(false, &["--", "sh", "-c", lines]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("stdin")?;
    let bytes = vec![b'x'; 1 << 20];
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let said = Said::of(child.wait_with_output()?);
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer ended"))??;
    let rest = said.code(0)?.trim_start_matches('x');
    ensure!(
        said.stdout.len() - rest.len() == 1 << 20,
        "{} bytes",
        said.stdout.len()
    );
    let folder = scene.folder.path().display();
    ensure!(
        rest == format!("{folder}\n{USER}\n{folder}/home\n"),
        "{rest}"
    );
    ensure!(said.stderr == "error\n", "{}", said.stderr);
    Ok(())
}

/// Python script that runs a command on a separate terminal, waits for the word "ready", types Ctrl-C, and prints the
/// output and the exit status.
const TERMINAL: &str = r#"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
while b"ready" not in shown:
    shown += os.read(terminal, 1000)
os.write(terminal, b"\x03")
try:
    while more := os.read(terminal, 1000):
        shown += more
except OSError:
    pass
print(shown.decode().replace("\r", ""), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// Shell script that waits until its process group is the terminal's foreground group, and then kills itself.
const JOB: &str = "
while read -r _ _ _ _ group _ _ front _ < /proc/self/stat; [ $group != $front ]; do sleep 0.05; done
kill $$
";

/// Checks that a command on a terminal behaves in a cage as outside: Ctrl-C ends it, or it handles Ctrl-C, and a shell
/// has job control.
fn terminal(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let script = scene.folder.write("terminal.py", TERMINAL)?;
    scene.folder.write("job", JOB)?;
    let fwctl = scene.folder.file("fwctl");
    let cage = [fwctl.as_str(), "run", "--twin", twin.name(), "--"];
    let on_terminal = |cage: &[&str], lines: &[&str]| -> anyhow::Result<String> {
        let command = [cage, &["/bin/bash", "--norc"], lines].concat();
        let words = [&["/usr/bin/python3", script.as_str()], &command[..]].concat();
        let said = Said::of(scene.on_host(false, &words).output()?);
        // This line has the process id of the job, which differs.
        let lines = said
            .code(0)?
            .lines()
            .filter(|line| !line.starts_with("[1] "));
        Ok(lines.collect::<Vec<&str>>().join("\n"))
    };
    for (lines, expected) in [
        (
            [
                "-c",
                "test -t 0 && test -t 1 && test -t 2 && echo ready; exec sleep 1000",
            ],
            "ready\n^C -2",
        ),
        (
            [
                "-c",
                "trap 'exit 8' INT; echo ready; while :; do sleep 0.05; done",
            ],
            "ready\n^C 8",
        ),
        (
            [
                "-ic",
                "sh job & jobs; fg %1; sh -c 'echo ready; exec sleep 1000'",
            ],
            "sh job\nTerminated\nready\n^C",
        ),
    ] {
        let (plain, caged) = (on_terminal(&[], &lines)?, on_terminal(&cage, &lines)?);
        ensure!(
            plain == caged && caged.contains(expected),
            "{lines:?}: {plain:?}, in a cage {caged:?}"
        );
    }
    Ok(())
}

/// Returns the pids of all processes, with their command lines.
fn processes() -> anyhow::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(pid) = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
        else {
            continue;
        };
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
    }
    Ok(found)
}

/// Returns the processes of a scene whose command lines contain a word. A process belongs to the scene if its command
/// line contains the path of the scene's fwctl, or if its parent belongs to the scene.
pub fn of(scene: &Scene, word: &str) -> anyhow::Result<Vec<u32>> {
    let folder = scene.folder.path().display().to_string();
    let mut own: Vec<u32> = Vec::new();
    let all = processes()?;
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
    };
    // A child may have a lower process id than its parent, and come before it.
    let mut is_more = true;
    while is_more {
        let before = own.len();
        for (pid, line) in &all {
            let is_fwctl = line.contains(&format!("{folder}/fwctl"));
            let is_child = || parent(*pid).is_some_and(|parent| own.contains(&parent));
            if !own.contains(pid) && (is_fwctl || is_child()) {
                own.push(*pid);
            }
        }
        is_more = own.len() > before;
    }
    Ok(all
        .iter()
        .filter(|(pid, line)| own.contains(pid) && line.contains(word))
        .map(|(pid, _)| *pid)
        .collect())
}

/// Checks that all processes that fwctl has started end, even if fwctl is killed.
fn end_of_fwctl(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let child = start(&scene, "setsid sleep 1000 &", WAITS)?;
    for word in [twin.program(), "pasta", "cage-stage hold", "sleep 1000"] {
        ensure!(!of(&scene, word)?.is_empty(), "there is no {word}");
    }
    kill(child.id(), libc::SIGKILL)?;
    until("all has ended", PATIENCE, || Ok(of(&scene, "")?.is_empty()))?;
    drop(child);
    Ok(())
}

/// Shell lines that send requests until the cage has no network, and then print the result of one more request.
const WITHOUT: &str = "while curl -s --max-time 30 -o /dev/null http://good.example/; do :; done; curl -sS --max-time 30 http://203.0.113.10/; \
    echo; echo code $?; exit 5";

fn end_of(twin: Twin, word: &str, said: &str) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let child = start(
        &scene,
        "curl -sS --max-time 20 http://good.example/",
        WITHOUT,
    )?;
    let pids = of(&scene, word)?;
    ensure!(!pids.is_empty(), "there is no {word}");
    for pid in pids {
        kill(pid, libc::SIGKILL)?;
    }
    let ended = end(child)?;
    ensure!(
        ended.code(5)?.matches("here").count() == 1,
        "it came through: {}",
        ended.all()
    );
    ended.says(&format!(
        "error: {said} has ended (signal: 9 (SIGKILL)): the command has no network from here on"
    ))
}

fn end_of_firewall(twin: Twin) -> anyhow::Result<()> {
    // The guard, which is a process of the firewall, is killed, too.
    end_of(twin, &format!("{} --queue", twin.program()), "the firewall")
}

fn end_of_uplink(twin: Twin) -> anyhow::Result<()> {
    end_of(twin, "--netns /proc/self/fd/0", "the uplink")
}

/// Checks that fwctl reports a firewall that does not end after the command, and ends nevertheless.
fn firewall_without_end(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let file = scene.folder.file("home/go");
    let child = start(
        &scene,
        "true",
        &format!("while ! [ -e {file} ]; do sleep 0.05; done; exit 5"),
    )?;
    for pid in of(&scene, &format!("{} --queue", twin.program()))? {
        kill(pid, libc::SIGSTOP)?;
    }
    std::fs::write(&file, "")?;
    let ended = end(child)?;
    ended.code(5)?;
    ended
        .says("warning: the firewall did not end in time: the last connections may be missing\n")?;
    until("all has ended", PATIENCE, || Ok(of(&scene, "")?.is_empty()))
}

/// Checks that processes that a command leaves running are still in the cage, and end with it.
fn daemons(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let file = scene.folder.file("home/daemon");
    let lines = format!("setsid sh -c 'curl -sS --max-time 20 http://203.0.113.11/; echo $? > {file}; exec sleep 1000' & while ! [ -s {file} ]; do sleep 0.05; done; exit 4");
    let mut child = scene
        .run_as(false, &["--", "sh", "-c", &lines])
        .stderr(Stdio::null())
        .spawn()?;
    let status = wait_within(&mut child, PATIENCE).context("the cage waits for its daemons")?;
    ensure!(status.code() == Some(4), "{status}");
    ensure!(
        std::fs::read_to_string(&file)? == "7\n",
        "the daemon was not in the cage"
    );
    until("the daemon has ended", PATIENCE, || {
        Ok(of(&scene, "")?.is_empty())
    })?;
    Ok(())
}

/// Checks that the command does not run, and that stderr has the reason, if the kernel refuses namespaces, or if
/// /dev/net/tun can't be used.
fn refused(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let fwctl = scene.folder.file("fwctl");
    // The user namespace has its own limit.
    let limited = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let words = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        limited,
        "sh",
        &fwctl,
        "run",
        "--twin",
        twin.name(),
        "echo",
        "ran",
    ];
    let said = Said::of(scene.on_host(false, &words).output()?);
    ensure!(said.code(125)?.is_empty(), "{}", said.all());
    said.says("user.max_user_namespaces=10000`\n")?;
    // Without the tap device there is no uplink.
    let said = Said::of(scene.on_host(false, &["sh", "-c", &format!("exec unshare --user --map-root-user --mount sh -c 'mount --bind /dev/null /dev/net/tun; exec \"$@\"' sh {fwctl} run --twin {} echo ran", twin.name())]).output()?);
    ensure!(said.code(125)?.is_empty(), "{}", said.all());
    said.says("pasta ended")?;
    Ok(())
}

/// Checks that a cage works in the namespaces of an ordinary user, like those of a rootless container, and inside
/// another cage.
fn in_a_container(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let fwctl = scene.folder.file("fwctl");
    let container = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
    ];
    let cage = [
        fwctl.as_str(),
        "run",
        "--twin",
        twin.name(),
        "--allow",
        "good.example",
        "--",
    ];
    let curl = |url| ["curl", "-sS", "--max-time", "20", url];
    for outer in [&container[..], &cage] {
        for (url, code) in [
            ("https://good.example/", 0),
            ("https://bad.example/", 6),
            ("http://203.0.113.11/", 7),
        ] {
            let words = [outer, &cage, &curl(url)].concat();
            Said::of(scene.on_host(false, &words).output()?).code(code)?;
        }
    }
    Ok(())
}
