// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdicts that the kernel refuses for lack of memory: a library between the firewall and its netlink socket
//! (refuse.c) refuses them for a while, or makes the send buffer small. The firewall must continue, and each packet
//! must get its own verdict.

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::ledger::Stats;
use testbed::netns::Namespace;
use testbed::packets::force_send_buffer;
use testbed::place::{namespace, restore, LOCALHOST};
use testbed::proc;
use testbed::traffic::{udp_client, UdpServer};
use testbed::twin::{Twin, BACKENDS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::preload::library;
use super::scene::{rule, waiting_in};

pub const ROWS: &[Row] = &[
    ("unsent-for-a-while", for_a_while),
    ("unsent-as-too-long", as_too_long),
    ("unsent-for-ever", for_ever),
    ("unsent-the-guard-answers", the_guard_answers),
];

/// Policy that drops every second datagram, so that each needs a separate verdict message.
const POLICY: &str = "table inet chaos {\n\
    \tchain output {\n\
    \t\ttype filter hook output priority 0; policy accept;\n\
    \t\tmeta length 31 drop\n\
    \t}\n\
    }\n";
const SENT: u64 = 1000;

struct Place {
    namespace: Namespace,
    folder: Folder,
    server: UdpServer,
}

impl Place {
    fn new() -> anyhow::Result<Place> {
        let namespace = namespace()?;
        restore(&namespace, "iptables", &rule(""))?;
        let server = UdpServer::start(&namespace, LOCALHOST, false)?;
        let folder = Folder::shared()?;
        folder.write("half.nft", POLICY)?;
        Ok(Place {
            namespace,
            folder,
            server,
        })
    }

    /// Starts a firewall with the preloaded library refuse.c, by which its verdicts are refused.
    /// - variables: environment variables of refuse.c (error and number of refusals, or buffer size).
    /// - arguments: additional options of the firewall.
    fn start(
        &self,
        twin: Twin,
        variables: &[&str],
        arguments: &[&str],
    ) -> anyhow::Result<Firewall> {
        let preload = format!("LD_PRELOAD={}", library(&self.folder, "refuse")?);
        let wrapper = [&["env", preload.as_str()][..], variables].concat();
        let policy = self.folder.file("half.nft");
        let arguments = [&["--policy", &policy, "--json"][..], arguments].concat();
        Firewall::start_under(&self.namespace, &wrapper, twin, &arguments)
    }

    /// Sends datagrams while the firewall is stopped, so that they wait together. Every second datagram is one byte
    /// longer.
    fn send(&self, firewall: &Firewall) -> anyhow::Result<()> {
        let client = udp_client(&self.namespace, LOCALHOST)?;
        // With a smaller buffer the sender would wait for room.
        force_send_buffer(&client, 16 << 20)?;
        proc::stop(firewall.pid)?;
        for number in 0..SENT {
            client.send(&b"abc"[..2 + number as usize % 2])?;
        }
        proc::signal(firewall.pid, libc::SIGCONT);
        Ok(())
    }
}

/// Waits until a firewall has sent all verdicts, and ends it. Checks the verdicts in its ledger. Returns its stats.
/// - what: name of the case, for messages.
fn finish(place: &Place, mut firewall: Firewall, what: &str) -> anyhow::Result<Stats> {
    until("nothing waits any more", PATIENCE, || {
        ensure!(
            firewall.is_running()?,
            "{what}: the firewall ended by itself"
        );
        Ok(waiting_in(&place.namespace)? == Some(0))
    })
    .context(what.to_string())?;
    let stats = firewall.finish().context(what.to_string())?;
    let ledger = &stats.total;
    ledger.check_reconciled()?;
    ensure!(
        ledger.received == SENT
            && ledger.verdict("drop") == SENT / 2
            && ledger.verdict("accept") == SENT / 2,
        "{what}: {ledger:?}"
    );
    ensure!(ledger.refused == 0, "{what}: {ledger:?}");
    Ok(stats)
}

fn for_a_while(twin: Twin) -> anyhow::Result<()> {
    let errors = [libc::ENOBUFS, libc::EAGAIN, libc::ENOMEM, libc::EINTR];
    for (backend, error) in BACKENDS.into_iter().flat_map(|b| errors.map(|e| (b, e))) {
        let place = Place::new()?;
        let variable = format!("REFUSE_ERROR={error}");
        let arguments = ["--backend", backend, "--deadline", "0"];
        let firewall = place.start(twin, &[&variable, "REFUSE_TIMES=2"], &arguments)?;
        place.send(&firewall)?;
        let what = format!("{backend}, errno {error}");
        let ledger = finish(&place, firewall, &what)?.total;
        // An interrupted call (EINTR) is repeated at once, and not counted as a retry.
        ensure!(
            (ledger.send_retries > 0) == (error != libc::EINTR),
            "{what}: {ledger:?}"
        );
        place
            .server
            .check_arrived(SENT / 2)
            .context(what.to_string())?;
    }
    Ok(())
}

/// Checks a batch whose verdicts don't fit into the send buffer: the kernel's smallest buffer has room for about 140.
fn as_too_long(twin: Twin) -> anyhow::Result<()> {
    for backend in BACKENDS.into_iter().rev() {
        let place = Place::new()?;
        let arguments = ["--backend", backend, "--batch", "1024", "--deadline", "0"];
        let firewall = place.start(twin, &["REFUSE_BUFFER=1"], &arguments)?;
        place.send(&firewall)?;
        finish(&place, firewall, backend)?;
        place
            .server
            .check_arrived(SENT / 2)
            .context(backend.to_string())?;
    }
    Ok(())
}

/// Checks that a firewall whose verdicts are always refused can be stopped, and that its ledger reports the missing
/// verdicts.
fn for_ever(twin: Twin) -> anyhow::Result<()> {
    for backend in BACKENDS {
        let place = Place::new()?;
        let variables = ["REFUSE_ERROR=105", "REFUSE_TIMES=1000000000"];
        let arguments = ["--backend", backend, "--deadline", "0"];
        let firewall = place.start(twin, &variables, &arguments)?;
        place.send(&firewall)?;
        until("verdicts are refused", PATIENCE, || {
            Ok(firewall.ledger()?.total.send_retries > 10)
        })?;
        let ended = firewall.end_by(libc::SIGTERM)?;
        ensure!(
            ended.code == Some(0),
            "{backend}: exit code {:?}",
            ended.code
        );
        let line = ended.lines.last().context("no ledger at exit")?;
        let ledger = Stats::parse(line)?.total;
        ensure!(
            !ledger.reconciled && ledger.verdict_sum() == 0,
            "{ledger:?}"
        );
        place.server.check_arrived(0)?;
    }
    Ok(())
}

fn the_guard_answers(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let variables = ["REFUSE_ERROR=105", "REFUSE_TIMES=1000000000"];
    let arguments = ["--fail", "stall=open", "--deadline", "200"];
    let firewall = place.start(twin, &variables, &arguments)?;
    place.send(&firewall)?;
    place.server.check_arrived(SENT)?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}
