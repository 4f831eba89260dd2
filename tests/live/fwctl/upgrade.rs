// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl upgrade: from each twin to the other and back, and binaries that can't take over.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, lchown, symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{ensure, Context};
use testbed::firewall::{Firewall, TOO_SLOW};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore};
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::ctl::{
    binary as binary_of_fwctl, check_has, fwctl, Place, Said, ACCEPTED, DROPPED, POLICY,
};
use super::standin::{self, StandIn, NOBODY, TELLING};

pub const ROWS: &[Row] = &[
    ("upgrade-there-and-back", there_and_back),
    ("upgrade-takes-the-same-place", same_place),
    ("upgrade-to-the-same-file", same_file),
    ("upgrade-that-fails", fails),
    ("upgrade-after-one-that-failed-late", after_late_failure),
    ("upgrade-with-a-relative-path", relative_path),
    ("upgrade-to-a-program-of-others", others_program),
    ("upgrade-with-given-arguments", given_arguments),
    ("upgrade-believes-no-stand-in", stand_in),
];

/// Words of an upgrade in which the new firewall was too slow.
const ENDED: &str = "the new firewall ended with exit code 1";

/// Process that fwctl has started, not a child of this process; killed on drop.
struct Stray(u32);

impl Drop for Stray {
    fn drop(&mut self) {
        proc::signal(self.0, libc::SIGKILL);
    }
}

fn other(twin: Twin) -> Twin {
    match twin {
        Twin::Rust => Twin::C,
        Twin::C => Twin::Rust,
    }
}

/// Checks that an upgrade has started a twin. Returns the new process.
fn brought(said: &Said, twin: Twin) -> anyhow::Result<Stray> {
    let object = said.object()?;
    let pid = object["is"]["pid"].as_u64().context("a pid")?;
    let stray = Stray(u32::try_from(pid)?);
    ensure!(object["is"]["program"] == twin.program(), "{object}");
    Ok(stray)
}

/// Copies a twin's program to the case's folder, unless the copy exists. Only root can change files in this folder; the
/// build folder may belong to another user. Returns the copy's path.
fn installed(folder: &Folder, twin: Twin) -> anyhow::Result<String> {
    let path = folder.file(twin.program());
    if !Path::new(&path).exists() {
        fs::copy(twin.binary(), &path)?;
    }
    Ok(path)
}

/// Makes an upgrade that must succeed, again while the new firewall is too slow (see TOO_SLOW).
/// - first: firewall that the case has started. Those after it have its stderr.
/// - run: runs `fwctl upgrade`.
pub fn upgraded(first: &Firewall, run: impl Fn() -> anyhow::Result<Said>) -> anyhow::Result<Said> {
    let end = Instant::now() + PATIENCE;
    loop {
        let before = first.times_said(TOO_SLOW);
        let said = run()?;
        if said.code != Some(4) || !said.stderr.contains(ENDED) || Instant::now() > end {
            return Ok(said);
        }
        until("the old firewall filters again", PATIENCE, || {
            Ok(first.times_said(TOO_SLOW) > before)
        })
        .context(said.stderr)?;
    }
}

/// Makes an upgrade of the place's firewall that must succeed. Returns the new process.
/// - words: arguments of fwctl; they contain `--json`.
fn upgraded_to(place: &Place, words: &[&str], twin: Twin) -> anyhow::Result<Stray> {
    brought(&upgraded(&place.firewall, || place.fwctl(words))?, twin)
}

/// Upgrades to a twin. Returns the new process.
fn upgrade(place: &Place, twin: Twin) -> anyhow::Result<Stray> {
    let binary = installed(&place.folder, twin)?;
    upgraded_to(place, &["upgrade", &binary, "--json"], twin)
}

/// Returns the user, the group, the capabilities, NoNewPrivs and the seccomp mode of a process.
fn rights(pid: u32) -> anyhow::Result<Vec<String>> {
    let keys = [
        "Uid",
        "Gid",
        "CapEff",
        "CapPrm",
        "CapInh",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
    ];
    keys.iter().map(|key| proc::status(pid, pid, key)).collect()
}

fn there_and_back(twin: Twin) -> anyhow::Result<()> {
    let mut place = Place::new(twin)?;
    place.send(DROPPED, 3)?;
    place.firewall.settled_ledger()?;
    let old = place.firewall.pid;
    let same = ["fd/1", "fd/2", "ns/net", "ns/mnt"];
    let links = same.map(|link| fs::read_link(format!("/proc/{old}/{link}")));
    let cgroup = fs::read_to_string(format!("/proc/{old}/cgroup"))?;
    let had = rights(old)?;

    let first = upgrade(&place, other(twin))?;
    until("the old firewall ends", PATIENCE, || {
        Ok(!place.firewall.is_running()?)
    })?;
    for (link, was) in same.iter().zip(links) {
        let is = fs::read_link(format!("/proc/{}/{link}", first.0))?;
        ensure!(is == was?, "{link} is {}", is.display());
    }
    ensure!(
        cgroup == fs::read_to_string(format!("/proc/{}/cgroup", first.0))?,
        "another cgroup"
    );
    let has = rights(first.0)?;
    ensure!(has == had, "it was {had:?}, and is {has:?}");
    // The new firewall writes to the old firewall's stdout.
    until("its start line comes", PATIENCE, || {
        let line = place.firewall.line()?;
        Ok(line.contains("\"event\":\"start\"") && line.contains(other(twin).program()))
    })?;

    place.send(DROPPED, 2)?;
    place.send(ACCEPTED, 1)?;
    let second = upgrade(&place, twin)?;
    let exe = fs::read_link(format!("/proc/{}/exe", second.0))?;
    ensure!(
        exe == Path::new(&place.folder.file(twin.program())),
        "{}",
        exe.display()
    );
    until("all is counted", PATIENCE, || {
        let rules = place.fwctl(&["rules", "--json"])?.object()?;
        let counted = |rule: usize| rules["rules"][rule]["counters"][0]["packets"].as_u64();
        Ok(counted(1) == Some(5) && counted(0) == Some(1))
    })?;
    // Like the old firewall, the new one can read the kernel's figures, which only root may open.
    let status = place.fwctl(&["status", "--json"])?.object()?;
    let stall = status["contract"][1]["really"]
        .as_str()
        .context("a row of the contract")?;
    ensure!(stall.starts_with("dropped by the guard"), "stall: {stall}");
    ensure!(status["ledger"]["reconciled"] == true, "{status}");
    place.fwctl(&["drain"])?.code(0)?;
    Ok(())
}

/// Control group of a case, removed on drop.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a control group. Returns None without control groups, or without the right to create one.
    fn new() -> Option<Cgroup> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = [root.to_owned(), root.join("pids")];
        let hierarchy = hierarchies
            .into_iter()
            .find(|path| path.join("cgroup.procs").exists())?;
        let path = hierarchy.join(format!("twinwall-fwctl-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Cgroup(path))
    }

    fn has(&self, pid: u32) -> anyhow::Result<bool> {
        let pids = fs::read_to_string(self.0.join("cgroup.procs"))?;
        Ok(pids.lines().any(|line| line == pid.to_string()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The last process of the group may still exist.
        let gone = || Ok(fs::remove_dir(&self.0).is_ok());
        let _ = until("the control group is empty", PATIENCE, gone);
    }
}

/// Checks which surroundings the new firewall inherits from the old one: control group, umask, OOM score adjustment,
/// nice value, limits and network namespace. It must not inherit the old one's environment, mount namespace, working
/// directory or session. An upgrade from another network namespace is refused.
fn same_place(twin: Twin) -> anyhow::Result<()> {
    let (namespace, folder) = (namespace()?, Folder::new()?);
    restore(&namespace, "iptables", "-A OUTPUT -j NFQUEUE --queue-num 0")?;
    let socket = folder.file("control");
    let own =
        "umask 0077; ulimit -S -n 2048; echo 200 > /proc/self/oom_score_adj; exec nice -n 3 \"$@\"";
    let wrapper = [
        "unshare",
        "--mount",
        "env",
        "TWINWALL_TEST=1",
        "sh",
        "-c",
        own,
        "sh",
    ];
    let arguments = ["--control", &socket, "--json"];
    let group = Cgroup::new();
    let mut old = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    if let Some(group) = &group {
        fs::write(group.0.join("cgroup.procs"), old.pid.to_string())?;
    }
    let had = surroundings(old.pid)?;
    ensure!(had[..2] == ["0077", "200"], "{had:?}");
    let net = fs::read_link(format!("/proc/{}/ns/net", old.pid))?;

    // An upgrade from another network namespace is refused, and the error names the cure.
    let binary = installed(&folder, other(twin))?;
    let refused = fwctl(&Namespace::host(), &socket, &["upgrade", &binary])?;
    refused.error(4, "is in another network namespace")?;
    let others =
        "umask 0; ulimit -S -n 512; echo 100 > /proc/self/oom_score_adj; exec nice -n 7 \"$@\"";
    let said = upgraded(&old, || {
        let mut command = namespace.command("sh");
        command.args(["-c", others, "sh"]).arg(binary_of_fwctl());
        command.args(["--socket", &socket, "upgrade", &binary, "--json"]);
        Said::of(command.output()?)
    })?;
    let new = brought(&said, other(twin))?;
    until("the old firewall ends", PATIENCE, || Ok(!old.is_running()?))?;

    let has = surroundings(new.0)?;
    ensure!(has == had, "it was {had:?}, and is {has:?}");
    let link = |name: &str| fs::read_link(format!("/proc/{}/{name}", new.0));
    ensure!(link("ns/net")? == net, "another network namespace");
    ensure!(
        link("ns/mnt")? == fs::read_link("/proc/self/ns/mnt")?,
        "the old mount namespace"
    );
    ensure!(
        link("cwd")? == Path::new("/"),
        "cwd {}",
        link("cwd")?.display()
    );
    if let Some(group) = &group {
        ensure!(group.has(new.0)?, "another control group");
    }
    let environment = fs::read_to_string(format!("/proc/{}/environ", new.0))?;
    let names = environment
        .split_terminator('\0')
        .map(|variable| variable.split('=').next());
    let names: Vec<_> = names.flatten().collect();
    ensure!(
        names == ["PATH", "TWINWALL_FIGURES_FD", "TWINWALL_TAKE_OVER_FD"],
        "{environment:?}"
    );
    let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(i32::try_from(new.0)?)))?;
    ensure!(
        session.as_raw() as u32 == new.0,
        "it is in the session {session}"
    );
    drop(new);
    Ok(())
}

/// Returns a process's umask, oom_score_adj, nice value, and limits in /proc's format.
fn surroundings(pid: u32) -> anyhow::Result<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields after the name in brackets: state is the third field, nice the 19th (proc_pid_stat(5)).
    let behind = stat.rsplit_once(')').context("a name in brackets")?.1;
    let nice = behind.split_whitespace().nth(16).context("nice")?;
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj"))?;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let mask = proc::status(pid, pid, "Umask")?;
    let mut all = vec![mask, score.trim().to_owned(), nice.to_owned()];
    all.extend(limits.lines().map(str::to_owned));
    Ok(all)
}

/// Tests `fwctl upgrade` without a binary. It starts the file of the running firewall. If that file was replaced, fwctl
/// fails, and the operator must name the binary.
fn same_file(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let file = place.folder.file("firewall");
    fs::copy(twin.binary(), &file)?;
    let _first = upgraded_to(&place, &["upgrade", &file, "--json"], twin)?;
    let _second = upgraded_to(&place, &["upgrade", "--json"], twin)?;
    fs::remove_file(&file)?;
    fs::copy(other(twin).binary(), &file)?;
    place
        .fwctl(&["upgrade"])?
        .error(2, "is not what runs any more: name the binary")?;
    let _third = upgraded_to(&place, &["upgrade", &file, "--json"], other(twin))?;
    Ok(())
}

/// Checks that a binary that can't take over leaves the old firewall as it is.
fn fails(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let upgrade = |binary: &str| place.fwctl(&["upgrade", binary]);
    upgrade("/no/such/binary")?.error(2, "No such file or directory")?;
    upgrade(&place.policy)?.error(2, "is no program")?;
    upgrade("/bin/true")?.error(4, "the old firewall stays")?;
    let script = place.folder.write("script", "#!/bin/sh\n")?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    upgrade(&script)?.error(4, "is it a firewall for this machine?")?;

    // fwctl prints the new firewall's message about the policy.
    let binary = installed(&place.folder, twin)?;
    fs::write(&place.policy, "nonsense")?;
    upgrade(&binary)?.error(4, &format!("stays: {}:1:1: ", place.policy))?;
    let status = place.fwctl(&["status", "--json"])?.object()?;
    ensure!(status["pid"] == place.firewall.pid, "{status}");
    let left = fs::read_dir(place.folder.file(""))?.flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    ensure!(left.len() == 4, "left behind: {left:?}");
    check_has(place.fwctl(&["status"])?.code(0)?, "reconciled")
}

/// Tests an upgrade after an upgrade that failed when the new firewall had listened at the control socket: the kernel
/// must name the old firewall as the listener again.
fn after_late_failure(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let binary = installed(&place.folder, other(twin))?;
    // The old firewall has given up CAP_NET_RAW, because its policy had no `reject`.
    fs::write(
        &place.policy,
        POLICY.replace("counter drop", "counter reject"),
    )?;
    place
        .fwctl(&["upgrade", &binary])?
        .error(4, &format!("(pid {}) stays", place.firewall.pid))?;
    until("the old firewall goes on", PATIENCE, || {
        let status = place.fwctl(&["status", "--json"])?.object()?;
        Ok(status["counts"]["upgrades_failed"] == 1)
    })?;
    fs::write(&place.policy, POLICY)?;
    let _new = upgrade(&place, other(twin))?;
    Ok(())
}

/// Tests an upgrade of a firewall that has a relative path in --control. fwctl gives the new firewall the absolute path.
fn relative_path(twin: Twin) -> anyhow::Result<()> {
    let (namespace, folder) = (namespace()?, Folder::new()?);
    restore(&namespace, "iptables", "-A OUTPUT -j NFQUEUE --queue-num 0")?;
    let enter = format!("cd '{}' && exec \"$@\"", folder.file(""));
    let wrapper = ["sh", "-c", &enter, "sh"];
    let arguments = ["--control", "control", "--json"];
    let mut old = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    let binary = installed(&folder, other(twin))?;
    let words = ["upgrade", &binary, "--json"];
    let run = || fwctl(&namespace, &folder.file("control"), &words);
    let said = upgraded(&old, run)?;
    let _new = brought(&said, other(twin))?;
    until("the old firewall ends", PATIENCE, || Ok(!old.is_running()?))
}

/// Checks that a program is not run if another user could have created or changed it.
fn others_program(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let upgrade = |binary: &str| place.fwctl(&["upgrade", binary]);
    let binary = installed(&place.folder, twin)?;
    chown(&binary, Some(NOBODY), None)?;
    upgrade(&binary)?.error(2, &format!("user {NOBODY} may change {binary}"))?;
    chown(&binary, Some(0), None)?;
    fs::set_permissions(&binary, Permissions::from_mode(0o775))?;
    upgrade(&binary)?.error(2, &format!("others may change {binary}"))?;
    fs::set_permissions(&binary, Permissions::from_mode(0o755))?;

    let folder = place.folder.file("bin");
    fs::create_dir(&folder)?;
    let inside = format!("{folder}/{}", twin.program());
    fs::rename(&binary, &inside)?;
    let link = place.folder.file("link");
    symlink(&inside, &link)?;
    for mode in [0o775, 0o757] {
        fs::set_permissions(&folder, Permissions::from_mode(mode))?;
        for path in [&inside, &link] {
            upgrade(path)?.error(2, &format!("others may change {folder}: "))?;
        }
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
    lchown(&link, Some(NOBODY), None)?;
    upgrade(&link)?.error(2, &format!("user {NOBODY} may change {link}"))?;
    lchown(&link, Some(0), None)?;
    let _new = upgraded_to(&place, &["upgrade", &link, "--json"], twin)?;
    Ok(())
}

/// Checks that the operator's arguments replace the old ones, here for a policy that only root may read.
fn given_arguments(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, POLICY, &["--user", "daemon"])?;
    let binary = installed(&place.folder, other(twin))?;
    fs::set_permissions(&place.policy, Permissions::from_mode(0o600))?;
    // With the old arguments the policy is opened as the firewall's user, who may not read it; the error names the
    // file.
    place
        .fwctl(&["upgrade", &binary])?
        .error(4, "Permission denied")?;
    let mut words = vec!["upgrade", &binary, "--json", "--"];
    words.extend([
        "--control",
        &place.socket,
        "--policy",
        &place.policy,
        "--default",
        "drop",
    ]);
    let new = upgraded_to(&place, &words, other(twin))?;
    let status = place.fwctl(&["status", "--json"])?.object()?;
    ensure!(status["pid"] == new.0 && status["uid"] == 1, "{status}");
    let arguments = status["arguments"].as_array().context("arguments")?;
    ensure!(arguments.iter().any(|word| word == "drop"), "{status}");
    for wrong in [
        ["--take-over", "/x"],
        ["--no-such", "option"],
        ["--user", "no-such-user"],
    ] {
        place
            .fwctl(&["upgrade", &binary, "--", wrong[0], wrong[1]])?
            .code(2)?;
    }
    // fwctl would not see a firewall at another socket, or without one.
    place
        .fwctl(&["upgrade", &binary, "--", "--policy", &place.policy])?
        .error(2, "do not name the old firewall's control socket")?;
    Ok(())
}

/// Tests an upgrade of a stand-in: a process of another user that imitates a firewall, without and with CAP_NET_ADMIN.
/// fwctl must not run the program that the stand-in names. A program that fwctl runs must have no more rights than the
/// stand-in.
fn stand_in(twin: Twin) -> anyhow::Result<()> {
    let (namespace, folder) = (namespace()?, Folder::new()?);
    let home = folder.file("home");
    fs::create_dir(&home)?;
    chown(&home, Some(NOBODY), Some(NOBODY))?;
    let own = folder.write("home/evil", "#!/bin/sh\n: > \"$0\".ran\n")?;
    fs::set_permissions(&own, Permissions::from_mode(0o755))?;
    let binary = installed(&folder, twin)?;
    let secret = folder.write("secret", SECRET)?;
    fs::set_permissions(&secret, Permissions::from_mode(0o600))?;
    let telling = folder.file(TELLING);
    fs::copy("/proc/self/exe", &telling)?;
    let socket = folder.file("home/control");
    let events = format!("--events={secret}");
    let policy = format!("--policy={secret}");
    let upgrade = |words: &[&str]| -> anyhow::Result<Said> {
        let said = fwctl(&namespace, &socket, &[&["upgrade"][..], words].concat())?;
        check_home(&home)?;
        ensure!(
            fs::read_to_string(&secret)? == SECRET,
            "root's file was written to"
        );
        Ok(said)
    };
    let play = |capabilities: &str, arguments: &[&str]| {
        let status = standin::status(&own, arguments);
        StandIn::start(&namespace, &telling, &home, capabilities, &status)
    };

    let without = play("", &[])?;
    upgrade(&[&binary])?.error(4, "but is none: it has no CAP_NET_ADMIN")?;
    upgrade(&[])?.code(4)?;
    drop(without);
    // The stand-in has a firewall's capability, and names every argument that an attacker could want.
    for (arguments, words) in [
        (&["--sandbox", "off"][..], "says that it has no sandbox"),
        (&["--take-over", "/x"], "says that it takes over"),
        (&["--no-such-option"], "unsupported arguments"),
        (&[&policy], "Permission denied"),
    ] {
        let _stand_in = play("+net_admin", arguments)?;
        upgrade(&[&binary])?.error(4, words)?;
    }
    let stand_in = play("+net_admin", &["--user", "root", &events])?;
    let said = upgrade(&[&telling])?;
    let expected = format!(
        "uid {NOBODY} gid {NOBODY} groups 0 permitted 1000 bounding 1000 no_new_privs 1 variables PATH"
    );
    said.error(4, &expected)?;
    upgrade(&[&binary])?.code(4)?;
    upgrade(&[])?.code(4)?;
    drop(stand_in);
    Ok(())
}

/// Content of a file that only root may read.
const SECRET: &str = "root's own words\n";

/// Checks that the stand-in's program was not run, and that no dynamic linker wrote a file as root because of the
/// stand-in's environment.
fn check_home(home: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir(home)?.flatten() {
        let (name, owner) = (entry.file_name(), entry.metadata()?.uid());
        ensure!(
            name != "evil.ran",
            "the stand-in's program was run by {owner}"
        );
        ensure!(
            owner == NOBODY || name == "evil",
            "{name:?} was made by {owner}"
        );
    }
    Ok(())
}
