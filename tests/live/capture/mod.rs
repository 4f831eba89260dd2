// SPDX-License-Identifier: GPL-2.0-or-later
//! capture on both sides of a firewall: its records must match what the firewall did.

mod costs;
mod twinring;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::{Namespace, VETH_IPV4};
use testbed::packets::{tcp, udp, RawSender};
use testbed::place::{namespace, restore};
use testbed::proc;
use testbed::skip::not_installed;
use testbed::twin::{built, root, Twin};
use testbed::wait::{wait_within, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case};

/// Address of a server after the router; no such host exists.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const PACKETS: u16 = 1000;
/// Protocols and destination ports; rules/policy/web-server.nft accepts some of them.
const FLOWS: [(u8, u16); 7] = [
    (TCP, 80),
    (TCP, 443),
    (TCP, 22),
    (TCP, 40000),
    (UDP, 443),
    (UDP, 53),
    (UDP, 40000),
];
const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    for_each_twin(&[
        ("witness", witness),
        ("explained-as-it-comes", explained_as_it_comes),
    ])
}

/// Returns all cases of the part `capture-lab`, in virtual machines.
pub fn lab_cases() -> Vec<Case> {
    vec![
        Case::new("twinring", twinring::every_program_records),
        Case::new("ring-costs", costs::each_side_is_told),
    ]
}

/// Running capture, killed on drop.
pub struct Recorder {
    child: Child,
    said: Option<JoinHandle<String>>,
}

impl Recorder {
    /// Starts capture on an interface, and waits until it records.
    /// - wanted: a pcap-filter expression for the wanted packets; empty = all packets.
    pub fn start(
        namespace: &Namespace,
        interface: &str,
        file: &str,
        wanted: &str,
    ) -> anyhow::Result<Recorder> {
        let mut child = namespace
            .command(built("capture"))
            .args(["-i", interface, "-w", file])
            .args(wanted.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("there is no capture: make build")?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr is piped")?);
        let mut first = String::new();
        stderr.read_line(&mut first)?;
        ensure!(first.starts_with("capture: "), "it says {first}");
        let said = thread::spawn(move || {
            let mut rest = String::new();
            // Output that is not text is ignored; the case then fails for lack of it.
            let _ = stderr.read_to_string(&mut rest);
            rest
        });
        Ok(Recorder {
            child,
            said: Some(said),
        })
    }

    /// Returns capture's stdout, for `-w -`.
    fn output(&mut self) -> anyhow::Result<ChildStdout> {
        self.child.stdout.take().context("stdout is piped")
    }

    /// Ends capture by SIGINT. Fails if capture's ledger does not reconcile.
    pub fn end(mut self) -> anyhow::Result<()> {
        proc::signal(self.child.id(), libc::SIGINT);
        let ended = wait_within(&mut self.child, PATIENCE).context("capture does not end")?;
        let said = self.said.take().and_then(|said| said.join().ok());
        ensure!(ended.success(), "capture: {ended}: {said:?}");
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Visitor and router, connected by `veth`. The router sends packets for the server to its interface `inner`, and they
/// arrive at its interface `inner-peer`.
struct Place {
    visitor: Namespace,
    router: Namespace,
    folder: Folder,
    /// Path of a copy of web-server.nft with the hook forward in place of input.
    policy: String,
}

impl Place {
    fn new() -> anyhow::Result<Place> {
        let (visitor, router, folder) = (namespace()?, namespace()?, Folder::shared()?);
        Namespace::veth_pair(&visitor, &router)?;
        let ip = |namespace: &Namespace, lines: &str| namespace.feed("ip", &["-batch", "-"], lines);
        ip(
            &visitor,
            &format!("route add {SERVER}/32 via {}\n", VETH_IPV4.1),
        )?;
        ip(
            &router,
            &format!(
                "link add inner type veth peer name inner-peer\n\
                 link set inner up\n\
                 link set inner-peer up\n\
                 route add {SERVER}/32 dev inner\n\
                 neigh add {SERVER} lladdr 02:00:00:00:00:02 dev inner\n"
            ),
        )?;
        router.wait_for("inner")?;
        router.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
        restore(&router, "iptables", "-A FORWARD -j NFQUEUE")?;
        let text = std::fs::read_to_string(root().join("rules/policy/web-server.nft"))?;
        let policy = folder.write("web.nft", text.replace("hook input", "hook forward"))?;
        Ok(Place {
            visitor,
            router,
            folder,
            policy,
        })
    }

    /// Sends one packet for each of these IPv4 identifications.
    fn send(&self, numbers: std::ops::RangeInclusive<u16>) -> anyhow::Result<()> {
        let sender = RawSender::new(&self.visitor, SERVER.into())?;
        for number in numbers {
            sender.send(&packet(number))?;
        }
        Ok(())
    }

    fn explain(&self, twin: Twin, words: &[&str]) -> anyhow::Result<Child> {
        let mut command = Command::new(twin.binary());
        command.arg("explain").args(words).args([&self.policy, "-"]);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        Ok(command.stdin(Stdio::piped()).spawn()?)
    }
}

/// Returns the pcap-filter expression for the recorded traffic.
fn to_server() -> String {
    format!("ip dst {SERVER}")
}

fn packet(number: u16) -> Vec<u8> {
    let (protocol, port) = FLOWS[usize::from(number) % FLOWS.len()];
    let mut header = match protocol {
        TCP => tcp(5),
        _ => udp(8, &[]),
    };
    header[2..4].copy_from_slice(&port.to_be_bytes());
    let mut packet = vec![0x45, 0, 0, 0];
    packet.extend(number.to_be_bytes());
    packet.extend([0, 0, 64, protocol, 0, 0, 10, 77, 0, 1]);
    packet.extend(SERVER.octets());
    packet.extend(header);
    packet
}

/// Forwards all output to an input, and closes the input at the end of the output.
fn feed(mut from: ChildStdout, mut to: ChildStdin) -> JoinHandle<()> {
    // The reader may have ended already; the case then detects that.
    thread::spawn(move || drop(std::io::copy(&mut from, &mut to)))
}

/// Returns a field of each packet in a file as tshark prints it, one packet per line.
fn fields(file: &str, field: &str) -> anyhow::Result<String> {
    let output = Command::new("tshark")
        .args(["-T", "fields", "-e", field, "-r", file])
        .output()
        .map_err(|_| not_installed("tshark"))?;
    ensure!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the IPv4 identifications of the packets in a file.
fn identifications(file: &str) -> anyhow::Result<Vec<u16>> {
    let text = fields(file, "ip.id")?;
    let number = |line: &str| u16::from_str_radix(line.trim_start_matches("0x"), 16);
    let numbers: Result<_, _> = text.lines().map(number).collect();
    Ok(numbers?)
}

/// Checks that the packets that went in and did not come out are exactly those that `explain` drops, and as many as the
/// firewall counts as dropped or rejected.
fn witness(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let out = place.folder.file("out.pcapng");
    let arguments = [["--policy", &place.policy], PATIENT_GUARD].concat();
    let firewall = Firewall::start(&place.router, twin, &arguments)?;
    let mut before = Recorder::start(&place.router, "veth", "-", &to_server())?;
    let behind = Recorder::start(&place.router, "inner-peer", &out, &to_server())?;
    let mut explain = place.explain(twin, &["--json"])?;
    let input = explain.stdin.take().context("stdin is piped")?;
    let feeding = feed(before.output()?, input);
    let output = explain.stdout.take().context("stdout is piped")?;
    let explained = thread::spawn(move || std::io::read_to_string(output));
    place.send(1..=PACKETS)?;
    let ledger = firewall.finish()?;
    before.end()?;
    behind.end()?;
    feeding.join().expect("feeding does not panic");
    let text = explained.join().expect("reading does not panic")?;
    let ended = wait_within(&mut explain, PATIENCE).context("explain does not end")?;
    ensure!(ended.success(), "explain: {ended}");

    let came_out = identifications(&out)?;
    let out: BTreeSet<u16> = came_out.iter().copied().collect();
    ensure!(out.len() == came_out.len(), "packets came out twice");
    let missing: Vec<u16> = (1..=PACKETS)
        .filter(|number| !out.contains(number))
        .collect();
    let verdicts = &ledger.total.verdicts;
    ensure!(
        missing.len() as u64 == verdicts["drop"] + verdicts["reject"],
        "{} are missing: {verdicts:?}",
        missing.len()
    );
    let mut dropped = Vec::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).context(line.to_owned())?;
        if let (Some(number), Some(verdict)) = (value["packet"].as_u64(), value["verdict"].as_str())
        {
            if verdict != "accept" {
                dropped.push(number as u16);
            }
        }
    }
    ensure!(
        dropped == missing,
        "explain drops {dropped:?}, missing are {missing:?}"
    );
    ensure!(
        !out.is_empty() && !missing.is_empty(),
        "nothing was decided"
    );
    Ok(())
}

/// Checks that a packet is explained while capture is still running.
fn explained_as_it_comes(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let mut recorder = Recorder::start(&place.router, "veth", "-", &to_server())?;
    let mut explain = place.explain(twin, &[])?;
    let input = explain.stdin.take().context("stdin is piped")?;
    let feeding = feed(recorder.output()?, input);
    let mut lines = BufReader::new(explain.stdout.take().context("stdout is piped")?).lines();
    place.send(1..=1)?;
    // This waits without a limit of its own; the case has a time limit.
    let first = lines.next().context("explain has ended")??;
    ensure!(first.contains("443"), "{first}");
    recorder.end()?;
    feeding.join().expect("feeding does not panic");
    let ended = wait_within(&mut explain, PATIENCE).context("explain does not end")?;
    ensure!(ended.success(), "explain: {ended}");
    Ok(())
}
