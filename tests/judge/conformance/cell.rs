// SPDX-License-Identifier: GPL-2.0-or-later
//! Cell: a separate namespace for each subject, with three ways (paths) for packets:
//!
//!     pin0 --> in0   delivered locally, whatever the address: prerouting, input
//!     pfwd0 -> fwd0 ----------------> out0 --> pout0   prerouting, forward, postrouting
//!     raw socket (owner, mark) -----> out0 --> pout0   output, postrouting
//!
//! and their ways back, for the server of a connection: a raw socket on in0, pout0 to fwd0, and pout0 to this host.
//!
//! Reject responses leave by out0, too. The last chain of every hook, after all other chains, logs passing packets with hook
//! and mark to a netlink socket; in the input hook it then drops them, so that the stack itself sends no replies.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::netns::Namespace;
use testbed::twin::root;
use twinwall_judge::tree::{Hook, HOOKS};

use crate::netlink::{Logged, Nflog};
use crate::socket::{
    bind_to_device, set_mark, Link, Raw, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MARKER,
};

/// Both ends of all links.
const WIRED: [&str; 6] = ["in0", "pin0", "fwd0", "pfwd0", "out0", "pout0"];
pub const INTERFACES: [&str; 4] = ["in0", "fwd0", "out0", "lo"];
/// Number of raw sockets that stay open. If there are more, all are closed before the next packet from a raw socket.
const OWNERS_KEPT: usize = 100;
pub const GROUP: u16 = 7;
const IN0: [u8; 6] = [2, 0, 0, 0, 1, 1];
const FWD0: [u8; 6] = [2, 0, 0, 0, 2, 1];
const OUT0: [u8; 6] = [2, 0, 0, 0, 3, 1];
const BROADCAST: [u8; 6] = [0xff; 6];
/// IPv4 and IPv6 address of the host that the cell stands for: sources of the connections that the host opens. Packets
/// of their servers return to these addresses.
pub const OWN: (u128, u128) = (0x0a4d_0001, 0xfd77 << 112 | 1);
const ETH_P_ALL: u16 = 0x0003;
/// Time in which new interfaces send their own initial packets.
const SETTLE: Duration = Duration::from_millis(400);
/// Pause between two reads of the queue's state in /proc, while packets wait or the firewall is busy.
const STEP: Duration = Duration::from_micros(150);
const PATIENCE: Duration = Duration::from_secs(10);

/// Way of a packet through the cell, which stands for a host: to the host, through it, from it, and each way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    In,
    Forward,
    Out,
    InBack,
    ForwardBack,
    OutBack,
}

/// Ways of single packets, and of the client's packets in a connection.
pub const WAYS: [Way; 3] = [Way::In, Way::Forward, Way::Out];
/// All ways of packets through the cell: those of `WAYS`, and for each the way back of the server's packets.
const ALL_WAYS: [Way; 6] = [
    Way::In,
    Way::Forward,
    Way::Out,
    Way::InBack,
    Way::ForwardBack,
    Way::OutBack,
];

impl Way {
    pub fn text(self) -> &'static str {
        let texts = [
            "in",
            "forward",
            "out",
            "in-back",
            "forward-back",
            "out-back",
        ];
        texts[self as usize]
    }

    /// Parses a way's text; None for other texts.
    pub fn parse(text: &str) -> Option<Way> {
        ALL_WAYS.into_iter().find(|way| way.text() == text)
    }

    /// Returns the way of the server's packets.
    pub fn back(self) -> Way {
        match self {
            Way::In => Way::InBack,
            Way::Forward => Way::ForwardBack,
            _ => Way::OutBack,
        }
    }

    /// Returns true if the way leads through a hook.
    pub fn meets(self, hook: Hook) -> bool {
        match self {
            Way::In | Way::OutBack => matches!(hook, Hook::Prerouting | Hook::Input),
            Way::Forward | Way::ForwardBack => {
                matches!(hook, Hook::Prerouting | Hook::Forward | Hook::Postrouting)
            }
            Way::Out | Way::InBack => matches!(hook, Hook::Output | Hook::Postrouting),
        }
    }
}

/// Packet to send, with its properties outside its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shot {
    pub number: u32,
    pub way: Way,
    pub bytes: Vec<u8>,
    pub mark: u32,
    /// User and group ID of the sender, for packets of raw sockets only (`Way::Out`, `Way::InBack`).
    pub owner: u32,
}

/// Packets observed in a subject's namespace (cell): logged after a hook's other chains, or sent out of the namespace.
#[derive(Default)]
pub struct Seen {
    pub logged: Vec<Logged>,
    /// Packets that left by out0.
    pub left: Vec<Vec<u8>>,
}

pub struct Cell {
    pub namespace: Namespace,
    inward: Link,
    forward: Link,
    outside: Link,
    markers: [Link; 3],
    /// Receives the marker frames that left by out0.
    left_markers: Link,
    nflog: Nflog,
    /// The open /proc file that lists the namespace's queues.
    queues: File,
    /// Raw sockets by owner, IP version and way.
    raws: RefCell<BTreeMap<(u32, u8, Way), Raw>>,
}

const SYSCTLS: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/router_solicitations", "0"),
    // Accept any source address.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/accept_local", "1"),
    ("ipv4/conf/default/accept_local", "1"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    // The kernel does not limit the rate of responses: only the policy may.
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
    ("ipv6/icmp/ratelimit", "0"),
    // No fragment waits for others, so that the kernel sends no later response to it.
    ("ipv4/ipfrag_low_thresh", "0"),
    ("ipv4/ipfrag_high_thresh", "0"),
    // Multicast reports are sent at once.
    ("ipv6/conf/default/mldv2_unsolicited_report_interval", "1"),
];

const LINKS: &str =
    "link add in0 mtu 9000 address 02:00:00:00:01:01 type veth peer name pin0 mtu 9000
link add fwd0 mtu 9000 address 02:00:00:00:02:01 type veth peer name pfwd0 mtu 9000
link add out0 mtu 9000 address 02:00:00:00:03:01 type veth peer name pout0 mtu 9000
address add 10.77.0.1/32 dev lo
address add fd77::1/128 dev lo nodad
link set in0 up
link set pin0 up
link set fwd0 up
link set pfwd0 up
link set out0 up
link set pout0 up
neigh add 169.254.9.9 lladdr 02:00:00:00:00:99 dev out0 nud permanent
neigh add fe80::9 lladdr 02:00:00:00:00:99 dev out0 nud permanent
neigh add 169.254.9.8 lladdr 02:00:00:00:00:98 dev fwd0 nud permanent
neigh add fe80::8 lladdr 02:00:00:00:00:98 dev fwd0 nud permanent
neigh add 169.254.9.7 lladdr 02:00:00:00:00:97 dev in0 nud permanent
neigh add fe80::7 lladdr 02:00:00:00:00:97 dev in0 nud permanent
route add default via 169.254.9.9 dev out0 onlink
route add default via 169.254.9.7 dev in0 onlink metric 2000
route add default via 169.254.9.8 dev fwd0 onlink table 77
rule add iif out0 to 10.77.0.1 lookup local pref 7
rule add iif out0 lookup 77 pref 8
";

/// Every address is local for packets from in0, and for checks of a response's source address. Packets from fwd0 and locally
/// sent packets are routed; those from out0 go to fwd0, unless they are for this host's own address.
const RULES: &str = "route add local default dev lo table local
rule add iif fwd0 lookup main pref 5
rule add iif lo lookup main pref 6
rule add lookup local pref 10
rule del pref 0
";

const LINKS6: &str = "route add default via fe80::9 dev out0 onlink
route add default via fe80::7 dev in0 onlink metric 2000
route add default via fe80::8 dev fwd0 onlink table 77
rule add iif out0 to fd77::1 lookup local pref 7
rule add iif out0 lookup 77 pref 8
";

/// Returns a table with a chain for each hook after all other chains. The chains log the packets that pass the hook;
/// that of the hook input then drops them.
/// - tracked: adds an unreachable chain that enables connection tracking for both families, whatever the policy uses.
pub fn late_chains(tracked: bool) -> String {
    let chains = HOOKS.map(|hook| {
        let end = if hook == Hook::Input { "\n\t\tdrop" } else { "" };
        let name = hook.text();
        format!("\tchain {name} {{\n\t\ttype filter hook {name} priority 30000;\n\t\tlog group {GROUP}{end}\n\t}}\n")
    });
    let track = if tracked {
        "\tchain track {\n\t\tct state new\n\t}\n"
    } else {
        ""
    };
    format!("table inet certify_late {{\n{track}{}}}\n", chains.concat())
}

/// Sends a marker frame by one end of a link, and waits for it at the other.
fn pass_marker(from: &Link, to: [u8; 6], at: &Link) -> anyhow::Result<()> {
    from.send(to, ETHERTYPE_MARKER, &[0; 46])?;
    ensure!(
        at.wait(PATIENCE.as_millis() as i32),
        "a frame over a veth pair is lost"
    );
    at.received()?;
    Ok(())
}

impl Cell {
    pub fn new() -> anyhow::Result<Cell> {
        let namespace = Namespace::new()?;
        namespace.enter(|| {
            for (name, value) in SYSCTLS {
                let path = format!("/proc/sys/net/{name}");
                fs::write(&path, value).with_context(|| path)?;
            }
            anyhow::Ok(())
        })?;
        namespace.feed("ip", &["-batch", "-"], LINKS)?;
        namespace.feed("ip", &["-batch", "-"], RULES)?;
        namespace.feed("ip", &["-6", "-batch", "-"], LINKS6)?;
        namespace.feed("ip", &["-6", "-batch", "-"], RULES)?;
        for interface in WIRED {
            namespace.wait_for(interface)?;
        }
        thread::sleep(SETTLE);
        let outside = namespace.enter(|| Link::open("pout0", ETH_P_ALL))?;
        let inward = namespace.enter(|| Link::open("pin0", 0))?;
        let forward = namespace.enter(|| Link::open("pfwd0", 0))?;
        let markers = [
            namespace.enter(|| Link::open("in0", ETHERTYPE_MARKER))?,
            namespace.enter(|| Link::open("fwd0", ETHERTYPE_MARKER))?,
            namespace.enter(|| Link::open("out0", ETHERTYPE_MARKER))?,
        ];
        let left_markers = namespace.enter(|| Link::open("pout0", ETHERTYPE_MARKER))?;
        let nflog = namespace.enter(|| Nflog::open(GROUP))?;
        Ok(Cell {
            inward,
            forward,
            outside,
            markers,
            left_markers,
            nflog,
            queues: namespace
                .enter(|| File::open("/proc/thread-self/net/netfilter/nfnetlink_queue"))
                .context("/proc/net/netfilter/nfnetlink_queue")?,
            namespace,
            raws: RefCell::default(),
        })
    }

    /// Sends packets in order.
    /// - one_by_one: true: waits after each packet until it has passed all hooks; false: waits only after the last of
    ///   consecutive packets of the same way, until they have reached their queue.
    /// - is_idle: returns true if the firewall waits for packets.
    pub fn send(
        &self,
        shots: &[Shot],
        one_by_one: bool,
        is_idle: &dyn Fn() -> bool,
    ) -> anyhow::Result<()> {
        for run in shots.chunk_by(|a, b| a.way == b.way && !one_by_one) {
            for shot in run {
                self.send_one(shot)?;
            }
            self.wait_for_marker(run[0].way)?;
            if one_by_one {
                self.wait_for_queue(is_idle)?;
            }
        }
        Ok(())
    }

    /// Sends packets, each after the verdict on the previous packet. Returns the observed packets for each sent packet.
    /// - is_idle: returns true if the firewall waits for packets.
    pub fn observe(&self, shots: &[Shot], is_idle: &dyn Fn() -> bool) -> anyhow::Result<Vec<Seen>> {
        // Discards earlier packets.
        self.settle(is_idle)?;
        let one = |shot: &Shot| {
            self.send_one(shot)?;
            self.wait_for_marker(shot.way)?;
            self.wait_for_queue(is_idle)?;
            pass_marker(&self.markers[2], BROADCAST, &self.left_markers)?;
            Ok(Seen {
                logged: self.nflog.received()?,
                left: self.outside.received()?,
            })
        };
        shots.iter().map(one).collect()
    }

    /// Waits until no packet waits for a verdict. The kernel moves a packet with a verdict to its next queue, or to its
    /// end, before the call that sent the verdict returns: an idle firewall has no packet on its way.
    fn wait_for_queue(&self, is_idle: &dyn Fn() -> bool) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.queue_state()?.is_some() {
            if is_idle() && self.queue_state()? == Some(0) {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "a packet waits in the queue and is not answered"
            );
            thread::sleep(STEP);
        }
        Ok(())
    }

    fn send_one(&self, shot: &Shot) -> anyhow::Result<()> {
        let version = shot.bytes[0] >> 4;
        let ethertype = if version == 4 {
            ETHERTYPE_IPV4
        } else {
            ETHERTYPE_IPV6
        };
        match shot.way {
            Way::In => {
                self.inward.set_mark(shot.mark)?;
                self.inward.send(IN0, ethertype, &shot.bytes)?;
            }
            Way::Forward => {
                self.forward.set_mark(shot.mark)?;
                self.forward.send(FWD0, ethertype, &shot.bytes)?;
            }
            Way::ForwardBack | Way::OutBack => {
                self.outside.set_mark(shot.mark)?;
                self.outside.send(OUT0, ethertype, &shot.bytes)?;
            }
            Way::Out | Way::InBack => {
                let mut raws = self.raws.borrow_mut();
                if raws.len() > OWNERS_KEPT {
                    raws.clear();
                }
                let raw = match raws.entry((shot.owner, version, shot.way)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(self.raw(shot.owner, version, shot.way)?),
                };
                set_mark(&raw.socket, shot.mark)?;
                raw.send(&shot.bytes);
            }
        }
        Ok(())
    }

    /// Opens a raw socket as a user and group with the ID `owner`.
    fn raw(&self, owner: u32, version: u8, way: Way) -> anyhow::Result<Raw> {
        self.namespace.enter(|| {
            // The thread ends with this closure, and its file system ids with it.
            // SAFETY: both calls have only numbers as arguments.
            unsafe {
                libc::setfsgid(owner);
                libc::setfsuid(owner);
            }
            let raw = Raw::open(version)?;
            if way == Way::InBack {
                bind_to_device(&raw.socket, "in0")?;
            }
            Ok(raw)
        })
    }

    /// Sends a marker frame on the link of a way, and waits for it. A link's frames are handled in order: once the
    /// marker arrives, earlier frames have passed the hooks or wait in a queue. Ways from a raw socket need no marker:
    /// their packets have done so when the sending call returns.
    fn wait_for_marker(&self, way: Way) -> anyhow::Result<()> {
        let (link, to, marker) = match way {
            Way::In => (&self.inward, IN0, &self.markers[0]),
            Way::Forward => (&self.forward, FWD0, &self.markers[1]),
            Way::ForwardBack | Way::OutBack => (&self.outside, OUT0, &self.markers[2]),
            Way::Out | Way::InBack => return Ok(()),
        };
        pass_marker(link, to, marker)
    }

    /// Waits until no packet waits in a queue. Returns the packets observed until then.
    /// - is_idle: returns true if the firewall waits for packets.
    pub fn settle(&self, is_idle: &dyn Fn() -> bool) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        let end = Instant::now() + PATIENCE;
        let mut quiet = 0;
        while quiet < 2 {
            ensure!(
                Instant::now() < end,
                "packets wait in the queue and are not answered"
            );
            let before = seen.logged.len() + seen.left.len();
            let state = self.queue_state()?;
            seen.logged.extend(self.nflog.received()?);
            seen.left.extend(self.outside.received()?);
            let waiting = state.is_some_and(|waiting| waiting > 0 || !is_idle());
            let moved = seen.logged.len() + seen.left.len() != before;
            quiet = if waiting || moved { 0 } else { quiet + 1 };
            // Without a queue, packets are handled within the calls that send them.
            if quiet < 2 && state.is_some() {
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(seen)
    }

    /// Returns the number of packets that wait in queue 0; None if there is no queue.
    fn queue_state(&self) -> anyhow::Result<Option<u64>> {
        let mut buffer = [0; 512];
        let read = self
            .queues
            .read_at(&mut buffer, 0)
            .context("the list of queues")?;
        let text = String::from_utf8_lossy(&buffer[..read]);
        match text.lines().next() {
            None => Ok(None),
            Some(line) => {
                let total = line.split_whitespace().nth(2).context("a queue's line")?;
                Ok(Some(total.parse()?))
            }
        }
    }

    /// Loads rules that send the packets of some hooks to queue 0. Packets of other hooks bypass the queue.
    /// - tracked: the rules store the connection state in the packets' mark, like the shipped rules.
    /// - before: iptables table for the rules of the hook prerouting: `raw` or `mangle`.
    pub fn queue_hooks(&self, hooks: &[Hook], tracked: bool, before: &str) -> anyhow::Result<()> {
        let rules = match tracked {
            true => tracking_rules()?,
            false => "-A TWINWALL -j NFQUEUE --queue-num 0\n".to_string(),
        };
        let mut text = String::new();
        let table_of = |hook: &Hook| match hook {
            Hook::Prerouting => before,
            Hook::Postrouting => "mangle",
            _ => "filter",
        };
        for table in ["raw", "mangle", "filter"] {
            let of: Vec<&Hook> = hooks
                .iter()
                .filter(|hook| table_of(hook) == table)
                .collect();
            text.push_str(&format!("*{table}\n"));
            if !of.is_empty() {
                text.push_str(&format!(":TWINWALL - [0:0]\n{rules}"));
            }
            for hook in of {
                text.push_str(&format!("-A {} -j TWINWALL\n", hook.text().to_uppercase()));
            }
            text.push_str("COMMIT\n");
        }
        self.namespace.feed("iptables-restore", &[], &text)?;
        self.namespace.feed("ip6tables-restore", &[], &text)
    }

    /// Runs nft with a text. Fails with the message of nft.
    pub fn nft(&self, text: &str) -> anyhow::Result<()> {
        self.namespace.feed("nft", &["-f", "-"], text)
    }
}

/// Returns the rules of rules/queue that store the connection state in the mark and send the packet to queue 0.
fn tracking_rules() -> anyhow::Result<String> {
    let path = root().join("rules/queue/conntrack-input.iptables");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rules: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("-A TWINWALL "))
        .collect();
    ensure!(
        !rules.is_empty(),
        "{}: no rules of the chain TWINWALL",
        path.display()
    );
    Ok(rules.join("\n") + "\n")
}
