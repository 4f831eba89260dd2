// SPDX-License-Identifier: GPL-2.0-or-later
//! Questions for addresses that wait for their answer. An answer that nobody asked for says nothing.
//!
//! Theory of operation: what is kept of a question is a hash by a key that is drawn once, of both ends, the id and the
//! question, so that who sends packets can't choose whose place is taken. The table has a fixed size and never allocates:
//! where a bucket is full, the oldest makes room.
// seccomp: getrandom
#![deny(clippy::indexing_slicing)]

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::connection::table;
use crate::names::answer::Answer;
use crate::packet::Packet;

/// Questions that wait, in buckets.
const BUCKETS: usize = 512;
const BUCKET_QUESTIONS: usize = 8;
/// How long a question waits.
const WAIT_NS: u64 = 10_000_000_000;

/// A question.
#[derive(Clone, Copy, Debug, Default)]
struct Question {
    tag: u64,
    /// When it is over; 0 = there is none.
    end_ns: u64,
}

/// The questions of a worker.
#[derive(Debug)]
pub struct Asked {
    hasher: SipHasher13,
    buckets: Vec<[Question; BUCKET_QUESTIONS]>,
}

/// Makes room for questions.
pub fn make() -> Asked {
    let mut key = [0; 16];
    getrandom::fill(&mut key).expect("the kernel gives random bytes");
    Asked {
        hasher: SipHasher13::new_with_key(&key),
        buckets: vec![[Question::default(); BUCKET_QUESTIONS]; BUCKETS],
    }
}

/// The hash of a question, alike for a query and its answer.
fn hash(asked: &Asked, packet: &Packet, message: &Answer) -> u64 {
    let mut hasher = asked.hasher;
    let (key, is_low) = table::key(packet);
    for word in key {
        hasher.write_u64(word);
    }
    let host = message.host.bytes.get(..message.host.length.into());
    hasher.write_u8((is_low != message.is_answer).into());
    hasher.write_u16(message.id);
    hasher.write_u16(message.dns_type);
    hasher.write_u16(message.class);
    hasher.write(host.unwrap_or_default());
    hasher.finish()
}

/// The bucket of a hash.
fn bucket(asked: &mut Asked, tag: u64) -> &mut [Question] {
    let bucket = asked.buckets.get_mut(tag as usize % BUCKETS);
    bucket.map_or(&mut [], |bucket| &mut bucket[..])
}

/// Notes the question of a query.
pub fn note(asked: &mut Asked, packet: &Packet, query: &Answer, now_ns: u64) {
    let tag = hash(asked, packet, query);
    let all = bucket(asked, tag).iter_mut();
    let place = all.min_by_key(|question| match question.tag == tag {
        true => 0,
        false => question.end_ns.max(1),
    });
    if let Some(question) = place {
        let end_ns = now_ns + WAIT_NS;
        *question = Question { tag, end_ns };
    }
}

/// Takes out the question of an answer. Returns whether it was waiting.
pub fn take(asked: &mut Asked, packet: &Packet, answer: &Answer, now_ns: u64) -> bool {
    let tag = hash(asked, packet, answer);
    let mut all = bucket(asked, tag).iter_mut();
    let waiting = all.find(|question| question.tag == tag && question.end_ns > now_ns);
    let Some(question) = waiting else {
        return false;
    };
    question.end_ns = 0;
    true
}
