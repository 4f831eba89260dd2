// SPDX-License-Identifier: GPL-2.0-or-later
//! Findings of doctor that the cases cause; the cure is run as it is printed, the finding is gone, and the host is
//! probed from outside. docs/TESTING.md lists the cures that can't be run here.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::{Namespace, VETH_IPV4};
use testbed::owner::Owner;
use testbed::place::{namespace, restore, run};
use testbed::proc;
use testbed::skip::not_installed;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

use super::ctl::{binary, Said, ACCEPTED, DROPPED, OTHER, POLICY};
use super::doctor::{until_in_time, Found};
use super::upgrade::upgraded;

/// Time after which a datagram counts as lost.
const LOST: Duration = Duration::from_millis(500);
const METRICS_PORT: u16 = 9630;
/// User without rights.
const OTHER_USER: &str = "12345";
const PROGRAMS: [&str; 4] = ["fwctl", "rust-firewall", "c-firewall", "twinwall-exporter"];
/// iptables rule that sends all outgoing packets to the firewall.
const QUEUED: &str = "-A OUTPUT -j NFQUEUE --queue-num 0";

/// Case: a finding of doctor with its cause, its expected severity and words, and a probe of the host after the cure.
struct Row {
    name: &'static str,
    /// Options of the firewall; None: no firewall runs.
    options: Option<&'static [&'static str]>,
    /// iptables rules of the host.
    rules: &'static str,
    /// Further options of doctor.
    doctor: &'static [&'static str],
    cause: fn(&mut Scene) -> anyhow::Result<()>,
    severity: &'static str,
    /// Words of the finding; PROGRAM stands for the twin's name.
    words: &'static str,
    /// Change by the operator before the cure.
    mend: fn(&mut Scene) -> anyhow::Result<()>,
    probe: fn(&mut Scene) -> anyhow::Result<()>,
}

const PLAIN: Row = Row {
    name: "",
    options: Some(&[]),
    rules: QUEUED,
    doctor: &[],
    cause: nothing,
    severity: "warning",
    words: "",
    mend: nothing,
    probe: nothing,
};

const ROWS: &[Row] = &[
    Row {
        name: "a-rule-that-accepts-before",
        rules: "-A OUTPUT -j ACCEPT\n-A OUTPUT -j NFQUEUE --queue-num 0",
        cause: all_pass,
        severity: "error",
        words: "no packet reaches \"iptables: -A OUTPUT",
        probe: policy_decides,
        ..PLAIN
    },
    Row {
        name: "a-bypass",
        rules: "-A OUTPUT -j NFQUEUE --queue-num 0 --queue-bypass",
        words: "--fail crash=closed, but \"iptables: -A OUTPUT",
        probe: crash_is_closed,
        ..PLAIN
    },
    Row {
        name: "a-missing-bypass",
        options: Some(&["--fail", "crash=open"]),
        severity: "note",
        words: "--fail crash=open, but once the firewall and its guard are gone",
        probe: crash_is_open,
        ..PLAIN
    },
    Row {
        name: "a-queue-without-a-process",
        rules: "-A OUTPUT -p udp --dport 9003 -j NFQUEUE --queue-num 7\n-A OUTPUT -j NFQUEUE --queue-num 0",
        cause: other_is_lost,
        words: "no process serves queue 7 of",
        probe: other_passes,
        ..PLAIN
    },
    Row {
        name: "more-queues-than-the-firewall-serves",
        rules: "-A OUTPUT -j NFQUEUE --queue-balance 0:3",
        words: "no process serves queues 1 to 3 of",
        probe: policy_decides,
        ..PLAIN
    },
    Row {
        name: "no-rule",
        rules: "",
        cause: all_pass,
        severity: "error",
        words: "no rule leads packets to queue 0: the firewall sees none",
        probe: nothing,
        ..PLAIN
    },
    Row {
        name: "a-queue-of-another",
        options: None,
        rules: "",
        doctor: &["--queue", "3"],
        cause: start_other,
        severity: "error",
        words: "(sleep), which is no firewall of ours",
        ..PLAIN
    },
    Row {
        name: "an-ended-guard",
        cause: end_guard,
        words: "the guard has ended",
        probe: policy_decides,
        ..PLAIN
    },
    Row {
        name: "a-newer-program",
        cause: replace_program,
        words: "on the disk is another program than the one that runs",
        probe: policy_decides,
        ..PLAIN
    },
    Row {
        name: "a-failed-reload",
        cause: fail_to_reload,
        words: "the last reload failed: ",
        probe: accepted_is_lost,
        ..PLAIN
    },
    Row {
        name: "a-policy-that-only-root-reads",
        cause: |scene| scene.set_policy_mode(0o600),
        words: "the next reload would fail: ",
        mend: mend_policy,
        probe: accepted_is_lost,
        ..PLAIN
    },
    Row {
        name: "false-source-addresses",
        cause: accept_false_sources,
        severity: "note",
        words: "IPv4 packets with false source addresses come in by veth",
        probe: false_source_is_lost,
        ..PLAIN
    },
    Row {
        name: "a-program-without-capabilities",
        options: None,
        cause: without_setcap,
        words: "PROGRAM: you may not start it: it needs CAP_NET_ADMIN",
        probe: user_starts_it,
        ..PLAIN
    },
    Row {
        name: "metrics-of-0.0.0.0",
        cause: |scene| scene.export("0.0.0.0"),
        words: "serves metrics at 0.0.0.0:9630",
        probe: no_metrics_outside,
        ..PLAIN
    },
    Row {
        name: "metrics-of-all-of-ipv6",
        cause: |scene| scene.export("[::]"),
        words: "serves metrics at [::]:9630",
        probe: no_metrics_outside,
        ..PLAIN
    },
];

/// Returns a case for each row and twin.
pub fn cases() -> Vec<Case> {
    let case = |twin: Twin, row: &'static Row| {
        Case::new(format!("{}/cure-of-{}", twin.name(), row.name), move || {
            check(twin, row)
        })
    };
    let of_twin = |twin| ROWS.iter().map(move |row| case(twin, row));
    TWINS.into_iter().flat_map(of_twin).collect()
}

/// Host with programs that only root can change, and a neighbour outside.
struct Scene {
    firewall: Option<Firewall>,
    others: Vec<Child>,
    host: Namespace,
    outside: Namespace,
    folder: Folder,
    twin: Twin,
    /// True if a user without rights runs doctor.
    is_other_user: bool,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // An upgrade starts a process that is no child.
        let status = self.shell("fwctl status --json");
        let object: Option<serde_json::Value> = status
            .ok()
            .and_then(|said| serde_json::from_str(&said.stdout).ok());
        if let Some(pid) = object.and_then(|status| status["pid"].as_u64()) {
            proc::signal(pid as u32, libc::SIGKILL);
        }
        for other in &mut self.others {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}

impl Scene {
    fn new(twin: Twin, row: &Row) -> anyhow::Result<Scene> {
        let (host, outside) = (namespace()?, namespace()?);
        Namespace::veth_pair(&host, &outside)?;
        let folder = Folder::new()?;
        for program in PROGRAMS {
            fs::copy(binary().with_file_name(program), folder.file(program))?;
        }
        // Cures begin with sudo; the cases run as root.
        folder.write("sudo", "#!/bin/sh\nexec \"$@\"\n")?;
        fs::set_permissions(folder.file("sudo"), Permissions::from_mode(0o755))?;
        std::env::set_var("TWINWALL_BUILD", folder.file(""));
        if !row.rules.is_empty() {
            restore(&host, "iptables", row.rules)?;
        }
        let (policy, control) = (folder.write("p.nft", POLICY)?, folder.file("control"));
        let given = ["--json", "--policy", &policy, "--control", &control];
        let start = |options: &[&str]| {
            let arguments = [&given[..], &PATIENT_GUARD, options].concat();
            Firewall::start_under(&host, &[], twin, &arguments)
        };
        Ok(Scene {
            firewall: row.options.map(start).transpose()?,
            others: Vec::new(),
            host,
            outside,
            folder,
            twin,
            is_other_user: false,
        })
    }

    /// Returns a command on the host, with the case's copies of PROGRAMS in PATH.
    fn command(&self, program: &str) -> Command {
        let mut command = self.host.command(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .env("TWINWALL_CONTROL", self.folder.file("control"))
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// Returns a command of a user without rights.
    fn command_as_other(&self, program: &str) -> Command {
        let mut command = self.command("setpriv");
        let rights = [
            "--reuid",
            OTHER_USER,
            "--regid",
            OTHER_USER,
            "--clear-groups",
        ];
        command.args(rights).arg(program);
        command
    }

    /// Runs a line in a shell.
    fn shell(&self, line: &str) -> anyhow::Result<Said> {
        Said::of(self.command("sh").args(["-c", line]).output()?)
    }

    fn found(&self, row: &Row) -> anyhow::Result<Found> {
        let said = until_in_time(|| {
            let mut command = match self.is_other_user {
                true => self.command_as_other("fwctl"),
                false => self.command("fwctl"),
            };
            command.args(["doctor", "--json"]).args(row.doctor);
            Said::of(command.output()?)
        })?;
        Found::read(&said)
    }

    /// Returns true if a datagram of the host reaches a port outside.
    fn reaches(&self, port: u16) -> anyhow::Result<bool> {
        let to = SocketAddr::new(VETH_IPV4.1, port);
        let receiver = self.outside.enter(|| UdpSocket::bind(to))?;
        receiver.set_read_timeout(Some(LOST))?;
        let sender = self
            .host
            .enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        // A dropped datagram may fail with EPERM.
        let _ = sender.send_to(b"x", to);
        Ok(receiver.recv(&mut [0]).is_ok())
    }

    /// Checks that datagrams reach, or do not reach, the ports ACCEPTED and DROPPED of the neighbour.
    /// - accepted, dropped: true if a datagram must reach the port ACCEPTED, or DROPPED; false: it must not.
    fn check_reached(&self, accepted: bool, dropped: bool) -> anyhow::Result<()> {
        self.check_port(ACCEPTED, accepted)?;
        self.check_port(DROPPED, dropped)
    }

    /// Checks that a datagram reaches, or does not reach, a port of the neighbour.
    /// - is_reached: true: a datagram must arrive, if necessary after several tries; false: one datagram must get lost.
    fn check_port(&self, port: u16, is_reached: bool) -> anyhow::Result<()> {
        if is_reached {
            return until(&format!("port {port} is reached"), PATIENCE, || {
                self.reaches(port)
            });
        }
        ensure!(!self.reaches(port)?, "port {port} is reached");
        Ok(())
    }

    /// Returns true if a neighbour's datagram with a source address of another network reaches the host.
    fn takes_false_source(&self) -> anyhow::Result<bool> {
        let to = SocketAddr::new(VETH_IPV4.0, OTHER);
        let receiver = self.host.enter(|| UdpSocket::bind(to))?;
        receiver.set_read_timeout(Some(LOST))?;
        let sender = self
            .outside
            .enter(|| UdpSocket::bind((Ipv4Addr::new(198, 51, 100, 9), 0)))?;
        sender.send_to(b"x", to)?;
        Ok(receiver.recv(&mut [0]).is_ok())
    }

    fn set_policy_mode(&self, mode: u32) -> anyhow::Result<()> {
        let policy = self.folder.file("p.nft");
        fs::set_permissions(policy, Permissions::from_mode(mode)).map_err(Into::into)
    }

    fn is_open(&self, port: u16) -> bool {
        let to = SocketAddr::new(VETH_IPV4.0, port);
        let connected = self
            .outside
            .enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        connected.is_ok()
    }

    fn export(&mut self, address: &str) -> anyhow::Result<()> {
        let program = self.folder.file("twinwall-exporter");
        let listen = format!("{address}:{METRICS_PORT}");
        let mut command = self.host.command(program);
        command.args([
            "--control",
            &self.folder.file("control"),
            "--listen",
            &listen,
        ]);
        self.others.push(command.stderr(Stdio::null()).spawn()?);
        until("metrics are served outside", PATIENCE, || {
            Ok(self.is_open(METRICS_PORT))
        })
    }
}

/// Causes a finding, runs its cure, and probes the host.
fn check(twin: Twin, row: &Row) -> anyhow::Result<()> {
    let mut scene = Scene::new(twin, row)?;
    (row.cause)(&mut scene).context("the cause")?;
    let words = row.words.replace("PROGRAM", twin.program());
    let cure = scene.found(row)?.cure(row.severity, &words)?;
    (row.mend)(&mut scene).context("the operator's part")?;
    let said = match &scene.firewall {
        Some(firewall) => upgraded(firewall, || scene.shell(&cure)),
        None => scene.shell(&cure),
    };
    said?.code(0).context(cure.clone())?;
    until("the finding is gone", PATIENCE, || {
        Ok(scene.found(row)?.cure(row.severity, &words).is_err())
    })
    .context(cure)?;
    (row.probe)(&mut scene).context("the probe")
}

fn nothing(_: &mut Scene) -> anyhow::Result<()> {
    Ok(())
}

fn all_pass(scene: &mut Scene) -> anyhow::Result<()> {
    scene.check_reached(true, true)
}

fn policy_decides(scene: &mut Scene) -> anyhow::Result<()> {
    scene.check_reached(true, false)
}

fn accepted_is_lost(scene: &mut Scene) -> anyhow::Result<()> {
    scene.check_reached(false, true)
}

fn other_is_lost(scene: &mut Scene) -> anyhow::Result<()> {
    scene.check_port(OTHER, false)
}

fn other_passes(scene: &mut Scene) -> anyhow::Result<()> {
    scene.check_port(OTHER, true)
}

/// Kills the guard.
fn end_guard(scene: &mut Scene) -> anyhow::Result<()> {
    let firewall = scene.firewall.as_ref().context("no firewall")?;
    for guard in proc::children(firewall.pid) {
        proc::signal(guard, libc::SIGKILL);
    }
    until("the firewall sees the guard's end", PATIENCE, || {
        Ok(proc::children(firewall.pid).is_empty())
    })
}

fn crash_is_closed(scene: &mut Scene) -> anyhow::Result<()> {
    end_guard(scene)?;
    scene.firewall.take().context("no firewall")?.kill()?;
    scene.check_reached(false, false)
}

fn crash_is_open(scene: &mut Scene) -> anyhow::Result<()> {
    end_guard(scene)?;
    scene.firewall.take().context("no firewall")?.kill()?;
    scene.check_reached(true, true)
}

/// Starts another program that owns queue 3.
fn start_other(scene: &mut Scene) -> anyhow::Result<()> {
    let socket = Owner::of(&scene.host, 3)?.into_socket();
    let mut command = scene.host.command("sleep");
    scene
        .others
        .push(command.arg("1000").stdin(socket).spawn()?);
    Ok(())
}

fn replace_program(scene: &mut Scene) -> anyhow::Result<()> {
    let program = scene.folder.file(scene.twin.program());
    let newer = format!("{program}.new");
    fs::copy(&program, &newer)?;
    fs::rename(newer, program)?;
    Ok(())
}

/// Reloads an invalid policy, which fails. Then writes a policy with the opposite verdicts.
fn fail_to_reload(scene: &mut Scene) -> anyhow::Result<()> {
    scene.folder.write("p.nft", "monster\n")?;
    let said = scene.shell("fwctl reload")?;
    ensure!(said.code != Some(0), "{}", said.stdout);
    swap_policy(scene)
}

/// Writes a policy with the opposite verdicts.
fn swap_policy(scene: &mut Scene) -> anyhow::Result<()> {
    let swapped = POLICY.replace("accept comment", "drop comment");
    let swapped = swapped.replace("9002 counter drop", "9002 counter accept");
    scene.folder.write("p.nft", swapped).map(drop)
}

fn mend_policy(scene: &mut Scene) -> anyhow::Result<()> {
    swap_policy(scene)?;
    scene.set_policy_mode(0o644)
}

fn accept_false_sources(scene: &mut Scene) -> anyhow::Result<()> {
    scene.host.ip(
        "link add other type veth peer name peer\naddress add 198.51.100.1/24 dev other\nlink set other up\nlink set peer up\n",
    )?;
    scene.outside.ip("address add 198.51.100.9/32 dev lo\n")?;
    let open = [
        "-w",
        "net.ipv4.conf.all.rp_filter=0",
        "net.ipv4.conf.veth.rp_filter=0",
    ];
    run(&scene.host, "sysctl", &open)?;
    until("the false source is taken", PATIENCE, || {
        scene.takes_false_source()
    })
}

fn false_source_is_lost(scene: &mut Scene) -> anyhow::Result<()> {
    ensure!(!scene.takes_false_source()?, "the false source is taken");
    Ok(())
}

fn without_setcap(scene: &mut Scene) -> anyhow::Result<()> {
    if scene.shell("command -v setcap")?.code != Some(0) {
        return Err(not_installed("setcap"));
    }
    scene.is_other_user = true;
    Ok(())
}

/// Starts the firewall as a user without rights, with a policy that rejects.
fn user_starts_it(scene: &mut Scene) -> anyhow::Result<()> {
    let rejecting = POLICY.replace("9002 counter drop", "9002 counter reject");
    let policy = scene.folder.write("reject.nft", rejecting)?;
    let mut command = scene.command_as_other(scene.twin.program());
    command.args(["--policy", &policy]).stdout(Stdio::null());
    scene.others.push(command.spawn()?);
    policy_decides(scene)
}

fn no_metrics_outside(scene: &mut Scene) -> anyhow::Result<()> {
    ensure!(!scene.is_open(METRICS_PORT), "metrics are served outside");
    Ok(())
}
