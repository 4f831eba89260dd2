// SPDX-License-Identifier: GPL-2.0-or-later
//! Faults that take time: an etcd that is stopped or lacks its majority, slow links, wrong clocks, full disks, a power
//! cut.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::proc;
use testbed::twin::built;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::fleet::{policy, Place, Plan, Row, CHANNEL};

pub const ROWS: &[Row] = &[
    (
        "etcd-that-stands-still-changes-nothing",
        etcd_that_stands_still,
    ),
    ("a-compaction-during-a-rollout", a_compaction),
    ("three-members-lose-their-majority", three_members),
    ("a-slow-link", a_slow_link),
    ("clocks-a-day-off", clocks_a_day_off),
    ("a-bundle-of-ten-megabytes", a_large_bundle),
    ("a-full-disk-in-staging", a_full_disk),
    ("an-agent-killed-at-each-step", an_agent_killed),
    ("a-power-cut-before-the-confirmation", a_power_cut),
    ("a-restart-in-a-partition", a_restart_in_a_partition),
];

/// Library libfaketime of Debian. It is preloaded, because the program `faketime` would stay as the parent process.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// Returns a policy that drops UDP to a port, with this number of bytes of comments.
fn with_comments(bytes: usize, port: u16) -> String {
    let line = format!("# {}\n", "x".repeat(97));
    line.repeat(bytes / line.len()) + &policy(port)
}

fn plan(hosts: usize) -> Plan {
    Plan {
        hosts,
        look: 2,
        ..Plan::default()
    }
}

/// Stops etcd by SIGSTOP: it keeps its connections and does not answer. Hosts must keep their policy.
fn etcd_that_stands_still() -> anyhow::Result<()> {
    let place = Place::new(2)?;
    place.push_well(&policy(7777))?;
    let pid = place.etcd_pid()?;
    proc::stop(pid)?;
    for number in 0..2 {
        place.wait_for_log(number, "it does not answer")?;
    }
    place.all_have("udp dport 7777")?;
    proc::signal(pid, libc::SIGCONT);
    place.push_well(&policy(8888))?;
    place.all_have("udp dport 8888")
}

/// Compacts etcd again and again during a rollout: etcd forgets all revisions but the current one, while hosts have
/// read the pointer and do not watch it yet. A host that does not notice this reads the pointer again only after the
/// end of this case.
fn a_compaction() -> anyhow::Result<()> {
    let hosts = 5;
    let mut place = Place::with(Plan {
        look: 3600,
        ..plan(hosts)
    })?;
    place.push_well(&policy(7777))?;
    for number in 0..hosts {
        place.stop_agent(number);
    }
    let options = ["--no-wait", "--waves", "100%", "--observe", "3"];
    let (code, said) = place.push(
        &policy(8888),
        &[&options[..], &["--confirm", "60"]].concat(),
    )?;
    ensure!(code == Some(0), "{said}");
    for number in 0..hosts {
        place.start_agent(number)?;
    }
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let compactor = scope.spawn(|| -> anyhow::Result<usize> {
            let root = "out/root.login";
            let mut times = 0;
            while !ended.load(Ordering::Relaxed) {
                let (_, said) = place.etcdctl(root, &["get", "x", "-w", "json"])?;
                let read: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
                let revision = read["header"]["revision"].to_string();
                // If nothing was written since the last compaction, etcd has nothing to compact.
                times += usize::from(place.etcdctl(root, &["compact", &revision])?.0);
                pause_for(Duration::from_millis(50));
            }
            Ok(times)
        });
        let confirmed = place.wait_for("confirmed", hosts);
        let pushed = confirmed.and_then(|()| place.push_well(&policy(9999)));
        ended.store(true, Ordering::Relaxed);
        let times = compactor.join().expect("no panic")?;
        ensure!(times > 3, "{times} compactions");
        pushed
    })?;
    place.all_have("udp dport 9999")
}

/// Stops the first and then the second of three etcd members. Without a majority nothing must change; when they run
/// again, a push must succeed.
fn three_members() -> anyhow::Result<()> {
    let mut place = Place::with(Plan {
        members: 3,
        ..plan(3)
    })?;
    place.push_well(&policy(7777))?;
    place.stop_member(0);
    place.push_well(&policy(8888))?;
    place.stop_member(1);
    let path = place.folder.write("policy.nft", policy(9999))?;
    let key = place.folder.file("out/fleet.key");
    let push = ["push", CHANNEL, &path, "--sign", &key, "--no-wait"];
    let (code, said) = place.fleet_once(&push)?;
    ensure!(code == Some(3), "{code:?}: {said}");
    place.wait_for_log(0, "does it run")?;
    place.all_have("udp dport 8888")?;
    place.start_etcd()?;
    place.push_well(&policy(9999))?;
    place.all_have("udp dport 9999")
}

/// Rules that drop one of twenty packets from the hosts at random.
const LOSS: &str = "table inet loss {
	chain input {
		type filter hook input priority raw; policy accept;
		ip saddr 10.78.0.0/16 ip saddr != 10.78.0.1 numgen random mod 20 == 0 counter drop
	}
}
";

/// Limits each host's link to 64 kbit/s towards the host, with up to 800 ms of waiting packets, and loses packets from
/// the host. The queueing discipline tbf and nftables do this, because not all kernels have netem.
fn a_slow_link() -> anyhow::Result<()> {
    let place = Place::new(3)?;
    place.operator.feed("nft", &["-f", "-"], LOSS)?;
    for number in 0..3 {
        let link = format!("v{number}");
        let words = [
            "qdisc", "add", "dev", &link, "root", "tbf", "rate", "64kbit",
        ];
        let words = [&words[..], &["burst", "2kb", "latency", "800ms"]].concat();
        testbed::place::run(&place.operator, "tc", &words)?;
    }
    // 30 KB of comments need some seconds.
    let text = with_comments(30_000, 7777);
    place.push_well(&text)?;
    let list = ["list", "table", "inet", "loss"];
    let lost = place.operator.command("nft").args(list).output()?;
    let lost = String::from_utf8_lossy(&lost.stdout).into_owned();
    ensure!(!lost.contains("packets 0 "), "no packet was lost: {lost}");
    place.all_have("udp dport 7777")
}

/// Tests hosts whose clocks are a day wrong. Only the times in a pointer are compared with the clock.
fn clocks_a_day_off() -> anyhow::Result<()> {
    let hour = 3600;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now = now.as_secs();
    for (offset, option, time, words) in [
        ("-1d", "--not-before", now - hour, "its time has not come"),
        ("+1d", "--expires", now + hour, "it has expired"),
    ] {
        let place = Place::with(Plan {
            before: [
                "/usr/bin/env",
                &format!("LD_PRELOAD={FAKETIME}"),
                &format!("FAKETIME={offset}"),
                "FAKETIME_DONT_FAKE_MONOTONIC=1",
            ]
            .map(str::to_owned)
            .into(),
            ..plan(1)
        })?;
        place.push_well(&policy(7777))?;
        let (code, said) = place.push(&policy(8888), &["--no-wait", option, &time.to_string()])?;
        ensure!(code == Some(0), "{said}");
        place.wait_for_log(0, words)?;
        place.wait_for("behind", 1)?;
        place.all_have("udp dport 7777")?;
        place.push_well(&policy(9999))?;
        place.all_have("udp dport 9999")?;
    }
    Ok(())
}

/// Tests a bundle that is too large for etcd: a file outside etcd has the bundle, and the pointer has its digest.
fn a_large_bundle() -> anyhow::Result<()> {
    let place = Place::new(2)?;
    let text = with_comments(10_000_000, 7777);
    let (code, said) = place.push(&text, &["--no-wait"])?;
    ensure!(code == Some(2) && said.contains("--bundle FILE"), "{said}");
    let bundle = place.folder.file("large.bundle");
    let url = format!("file://{bundle}");
    let at = ["--bundle", &bundle, "--url", &url];
    let options = [&at[..], &["--observe", "1", "--confirm", "60"]].concat();
    let (code, said) = place.push(&text, &options)?;
    ensure!(code == Some(0), "{said}");
    place.all_have("udp dport 7777")?;
    // Other contents at the same URL must be refused.
    let text = text.replace("7777", "8888");
    let (code, said) = place.push(
        &text,
        &[
            &at[..],
            // One wave for all hosts: otherwise the first wave might not include the host whose log is read.
            &["--waves", "100%"],
            &["--no-wait", "--not-before", "4000000000"],
        ]
        .concat(),
    )?;
    ensure!(code == Some(0), "{said}");
    place.wait_for_log(0, "its time has not come")?;
    let mut bytes = fs::read(&bundle)?;
    bytes.truncate(5_000_000);
    fs::write(&bundle, bytes)?;
    let key = place.folder.file("out/fleet.key");
    let (code, said) = place.fleet(&["rollback", "web", "2", "--no-wait", "--sign", &key])?;
    ensure!(code == Some(0), "{said}");
    place.wait_for_log(0, "another one or not whole")?;
    place.all_have("udp dport 7777")
}

/// Checks that a host keeps its policy if its staging folder has no room for the next policy, and that it then applies
/// a smaller policy.
fn a_full_disk() -> anyhow::Result<()> {
    let mount = "mount -t tmpfs -o size=8k tmpfs {} && exec \"$@\"";
    let place = Place::with(Plan {
        before_agent: ["unshare", "-m", "sh", "-c", mount, "sh"]
            .map(str::to_owned)
            .into(),
        ..plan(1)
    })?;
    place.push_well(&policy(7777))?;
    let text = with_comments(50_000, 8888);
    let (code, said) = place.push(&text, &["--no-wait"])?;
    ensure!(code == Some(0), "{said}");
    place.wait_for_log(0, "No space left on device")?;
    place.wait_for("behind", 1)?;
    place.all_have("udp dport 7777")?;
    place.push_well(&policy(9999))?;
    place.all_have("udp dport 9999")
}

/// Kills an agent at each step, and starts it again: the policy is fetched, the service that runs as root has started,
/// the policy is confirmed, another policy is loaded. The host must confirm the policy each time.
fn an_agent_killed() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    type Reached = fn(&Place, &str) -> bool;
    let steps: [(&str, Reached); 3] = [
        ("fetched", |place, digest| {
            fs::exists(place.path("h1", "staging") + "/" + digest).unwrap_or(false)
        }),
        ("started", |place, digest| {
            place.state(0)["digest"] == digest
        }),
        ("confirmed", |place, digest| {
            place.state(0)["digest"] == digest && place.state(0)["phase"] == "confirmed"
        }),
    ];
    for (number, (step, reached)) in steps.into_iter().enumerate() {
        let port = 8000 + number as u16;
        let options = ["--no-wait", "--observe", "1", "--confirm", "300"];
        let (code, said) = place.push(&policy(port), &options)?;
        ensure!(code == Some(0), "{said}");
        let digest = place.wanted_digest()?;
        until(step, PATIENCE, || Ok(reached(&place, &digest)))?;
        place.stop_agent(0);
        place.start_agent(0)?;
        place.wait_for("confirmed", 1)?;
        place.all_have(&format!("udp dport {port}"))?;
    }
    place.kill_while_pending(&policy(9999), &policy(8002), "300")?;
    place.start_agent(0)?;
    place.wait_for("confirmed", 1)?;
    place.all_have("udp dport 9999")
}

/// Kills all processes of the first host, and deletes its rules.
fn cut_power(place: &mut Place) -> anyhow::Result<()> {
    place.stop_host(0);
    let apply = place.path("h1", "apply");
    // The timer process of fwctl apply has the state folder in its command line.
    for entry in fs::read_dir("/proc")?.flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let pid = entry.file_name().to_string_lossy().parse();
        if let (true, Ok(pid)) = (line.contains(&apply) && line.contains("revert"), pid) {
            proc::signal(pid, libc::SIGKILL);
        }
    }
    testbed::place::run(&place.hosts[0].namespace, "nft", &["flush", "ruleset"])?;
    Ok(())
}

/// Loads the first host's policy like its unit at the start of the machine.
fn boot(place: &Place) -> anyhow::Result<()> {
    let apply = place.path("h1", "apply");
    let [run, nothing] = ["run", "no-policy.nft"].map(|name| place.folder.file(name));
    let mut command = place.hosts[0].namespace.command(built("fwctl"));
    command.args(["boot", "--state", &apply, "--run", &run, &nothing]);
    // It fails if nothing was confirmed before; the caller checks the rules.
    command.output()?;
    Ok(())
}

/// Restarts a host while etcd is away: the host must load its policy before etcd is back, and the next policy
/// afterwards.
fn a_restart_in_a_partition() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    place.stop_etcd();
    cut_power(&mut place)?;
    ensure!(!place.rules(&place.hosts[0])?.contains("udp dport"));
    boot(&place)?;
    place.all_have("udp dport 7777")?;
    let log = place.agent_log(0)?.len();
    place.start_local(0)?;
    place.start_agent(0)?;
    until("the agent to miss etcd", PATIENCE, || {
        Ok(place.agent_log(0)?[log..].contains("does it run"))
    })?;
    place.all_have("udp dport 7777")?;
    place.start_etcd()?;
    place.push_well(&policy(8888))?;
    place.all_have("udp dport 8888")
}

/// Simulates a power cut while a policy waits for its confirmation: all processes are killed, the rules are deleted,
/// and the boot id changes. The host must first load the old policy, and then apply and confirm the new policy.
fn a_power_cut() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let (code, said) = place.push(
        &policy(8888),
        &["--no-wait", "--observe", "20", "--confirm", "60"],
    )?;
    ensure!(code == Some(0), "{said}");
    until("the policy to be loaded", PATIENCE, || {
        Ok(place.state(0)["phase"] == "pending")
    })
    .with_context(|| {
        format!(
            "{}\n{:#}",
            place.state(0),
            place.agent_log(0).unwrap_or_default()
        )
    })?;
    cut_power(&mut place)?;
    let state = place.path("h1", "apply/state.json");
    let mut read: Value = serde_json::from_str(&fs::read_to_string(&state)?)?;
    ensure!(read["pending"]["boot_id"].is_string(), "{read}");
    read["pending"]["boot_id"] = Value::from("00000000-0000-0000-0000-000000000000");
    fs::write(&state, read.to_string())?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o600))?;
    boot(&place)?;
    place.all_have("udp dport 7777")?;
    place.start_local(0)?;
    place.start_agent(0)?;
    place.wait_for("confirmed", 1)?;
    place.all_have("udp dport 8888")
}
