// SPDX-License-Identifier: GPL-2.0-or-later
//! Pending DNS queries for addresses. Only an answer to a pending query adds addresses to sets.
//!
//! Theory of operation: a query is stored as a hash of both ends, the id and the question. The hash has a random key,
//! so a sender can't choose the entry that its query replaces. The table has a fixed size and never allocates: in a
//! full bucket the oldest entry is replaced.
#![deny(clippy::indexing_slicing)]

use crate::base::siphash::{self, SiphashKey};
use crate::connection::borders::{self, Borders};
use crate::connection::openers::{self, Openers};
use crate::connection::types::{ConnectionInput, KEY_WORDS};
use crate::connection::{direction, table};
use crate::names::answer::Answer;
use crate::names::HOST_BYTES;
use crate::packet::Packet;

/// Maximum number of 64-bit words of a host name.
const HOST_WORDS: usize = HOST_BYTES.div_ceil(8);
/// Number of buckets in the table of pending DNS queries.
const BUCKETS: usize = 512;
const BUCKET_QUESTIONS: usize = 8;
/// Maximum time that a DNS query stays pending.
const WAIT_NS: u64 = 10_000_000_000;

/// A pending DNS query.
#[derive(Clone, Copy, Debug, Default)]
struct Question {
    tag: u64,
    /// Expiry time; 0 means that the entry is unused.
    end_ns: u64,
    /// Interface that the query came from.
    client_interface: u32,
    /// Interface to which the query was sent; INTERFACE_UNKNOWN if unknown.
    server_interface: u32,
}

/// A worker's tables for DNS: pending queries, connections over TCP, and UDP flows.
#[derive(Debug)]
pub struct Asked {
    key: SiphashKey,
    buckets: Vec<[Question; BUCKET_QUESTIONS]>,
    /// Table of the DNS connections over TCP, with the start of each server's next message.
    pub borders: Borders,
    /// UDP flows with port 53, by the end that opened them.
    pub openers: Openers,
}

/// Makes empty tables.
pub fn make() -> Asked {
    Asked {
        key: siphash::draw(),
        buckets: vec![[Question::default(); BUCKET_QUESTIONS]; BUCKETS],
        borders: borders::make(),
        openers: openers::make(),
    }
}

/// Returns the hash of a question, equal for a query and its answer.
fn hash(asked: &Asked, packet: &Packet, message: &Answer) -> u64 {
    let mut words = [0; KEY_WORDS + 1 + HOST_WORDS];
    let (key, is_low) = table::key(packet);
    let host = message.host.bytes.get(..message.host.length.into());
    let host = host.unwrap_or_default();
    let is_client_low = u64::from(is_low != message.is_answer);
    let question = is_client_low << 56
        | (host.len() as u64) << 48
        | u64::from(message.id) << 32
        | u64::from(message.dns_type) << 16
        | u64::from(message.class);
    let host_words = host.chunks(8).map(|bytes| {
        let high_first = bytes.iter().rev();
        high_first.fold(0, |word, byte| word << 8 | u64::from(*byte))
    });
    let all = key.into_iter().chain([question]).chain(host_words);
    for (to, from) in words.iter_mut().zip(all) {
        *to = from;
    }
    let count = KEY_WORDS + 1 + host.len().div_ceil(8);
    siphash::words(&asked.key, words.get(..count).unwrap_or_default())
}

/// Returns the entries of the bucket that a hash belongs to.
fn bucket(asked: &mut Asked, tag: u64) -> &mut [Question] {
    let bucket = asked.buckets.get_mut(tag as usize % BUCKETS);
    bucket.map_or(&mut [], |bucket| &mut bucket[..])
}

/// Records that the question of a DNS query is pending.
pub fn note(asked: &mut Asked, packet: &Packet, query: &Answer, input: &ConnectionInput) {
    let tag = hash(asked, packet, query);
    let all = bucket(asked, tag).iter_mut();
    let place = all.min_by_key(|question| match question.tag == tag {
        true => 0,
        false => question.end_ns.max(1),
    });
    if let Some(question) = place {
        *question = Question {
            tag,
            end_ns: input.now_ns + WAIT_NS,
            client_interface: input.source_interface,
            server_interface: input.sink_interface,
        };
    }
}

/// Removes the question of a DNS answer from the table, if it is pending and the answer's interfaces fit the query's
/// (see `direction::answers_query`). Returns true if the question was removed.
pub fn remove(
    asked: &mut Asked,
    packet: &Packet,
    answer: &Answer,
    input: &ConnectionInput,
) -> bool {
    let tag = hash(asked, packet, answer);
    let mut all = bucket(asked, tag).iter_mut();
    let waiting = all.find(|question| {
        let (client, server) = (question.client_interface, question.server_interface);
        question.tag == tag
            && question.end_ns > input.now_ns
            && direction::answers_query(client, server, input)
    });
    let Some(question) = waiting else {
        return false;
    };
    question.end_ns = 0;
    true
}
