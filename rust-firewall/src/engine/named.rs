// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of a packet's connection for a decision: the names that its client has shown, and their numbers in the policy.

use crate::connection::follow;
use crate::connection::{ConnectionInput, Connections, Followed, FollowedKind, PROTOCOL_COUNT};
use crate::engine::compiled::Compiled;
use crate::engine::hostnames;
use crate::engine::types::{DecideInput, DecideOutcome};
use crate::names::Names;
use crate::packet::verdict::Verdict;
use crate::packet::Packet;
use crate::policy::{Reject, RejectKind};

/// Number of counters of connections: opened; decided, by `NamesProtocol`; denied, evasions, unreadable, evicted.
pub const RESULT_COUNT: usize = PROTOCOL_COUNT + 5;

/// Reject with a TCP RST.
pub const RST: Reject = Reject {
    kind: RejectKind::TcpReset,
    code: 0,
};

/// Names of a packet's connection for a decision: the result of following the packet, and the numbers of the names in
/// the policy.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    pub followed: Followed,
    pub host_number: u32,
    pub alpn_bits: u32,
    /// True if the policy has not decided by these names before.
    pub is_new: bool,
}

/// Finds the numbers of a connection's names in the policy. The connection caches them for one generation.
fn resolve(
    connections: &mut Connections,
    compiled: &Compiled,
    followed: Followed,
    generation: u64,
) -> Named {
    let kept = follow::cache(connections, &followed).copied();
    let kept = kept.filter(|cache| cache.generation == generation);
    let (host_number, alpn_bits) = match kept {
        Some(cache) => (cache.host_number, cache.alpn_bits),
        None => hostnames::resolve(&compiled.hosts, follow::names(connections, &followed)),
    };
    if let Some(cache) = follow::cache(connections, &followed).filter(|_| kept.is_none()) {
        cache.generation = generation;
        cache.host_number = host_number;
        cache.alpn_bits = alpn_bits;
    }
    Named {
        followed,
        host_number,
        alpn_bits,
        is_new: kept.is_none(),
    }
}

/// Follows a packet's connection and returns its names with their numbers in the policy.
/// - how.generation: generation of the policy.
pub fn follow(
    connections: &mut Connections,
    compiled: &Compiled,
    packet: &Packet,
    how: &ConnectionInput,
) -> Named {
    let followed = follow::follow(connections, packet, how);
    resolve(connections, compiled, followed, how.generation)
}

/// Moves to the names of the next DNS query or HTTP request in a packet. The policy must have accepted the current
/// names. Returns true if there is a next query or request: then the policy must decide again.
/// - generation: generation of the policy.
pub fn next(
    connections: &mut Connections,
    compiled: &Compiled,
    generation: u64,
    named: &mut Named,
) -> bool {
    if !follow::next(connections) {
        return false;
    }
    *named = resolve(connections, compiled, named.followed, generation);
    true
}

/// Adds the names of a packet's connection to the input of a decision, or the fact that the policy has refused the
/// connection.
/// - names: names that the client has sent.
pub fn tell<'a>(named: &Named, names: &'a Names, input: &mut DecideInput<'a>) {
    match named.followed.kind {
        FollowedKind::None => {}
        FollowedKind::Names => {
            input.names = Some(names);
            input.host_number = named.host_number;
            input.alpn_bits = named.alpn_bits;
        }
        FollowedKind::Denied => input.refused = true,
    }
}

/// Returns true if the policy refuses names that the packet has just shown: then it refuses the connection.
pub fn refuses(named: &Named, outcome: &DecideOutcome) -> bool {
    named.is_new && outcome.read_names && !outcome.undecided && outcome.verdict != Verdict::Accept
}

/// Resets both ends of a refused TCP connection, if the rule that refused it has `reject` of any kind: an ICMP error
/// does not end an established connection (RFC 5461 section 3). The sender of this packet and of each later one gets a
/// RST. Returns the sequence number of a RST to the packet's destination; None if none is due.
/// - outcome: in/out: becomes a reject with a TCP RST, if the connection is reset.
pub fn reset(
    connections: &Connections,
    named: &Named,
    packet: &Packet,
    outcome: &mut DecideOutcome,
) -> Option<u32> {
    let followed = &named.followed;
    let is_new = refuses(named, outcome);
    let is_due = match is_new {
        true => outcome.verdict == Verdict::Reject && follow::can_reset(connections, followed),
        false => followed.kind == FollowedKind::Denied && follow::is_reset(connections, followed),
    };
    if !is_due {
        return None;
    }
    outcome.verdict = Verdict::Reject;
    outcome.reject = Some(RST);
    let expected = follow::expected(connections, followed, packet);
    expected.filter(|_| is_new)
}

/// Returns the counters of connections, in the order given at RESULT_COUNT, since `connections` was created.
pub fn results(connections: &Connections) -> [u64; RESULT_COUNT] {
    let counts = follow::counts(connections);
    let [other, tls, quic, http, dns] = counts.decided;
    let unreadable = counts.unreadable.iter().sum();
    let evicted = counts.evicted.iter().sum();
    let (denied, evasion) = (counts.denied, counts.evasion);
    [
        counts.opened,
        other,
        tls,
        quic,
        http,
        dns,
        denied,
        evasion,
        unreadable,
        evicted,
    ]
}
