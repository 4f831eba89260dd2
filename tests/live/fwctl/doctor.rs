// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl doctor` under conditions that the cases cause.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::owner::Owner;
use testbed::place::{namespace, restore, run};
use testbed::skip::skip;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::ctl::{binary, check_has, fwctl, Place, Said, POLICY};
use super::LoneRow;

pub const ROWS: &[Row] = &[
    ("doctor-of-a-sound-firewall", sound),
    ("doctor-of-a-newer-program", newer_program),
    ("doctor-of-a-firewall-without-a-rule", no_rule),
    ("doctor-of-a-bypass-that-was-not-meant", bypass),
    ("doctor-of-a-failed-reload", failed_reload),
    ("doctor-of-reloads-that-would-fail", would_fail),
    ("doctor-of-a-guard-without-a-firewall", bereaved_guard),
    ("doctor-of-lost-packets", lost),
    ("doctor-of-names-that-are-no-bar", no_bar),
    ("doctor-of-another-namespace", another_namespace),
    ("doctor-of-a-start-without-raw-sockets", no_raw_sockets),
];

pub const LONE_ROWS: &[LoneRow] = &[
    ("doctor-before-anything-runs", before),
    ("doctor-of-a-queue-that-nobody-serves", not_served),
    ("doctor-of-a-rule-that-accepts-before", accepts_before),
    ("doctor-of-a-queue-of-another", owned),
    ("doctor-of-two-backends", two_backends),
    ("doctor-of-two-queues", two_queues),
    ("doctor-of-nft-rules", nft_rules),
    ("doctor-in-a-container", container),
    ("doctor-without-root", without_root),
    ("doctor-without-nft", without_nft),
];

/// Words of a finding about the whole machine, which other tests may cause.
pub const OF_THE_MACHINE: &str = "packets are being dropped from the backlog of a CPU";
/// Words of a finding about a program that lists rules.
const TOO_LATE: &str = "did not end in time";

/// Findings of `fwctl doctor`, which cases search by their text.
pub struct Found(Vec<Value>);

impl Found {
    pub fn of(said: &Said, code: i32) -> anyhow::Result<Found> {
        said.code(code)?;
        Found::read(said)
    }

    /// Parses findings, whatever the exit code.
    pub fn read(said: &Said) -> anyhow::Result<Found> {
        let lines = said.stdout.lines().map(serde_json::from_str);
        Ok(Found(lines.collect::<Result<_, _>>()?))
    }

    /// Returns the cure of the first finding with this severity whose text contains these words; empty if the finding
    /// has no cure. Fails if there is no matching finding.
    pub fn cure(&self, severity: &str, words: &str) -> anyhow::Result<String> {
        let mut found = self
            .0
            .iter()
            .filter(|finding| finding["severity"] == severity);
        let finding = found.find(|finding| {
            finding["what"]
                .as_str()
                .is_some_and(|what| what.contains(words))
        });
        let finding =
            finding.with_context(|| format!("no {severity} \"{words}\": {:?}", self.0))?;
        Ok(finding["cure"].as_str().unwrap_or_default().to_owned())
    }
}

/// Runs doctor, again while a program that lists rules takes too long (doctor then lacks the findings about rules), or
/// while other tests flood the machine.
/// - run: runs doctor once.
pub fn until_in_time(run: impl Fn() -> anyhow::Result<Said>) -> anyhow::Result<Said> {
    let mut said = run()?;
    until("doctor is not disturbed", PATIENCE, || {
        let disturbs = |words: &&str| said.stdout.contains(*words);
        let is_disturbed = [TOO_LATE, OF_THE_MACHINE].iter().any(disturbs);
        if is_disturbed {
            said = run()?;
        }
        Ok(!is_disturbed)
    })?;
    Ok(said)
}

/// Runs `fwctl doctor --json` with further arguments by `until_in_time`.
pub fn inspect(namespace: &Namespace, socket: &str, more: &[&str]) -> anyhow::Result<Said> {
    let arguments = [&["doctor", "--json"], more].concat();
    until_in_time(|| fwctl(namespace, socket, &arguments))
}

pub fn inspect_place(place: &Place) -> anyhow::Result<Said> {
    inspect(&place.namespace, &place.socket, &[])
}

fn doctor(namespace: &Namespace, arguments: &[&str]) -> anyhow::Result<Said> {
    inspect(namespace, "/nowhere/control", arguments)
}

fn before() -> anyhow::Result<()> {
    let namespace = namespace()?;
    let found = Found::of(&doctor(&namespace, &[])?, 0)?;
    found.cure(
        "unseen",
        "a running firewall: /nowhere/control: no firewall has this",
    )?;
    found.cure(
        "ok",
        "the kernel has NFQUEUE, large packets (GSO), fail-open",
    )?;
    found.cure("ok", "queue 0 is free")?;
    let cure = found.cure("note", "no rule leads packets to queue 0")?;
    cured(&namespace, &cure)?;
    Found::of(&doctor(&namespace, &[])?, 0)?.cure("ok", "queue 0 has a rule: ")?;
    let text = until_in_time(|| fwctl(&namespace, "/nowhere/control", &["doctor"]))?;
    check_has(text.code(0)?, "0 errors, 0 warnings, ")
}

fn not_served() -> anyhow::Result<()> {
    let namespace = namespace()?;
    restore(
        &namespace,
        "iptables",
        "-A OUTPUT -p udp -j NFQUEUE --queue-num 7",
    )?;
    let found = Found::of(&doctor(&namespace, &[])?, 1)?;
    let cure = found.cure("warning", "no process serves queue 7 of")?;
    // The cure works: it is run here.
    let command = cure.strip_prefix("sudo ").context(cure.clone())?;
    let words: Vec<&str> = command.split_whitespace().collect();
    run(&namespace, words[0], &words[1..])?;
    Found::of(&doctor(&namespace, &[])?, 0)?;
    Ok(())
}

fn accepts_before() -> anyhow::Result<()> {
    let namespace = namespace()?;
    restore(
        &namespace,
        "iptables",
        "-A OUTPUT -o lo -j ACCEPT\n-A OUTPUT -j ACCEPT\n-A OUTPUT -j NFQUEUE --queue-num 0",
    )?;
    let found = Found::of(&doctor(&namespace, &[])?, 1)?;
    let cure = found.cure("error", "no packet reaches")?;
    ensure!(cure == "sudo iptables -D OUTPUT -j ACCEPT", "{cure}");
    found.cure(
        "note",
        "pass \"iptables: -A OUTPUT -j NFQUEUE --queue-num 0\" by, unseen",
    )?;
    Ok(())
}

fn owned() -> anyhow::Result<()> {
    let namespace = namespace()?;
    let _owner = Owner::of(&namespace, 3)?;
    let found = Found::of(&doctor(&namespace, &["--queue", "2:3"])?, 1)?;
    found.cure("ok", "queue 2 is free")?;
    let pid = std::process::id();
    let cure = found.cure("error", &format!("queue 3 is owned by pid {pid} ("))?;
    check_has(&cure, &format!("sudo kill {pid}"))
}

fn two_backends() -> anyhow::Result<()> {
    let namespace = namespace()?;
    restore(&namespace, "iptables-nft", "-A INPUT -p udp -j ACCEPT")?;
    if restore(&namespace, "iptables-legacy", "-A INPUT -p udp -j ACCEPT").is_err() {
        return Err(skip("this kernel has no legacy iptables"));
    }
    let found = Found::of(&doctor(&namespace, &[])?, 1)?;
    found.cure("warning", "in legacy iptables and in nf_tables")?;
    Ok(())
}

fn nft_rules() -> anyhow::Result<()> {
    let namespace = namespace()?;
    let rules =
        "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0\n\t\taccept\n\t\t\
                 queue num 0-1\n\t}\n}\n";
    if namespace.feed("nft", &["-f", "-"], rules).is_err() {
        return Err(skip("this kernel has no queue in nf_tables (nft_queue)"));
    }
    let queues = ["--queue", "0:2"];
    let found = Found::of(&doctor(&namespace, &queues)?, 1)?;
    let cure = found.cure("error", "no packet reaches \"nft: inet t c handle ")?;
    check_has(&cure, "sudo nft delete rule inet t c handle ")?;
    cured(&namespace, &cure)?;
    let found = Found::of(&doctor(&namespace, &queues)?, 0)?;
    let cure = found.cure("note", "no rule leads packets to queue 2")?;
    check_has(&cure, "sudo nft 'replace rule inet t c handle ")?;
    cured(&namespace, &cure)?;
    let found = Found::of(&doctor(&namespace, &queues)?, 0)?;
    found.cure("ok", "queue 2 has a rule: \"nft: inet t c handle ")?;
    namespace.feed("nft", &["-f", "-"], "flush ruleset\ntable inet t {\n\tchain c {\n\t\ttype filter hook input priority 0\n\t}\n}\n")?;
    let found = Found::of(&doctor(&namespace, &queues)?, 0)?;
    let cure = found.cure("note", "no rule leads packets to queues 0 to 2")?;
    cured(&namespace, &cure)?;
    Found::of(&doctor(&namespace, &queues)?, 0)?
        .cure("ok", "queue 2 has a rule")
        .map(drop)
}

/// Checks doctor's warning in a user namespace, where CAP_NET_ADMIN does not allow receive buffers of any size.
fn container() -> anyhow::Result<()> {
    let namespace = namespace()?;
    let inside = ["--user", "--map-root-user", "--net", "--"];
    let mut command = namespace.command("unshare");
    command.args(inside).arg(super::ctl::binary());
    command.args(["--socket", "/nowhere/control", "doctor", "--json"]);
    let output = command.output()?;
    let said = Said::of(output)?;
    if said.stdout.is_empty() {
        return Err(skip(said.stderr));
    }
    // Older kernels show it only in the initial namespace.
    let limit = "/proc/sys/net/core/rmem_max";
    if namespace
        .command("test")
        .args(["-e", limit])
        .status()?
        .success()
    {
        let found = Found::of(&said, 1)?;
        let cure = found.cure("warning", "the receive buffer may have ")?;
        check_has(&cure, "net.core.rmem_max=67108864")?;
    }
    Ok(())
}

fn without_root() -> anyhow::Result<()> {
    // A folder that other users may enter, unlike a build folder in a home directory. fwctl inspects the firewalls
    // beside it.
    let (folder, fwctl) = (Folder::new()?, binary());
    for program in ["fwctl", "rust-firewall", "c-firewall"] {
        fs::copy(fwctl.with_file_name(program), folder.file(program))
            .with_context(|| format!("a copy of {program}"))?;
    }
    let output = Namespace::host()
        .command(folder.file("fwctl"))
        .args(["--socket", "/nowhere/control", "doctor", "--json"])
        .current_dir("/")
        .uid(12345)
        .gid(12345)
        .output()?;
    let said = Said::of(output)?;
    let found = Found::of(&said, 1)?;
    for words in [
        "features for queues",
        "rules that lead packets",
        "who owns queue 0",
    ] {
        found.cure("unseen", words)?;
    }
    let cure = found.cure("warning", "c-firewall: you may not start it")?;
    check_has(&cure, "sudo setcap cap_net_admin,cap_net_raw+ep ")
}

/// Checks that doctor reports an nft that fails or does not end, and that no cure then adds a rule for a queue.
fn without_nft() -> anyhow::Result<()> {
    let (namespace, folder) = (namespace()?, Folder::new()?);
    let path = std::env::var("PATH")?;
    let path = format!("{}:{path}", folder.path().display());
    for (nft, why) in [
        ("exit 1", "failed"),
        ("exec sleep 100", "did not end in time"),
    ] {
        let script = folder.write("nft", format!("#!/bin/sh\n{nft}\n"))?;
        fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
        let mut command = super::ctl::command(&namespace, "/nowhere/control")?;
        let output = command
            .args(["doctor", "--json"])
            .env("PATH", &path)
            .output()?;
        let found = Found::of(&Said::of(output)?, 0)?;
        found.cure("unseen", &format!("rules of nft: it {why}"))?;
        found.cure("unseen", "whether a rule leads packets to queue 0")?;
        ensure!(
            found
                .cure("note", "no rule leads packets to queue 0")
                .is_err(),
            "a cure without knowledge"
        );
    }
    Ok(())
}

fn sound(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let found = Found::of(&inspect_place(&place)?, 0)?;
    let pid = place.firewall.pid;
    found.cure("ok", &format!("{} 0.1.0 runs, pid {pid}", twin.program()))?;
    found.cure("ok", "the ledger reconciles")?;
    found.cure("ok", "the receive buffer of queue 0 has 67,108,864 bytes")?;
    found.cure("ok", &format!("queue 0 is owned by {}", twin.program()))?;
    found.cure(
        "ok",
        "queue 0 has a rule: \"iptables: -A OUTPUT -j NFQUEUE --queue-num 0\"",
    )?;
    Ok(())
}

/// Checks doctor's warning after the program's file was replaced while the firewall runs, as by a package.
fn newer_program(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    for program in ["fwctl", "rust-firewall", "c-firewall"] {
        fs::copy(
            super::ctl::binary().with_file_name(program),
            folder.file(program),
        )?;
    }
    std::env::set_var("TWINWALL_BUILD", folder.file(""));
    let place = Place::new_in(folder, twin, POLICY, &[])?;
    let program = place.folder.file(twin.program());
    let what = format!("{program} on the disk is another program than the one that runs");
    let said = inspect_place(&place)?;
    Found::of(&said, 0)?;
    ensure!(!said.stdout.contains(&what), "{}", said.stdout);
    fs::copy(&program, format!("{program}.new"))?;
    fs::rename(format!("{program}.new"), &program)?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    let cure = found.cure("warning", &what)?;
    check_has(&cure, "fwctl upgrade")
}

fn no_rule(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    run(&place.namespace, "iptables", &["-F", "OUTPUT"])?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    found.cure(
        "error",
        "no rule leads packets to queue 0: the firewall sees none",
    )?;
    Ok(())
}

fn bypass(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    run(&place.namespace, "iptables", &["-F", "OUTPUT"])?;
    restore(
        &place.namespace,
        "iptables",
        "-A OUTPUT -j NFQUEUE --queue-num 0 --queue-bypass",
    )?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    let cure = found.cure("warning", "--fail crash=closed, but \"iptables: -A OUTPUT")?;
    let expected = "sudo iptables -R OUTPUT 1 -j NFQUEUE --queue-num 0";
    ensure!(cure == expected, "{cure}");
    // The cure works.
    cured(&place.namespace, &cure)?;
    Found::of(&inspect_place(&place)?, 0)?;
    Ok(())
}

/// Runs a cure that begins with `sudo`, without the `sudo`, in a shell in the namespace.
pub fn cured(namespace: &Namespace, cure: &str) -> anyhow::Result<()> {
    let command = cure.strip_prefix("sudo ").context(cure.to_owned())?;
    run(namespace, "sh", &["-c", command]).map(drop)
}

/// Checks that the cure for the second of two queues changes the first queue's rule: a second, equal rule would never
/// match.
fn two_queues() -> anyhow::Result<()> {
    let namespace = namespace()?;
    let queues = ["--queue", "0:1"];
    let found = Found::of(&doctor(&namespace, &queues)?, 0)?;
    let cure = found.cure("note", "no rule leads packets to queues 0 to 1")?;
    let several = ["queue num 0-1; }", "-j NFQUEUE --queue-balance 0:1"];
    ensure!(several.iter().any(|words| cure.contains(words)), "{cure}");
    restore(
        &namespace,
        "iptables",
        "-A OUTPUT -o lo -j ACCEPT\n-A OUTPUT -p udp -j NFQUEUE --queue-num 0 --queue-bypass",
    )?;
    let found = Found::of(&doctor(&namespace, &queues)?, 0)?;
    let cure = found.cure("note", "no rule leads packets to queue 1")?;
    cured(&namespace, &cure)?;
    let found = Found::of(&doctor(&namespace, &queues)?, 0)?;
    let whole = "-A OUTPUT -p udp -j NFQUEUE --queue-balance 0:1 --queue-bypass\"";
    found.cure("ok", &format!("queue 0 has a rule: \"iptables: {whole}"))?;
    found.cure("ok", &format!("queue 1 has a rule: \"iptables: {whole}"))?;
    found
        .cure("note", "no process serves queues 0 to 1 of ")
        .map(drop)
}

/// Checks that the start and doctor warn if established connections are accepted before a rule by name, and if packets
/// with false source addresses are accepted.
fn no_bar(twin: Twin) -> anyhow::Result<()> {
    let (host, outside) = (namespace()?, namespace()?);
    Namespace::veth_pair(&host, &outside)?;
    host.ip("link add other type veth peer name peer\naddress add 198.51.100.1/24 dev other\nlink set other up\n")?;
    let open = [
        "-w",
        "net.ipv4.conf.all.rp_filter=0",
        "net.ipv4.conf.veth.rp_filter=2",
        "net.ipv4.conf.other.rp_filter=1",
    ];
    run(&host, "sysctl", &open)?;
    let folder = Folder::shared()?;
    let text =
        "table inet t {\n\tchain c {\n\t\ttype filter hook input priority 0; policy accept;\n\t\t\
                ct state established accept\n\t\ttls sni \"denied.example\" drop\n\t}\n}\n";
    let (policy, socket) = (folder.write("p.nft", text)?, folder.file("control"));
    let given = ["--json", "--policy", &policy, "--control", &socket];
    let arguments = [&given[..], &["--conntrack", "mark"]].concat();
    let firewall = Firewall::start_under(&host, &[], twin, &arguments)?;
    let found = Found::read(&inspect(&host, &socket, &[])?)?;
    let behind =
        format!("{policy}:5: reads names after {policy}:4, which accepts established connections");
    found.cure("warning", &behind)?;
    let falsely = "IPv4 packets with false source addresses come in by veth: rp_filter is off or loose there, and IPv6 has none";
    cured(&host, &found.cure("warning", falsely)?)?;
    let found = Found::read(&inspect(&host, &socket, &[])?)?;
    found.cure(
        "ok",
        "no IPv4 packet comes in with an address of another interface (rp_filter)",
    )?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    check_has(&ended.stderr, &format!("warning: {behind}"))?;
    let loose = ended.loose.unwrap_or_default();
    ensure!(
        loose == format!("warning: {falsely}: see `fwctl doctor`"),
        "{loose}"
    );
    let firewall = Firewall::start_under(&host, &[], twin, &arguments)?;
    let loose = firewall.end_by(libc::SIGTERM)?.loose;
    ensure!(loose.is_none(), "{loose:?}");
    Ok(())
}

fn failed_reload(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    place.folder.write("web.nft", "nonsense")?;
    place.fwctl(&["reload"])?.code(4)?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    found.cure("warning", "the last reload failed: ")?;
    Ok(())
}

/// Checks that doctor reports policies that the running firewall would not load although they can be parsed, and that
/// a reload of each fails.
fn would_fail(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, POLICY, &["--copy-bytes", "128"])?;
    let found = Found::of(&inspect_place(&place)?, 0)?;
    found.cure("ok", &format!("{} can be reloaded", place.policy))?;
    let second = "udp dport 9002 counter drop";
    for (rule, words) in [
        (
            "meta skuid 0 drop",
            "reads meta skuid or meta skgid, and the loaded policy does not",
        ),
        (
            "ct state new drop",
            "reads ct state or ct mark, and the loaded policy does not",
        ),
        (
            "oif \"nowhere\" drop",
            "there is no network interface of this name",
        ),
        (
            "tls sni \"a.example\" drop",
            "where --copy-bytes gives it 128",
        ),
    ] {
        let policy = POLICY.replace(second, rule);
        place.folder.write("web.nft", policy)?;
        let found = Found::of(&inspect_place(&place)?, 1)?;
        found.cure("warning", words)?;
        ensure!(found.cure("ok", "can be reloaded").is_err(), "{rule}");
        place.fwctl(&["reload"])?.code(4)?;
    }
    let broken = format!("{POLICY}# expect: udp -> :1 drop\n");
    place.folder.write("web.nft", broken)?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    found.cure("warning", "expected drop, got accept (")?;
    place.fwctl(&["reload"])?.code(2).map(drop)
}

/// Starts a firewall, again while the killed guard of another still owns the queue.
fn started_next(place: &Place, twin: Twin) -> anyhow::Result<Firewall> {
    let mut next = None;
    until("the guard has left the queue", PATIENCE, || {
        match Firewall::start(&place.namespace, twin, &[]) {
            Err(error) if format!("{error:#}").contains("is owned by") => return Ok(false),
            started => next = Some(started?),
        }
        Ok(true)
    })?;
    next.context("until has started it")
}

/// Checks that doctor does not take the guard of a killed firewall for a foreign process: the next start ends it.
fn bereaved_guard(twin: Twin) -> anyhow::Result<()> {
    let place = Place::with(twin, POLICY, &["--fail", "crash=open"])?;
    let pid = place.firewall.pid;
    testbed::proc::signal(pid, libc::SIGKILL);
    until("the firewall has ended", PATIENCE, || {
        Ok(testbed::proc::state(pid)? == 'Z')
    })?;
    let guard = "the firewall of queue 0 has ended, and its guard (pid ";
    let found = Found::of(&inspect_place(&place)?, 1)?;
    let cure = found.cure("warning", guard)?;
    let start = format!("sudo {} --queue 0 …", twin.binary().display());
    check_has(&cure, &start)?;
    let next = started_next(&place, twin)?;
    let found = Found::read(&inspect_place(&place)?)?;
    ensure!(found.cure("warning", guard).is_err(), "a guard is left");
    next.stop().map(drop)
}

/// Checks that doctor reports a firewall that had no CAP_NET_RAW at its start: it can't load a policy that rejects.
fn no_raw_sockets(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let found = Found::of(&inspect_place(&place)?, 0)?;
    found.cure("ok", "the firewall can reject")?;
    drop(place);
    let wrapper = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"];
    let place = Place::under(Folder::new()?, twin, &wrapper, POLICY, &[])?;
    let found = Found::of(&inspect_place(&place)?, 0)?;
    let said = "the firewall had no CAP_NET_RAW at its start: it refuses a policy that rejects";
    let cure = found.cure("note", said)?;
    check_has(&cure, &format!("{} -- …", twin.binary().display()))?;
    place
        .folder
        .write("web.nft", POLICY.replace("counter drop", "counter reject"))?;
    let found = Found::of(&inspect_place(&place)?, 1)?;
    let said = "the next reload would fail: the policy rejects";
    check_has(&found.cure("warning", said)?, "sudo fwctl upgrade ")
}

/// Checks doctor's warning after packets were lost at a full queue: the queue holds one packet, and the firewall is
/// stopped meanwhile.
fn lost(twin: Twin) -> anyhow::Result<()> {
    let options = ["--queue-length", "1", "--deadline", "0"];
    let place = Place::with(twin, POLICY, &options)?;
    testbed::proc::stop(place.firewall.pid)?;
    place.send(super::ctl::ACCEPTED, 20)?;
    testbed::proc::signal(place.firewall.pid, libc::SIGCONT);
    let found = Found::of(&inspect_place(&place)?, 1)?;
    let cure = found.cure("warning", "it was at its length (queue full)")?;
    check_has(&cure, "--queue-length 4")
}

fn another_namespace(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let elsewhere = namespace()?;
    let found = Found::of(&inspect(&elsewhere, &place.socket, &[])?, 1)?;
    let cure = found.cure("warning", "is in another network namespace")?;
    check_has(&cure, &format!("--net=/proc/{}/ns/net", place.firewall.pid))
}
