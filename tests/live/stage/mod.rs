// SPDX-License-Identifier: GPL-2.0-or-later
//! The name stage (docs/STAGE.md): `stage` splits a policy; the kernel decides by one part, and a firewall only reads
//! names. The rules that queue packets are iptables rules, since not every kernel has nft's queue.

use std::fs;
use std::time::Duration;

use anyhow::{ensure, Context};
use stage::{Options, Queue, Split};
use testbed::control::Client;
use testbed::firewall::{take_over, Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::run;
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use crate::evasion::net::{Net, Sees};
use crate::fwctl::ctl::fwctl;
use crate::names;
use ends::{Ends, NAMELESS};

mod agree;
mod corpus;
mod ends;
mod evasion;
mod failures;
mod foreign;
mod full;
mod hooks;
mod hunt;
mod learn;
mod names_kept;
mod quic;
mod reject;
mod spellings;
mod translated;
mod trouble;

const ROWS: &[Row] = &[
    ("real-ends-in-the-stage", real_ends),
    ("a-settled-connection-is-not-queued", settled),
    ("packets-queued-a-connection", packets),
    ("a-reload-asks-again", reload),
    ("foreign-bits-stay", foreign_bits),
];

pub fn cases() -> Vec<Case> {
    let rows = [
        ROWS,
        names_kept::ROWS,
        quic::ROWS,
        agree::ROWS,
        evasion::ROWS,
        failures::ROWS,
        foreign::ROWS,
        hooks::ROWS,
        hunt::ROWS,
        reject::ROWS,
        translated::ROWS,
        trouble::ROWS,
        learn::ROWS,
    ]
    .concat();
    let calibration = Case::new("evasion-output-nobody-looks-on", hooks::nobody);
    let corpus = Case::new("policies-with-names-split", corpus::all_split);
    let spellings = Case::new("policies-in-other-spellings", spellings::all_queued);
    for_each_twin(&rows)
        .into_iter()
        .chain([calibration, corpus, spellings])
        .collect()
}

/// Returns the cases of `make test-long`.
pub fn long_cases() -> Vec<Case> {
    for_each_twin(&[hooks::LONG, hunt::LONG, trouble::LONG].concat())
}

/// Returns the cases for a machine whose conntrack has a low limit.
pub fn full_cases() -> Vec<Case> {
    for_each_twin(full::ROWS)
}

/// Starts a twin with the name policy in a folder.
/// - mask: value of --stage.
/// - more: additional options.
fn start(
    net: &Net,
    folder: &Folder,
    twin: Twin,
    mask: &str,
    more: &[&str],
) -> anyhow::Result<Firewall> {
    let (policy, control) = (folder.file("names.nft"), folder.file("control"));
    let own = ["--policy", &policy, "--stage", mask, "--control", &control];
    let guard = match more.contains(&PATIENT_GUARD[0]) {
        true => &[][..],
        false => &PATIENT_GUARD[..],
    };
    let arguments = [&own[..], guard, more].concat();
    Firewall::start(&net.firewall, twin, &arguments)
}

/// Fails unless curl gets an answer over TLS for a name.
/// - more: additional options of curl.
fn check_fetched(net: &Net, name: &str, more: &[&str]) -> anyhow::Result<()> {
    let limit = PATIENCE.as_secs().to_string();
    let options = [&["--max-time", limit.as_str()][..], more].concat();
    let is_fetched = names::is_fetched_with(net, name, &options)?;
    ensure!(is_fetched, "no answer from {name}");
    Ok(())
}

/// Firewall that reads names for the kernel.
pub struct Stage {
    pub firewall: Firewall,
    folder: Folder,
    /// Value of --stage: the bits of marks that the stage uses, as 0x and hexadecimal digits.
    mask: String,
}

/// Returns a policy with `hook forward` replaced by the hook of the network's firewall.
fn at_hook(net: &Net, text: &str) -> String {
    text.replace("hook forward", &format!("hook {}", net.hook.name()))
}

fn split(text: &str, options: Options) -> anyhow::Result<Split> {
    let options = Options {
        queue: Queue::Iptables,
        ..options
    };
    let source = stage::text("policy.nft", text)?;
    stage::split(&source, &options).map_err(|refusal| anyhow::anyhow!("{refusal}"))
}

/// Loads the kernel's part of a policy in one transaction.
fn load(net: &Net, folder: &Folder, split: &Split) -> anyhow::Result<()> {
    let kernel = folder.replace("kernel.nft", &split.kernel);
    let kernel = kernel.map(|_| folder.file("kernel.nft"))?;
    run(&net.firewall, "nft", &["-f", &kernel]).map(drop)
}

impl Stage {
    /// Splits a policy, loads the kernel's part in place of the rules that queue all packets, and starts a twin with
    /// the other part.
    pub fn start(net: &Net, twin: Twin, text: &str) -> anyhow::Result<Stage> {
        Stage::start_with(net, twin, text, &["--hello-timeout", "1"])
    }

    /// Does the same as `start` with other options of the twin.
    /// - more: options in place of `--hello-timeout 1`.
    pub fn start_with(net: &Net, twin: Twin, text: &str, more: &[&str]) -> anyhow::Result<Stage> {
        let text = at_hook(net, text);
        Stage::start_split(net, twin, split(&text, Options::default())?, more)
    }

    /// Does the same as `start_with` with a policy that is already split.
    fn start_split(net: &Net, twin: Twin, split: Split, more: &[&str]) -> anyhow::Result<Stage> {
        let folder = Folder::shared()?;
        folder.write("kernel.nft", "")?;
        folder.write("names.nft", &split.daemon)?;
        load(net, &folder, &split)?;
        for tool in ["iptables", "ip6tables"] {
            run(&net.firewall, tool, &["--wait", "-F", "FORWARD"])?;
            for table in ["mangle", "security"] {
                run(&net.firewall, tool, &["--wait", "-t", table, "-F"])?;
            }
            let rules = split.iptables.as_deref().context("rules of iptables")?;
            net.firewall
                .feed(&format!("{tool}-restore"), &["--noflush", "--wait"], rules)?;
        }
        let firewall = start(net, &folder, twin, &split.stage, more)?;
        Ok(Stage {
            firewall,
            folder,
            mask: split.stage,
        })
    }

    /// Makes another firewall take over. Checks that the old one ends with exit code 0.
    fn upgrade(&mut self, net: &Net, twin: Twin) -> anyhow::Result<()> {
        self.upgrade_with(net, twin, &[])
    }

    /// Does the same as `upgrade` with additional options of the new firewall.
    fn upgrade_with(&mut self, net: &Net, twin: Twin, more: &[&str]) -> anyhow::Result<()> {
        let control = self.folder.file("control");
        let more = [&["--take-over", control.as_str()], more].concat();
        let (new, _) = take_over(&self.firewall, || {
            start(net, &self.folder, twin, &self.mask, &more)
        })?;
        let old = std::mem::replace(&mut self.firewall, new).wait()?;
        ensure!(old.code == Some(0), "{:?}: {}", old.code, old.stderr);
        Ok(())
    }

    /// Replaces the policy: first in the firewall, whose names the kernel ignores until its own part is loaded.
    fn reload(&self, net: &Net, text: &str, generation: u32) -> anyhow::Result<()> {
        self.reload_slowly(net, text, generation, Duration::ZERO)
    }

    /// Does the same as `reload` with a pause between firewall and kernel, in which their policies differ.
    fn reload_slowly(
        &self,
        net: &Net,
        text: &str,
        generation: u32,
        pause: Duration,
    ) -> anyhow::Result<()> {
        let options = Options {
            generation,
            ..Options::default()
        };
        let split = split(&at_hook(net, text), options)?;
        self.folder.replace("names.nft", &split.daemon)?;
        Client::new(&self.folder.file("control"))?.command("reload")?;
        pause_for(pause);
        load(net, &self.folder, &split)
    }

    fn received(&self) -> anyhow::Result<u64> {
        Ok(self.firewall.settled_ledger()?.total.received)
    }

    /// Returns the number of packets that were given back to the kernel with their checksum.
    pub fn restated(&self) -> anyhow::Result<u64> {
        Ok(self.firewall.settled_ledger()?.total.restated)
    }

    /// Ends the firewall. Warnings on its stderr are allowed.
    fn end(self) -> anyhow::Result<()> {
        let ended = self.firewall.end_by(libc::SIGTERM)?;
        ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
        Ok(())
    }

    pub fn finish(self) -> anyhow::Result<()> {
        self.firewall.finish().map(drop)
    }
}

const POLICY: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni @denied counter drop
		http host @denied counter drop
		th dport 53 dns name @denied counter drop
		tls alpn "denied" counter drop
	}
}
"#;

/// Checks that every client reaches allowed names and no denied name, and that in the kernel every rule's counter has
/// counted, except that of the last rule, for a protocol (ALPN) that no client offers.
fn real_ends(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let _resolver = names::start_resolver(&net, &[names::EVERY_NAME.to_owned()])?;
    let stage = Stage::start(&net, twin, POLICY)?;
    names::ask_all(&net, false)?;
    stage.finish()?;
    let listed = run(
        &net.firewall,
        "nft",
        &["list", "chain", "inet", "filter", "forward"],
    )?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let counted: Vec<bool> = listed
        .lines()
        .filter(|line| line.contains("counter packets"))
        .map(|line| !line.contains("counter packets 0 "))
        .collect();
    ensure!(counted == [true, true, true, false], "{listed}");
    Ok(())
}

const PORT: u16 = 8080;

/// Checks that no packet of a connection is queued after the server has acknowledged the bytes that decided.
fn settled(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let mut ends = Ends::new(&net, PORT)?;
    ends.exchange(NAMELESS)?;
    ends.exchange(b"settled")?;
    let before = stage.received()?;
    let bulk = vec![7; 1 << 16];
    for _ in 0..100 {
        ends.exchange(&bulk)?;
    }
    let after = stage.received()?;
    ensure!(
        before > 0 && after == before,
        "{} packets were queued",
        after - before
    );
    stage.finish()
}

/// Maximum number of a TLS connection's packets that are queued. docs/STAGE.md lists each, with its reason.
const QUEUED: u64 = 6;
/// Options of curl for each TLS version.
const VERSIONS: [&[&str]; 2] = [&["--tlsv1.3"], &["--tls-max", "1.2"]];

/// Returns the number of TCP segments that client and server have sent again.
fn sent_again(net: &Net) -> anyhow::Result<u64> {
    let of = |namespace: &Namespace| -> anyhow::Result<u64> {
        let text = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/snmp"))?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = lines.next().zip(lines.next()).context("lines of TCP")?;
        let mut pairs = names.split(' ').zip(values.split(' '));
        let (_, value) = pairs
            .find(|(name, _)| *name == "RetransSegs")
            .context("RetransSegs")?;
        Ok(value.parse()?)
    };
    Ok(of(&net.client)? + of(&net.server)?)
}

fn packets(twin: Twin) -> anyhow::Result<()> {
    const COUNT: u64 = 20;
    // Maximum number of retransmitted packets: fewer than one per connection.
    const AGAIN: u64 = 5;
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let mut opened = 0;
    for options in VERSIONS {
        // On a busy machine the ends send segments again, which are queued, too.
        until("few segments are sent again", PATIENCE, || {
            let (before, again) = (stage.received()?, sent_again(&net)?);
            for _ in 0..COUNT {
                check_fetched(&net, "allowed.example", options)?;
            }
            opened += COUNT;
            let (queued, again) = (stage.received()? - before, sent_again(&net)? - again);
            println!("{options:?}: {queued} packets of {COUNT} connections were queued");
            ensure!(queued >= 4 * COUNT, "{options:?}: {queued}");
            let is_few = queued <= QUEUED * COUNT + AGAIN;
            ensure!(is_few || again > 0, "{options:?}: {queued}");
            Ok(is_few)
        })?;
    }
    // A packet may arrive between the two readings.
    until("the status has the number of packets", PATIENCE, || {
        let said = fwctl(&net.firewall, &stage.folder.file("control"), &["status"])?;
        let received = stage.received()?;
        let line = format!("  stage      {received} packets queued for {opened} connections, ");
        Ok(said.code(0)?.contains(&line))
    })?;
    stage.finish()
}

/// Checks that the packets of a connection whose names are final are queued again after a reload, and decided by the
/// new policy.
fn reload(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let mut ends = Ends::new(&net, PORT)?;
    ends.exchange(NAMELESS)?;
    ends.exchange(b"settled")?;
    let denying = POLICY.replace("tls alpn \"denied\"", "tls sni missing");
    stage.reload(&net, &denying, 1)?;
    until("the connection is refused", PATIENCE, || {
        Ok(!ends.passes(false)?)
    })?;
    stage.reload(&net, POLICY, 2)?;
    until("the connection goes on", PATIENCE, || ends.passes(false))?;
    stage.end()
}

/// Checks that bits of marks that do not belong to the stage stay unchanged, in packets and in connections.
fn foreign_bits(twin: Twin) -> anyhow::Result<()> {
    const POLICY: &str = r#"
table inet filter {
	chain before {
		type filter hook prerouting priority -160; policy accept;
		meta mark set 0x5
		ct mark set ct mark | 0x60
	}
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni "denied.example" drop
		meta mark != 0x5 counter comment "other mark"
		ct mark & 0x60 != 0x60 counter comment "other ct mark"
	}
}
"#;
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    for _ in 0..3 {
        check_fetched(&net, "allowed.example", &[])?;
    }
    stage.finish()?;
    let listed = run(
        &net.firewall,
        "nft",
        &["list", "chain", "inet", "filter", "forward"],
    )?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let clean = listed.matches("counter packets 0 bytes 0").count();
    ensure!(clean == 2, "{listed}");
    Ok(())
}
