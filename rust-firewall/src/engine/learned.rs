// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses that sets have learned, shared by all workers.
//!
//! Theory of operation: a table of fixed size that never allocates. A hash with a randomly drawn key gives an address
//! its bucket; if the bucket is full, the address that expires first is evicted. Sets are identified by a hash of their
//! text, so that a set with the same text after a reload retains its addresses. Readers take no lock (the table is a
//! seqlock): the number of a bucket is odd while one of its addresses is being exchanged, and a reader that finds it
//! odd or changed reads again. Writers take a lock, and so does a reader after too many attempts, so that it does not
//! spin while the kernel has suspended a writer.
#![deny(clippy::indexing_slicing)]

use std::hint;
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::sync::Mutex;

use crate::base::lock;
use crate::base::siphash::{self, SiphashKey};

/// Number of addresses in a bucket.
const BUCKET_ADDRESSES: usize = 8;
/// Maximum number of attempts to read a bucket without a lock.
const LOOKS_MAX: u32 = 64;

/// Entry of a bucket: an address that a set has learned.
#[derive(Debug, Default)]
struct Entry {
    set: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    /// Time at which the address expires; 0 = free entry.
    end_ns: AtomicU64,
}

/// Bucket of the hash table: addresses with hashes in one interval. `number` is odd while an address is being replaced:
/// then readers try again.
#[derive(Debug, Default)]
struct Bucket {
    number: AtomicU64,
    entries: [Entry; BUCKET_ADDRESSES],
}

/// Learned address of a set, as an upgrade hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedAddress {
    pub set: u64,
    pub address: u128,
    /// Time at which the address expires.
    pub end_ns: u64,
}

/// Table of the learned addresses of all sets.
#[derive(Debug)]
pub struct Learned {
    key: SiphashKey,
    buckets: Vec<Bucket>,
    writer: Mutex<()>,
}

/// Creates an empty table with room for this many addresses.
pub fn make(addresses: u32) -> Learned {
    let buckets = (addresses as usize).div_ceil(BUCKET_ADDRESSES).max(1);
    Learned {
        key: siphash::draw(),
        buckets: (0..buckets).map(|_| Bucket::default()).collect(),
        writer: Mutex::new(()),
    }
}

/// Returns the words by which an address of a set is hashed: the set's identity, and the address, upper half first.
fn words_of(set: u64, address: u128) -> [u64; 3] {
    [set, (address >> 64) as u64, address as u64]
}

/// Returns the bucket of an address.
fn bucket_of<'a>(learned: &'a Learned, words: &[u64; 3]) -> Option<&'a Bucket> {
    let hash = siphash::words(&learned.key, words);
    let place = u128::from(hash) * learned.buckets.len() as u128 >> 64;
    learned.buckets.get(place as usize)
}

/// Returns the entry of an address, expired or not; None if there is none.
fn entry_of<'a>(bucket: &'a Bucket, words: &[u64; 3]) -> Option<&'a Entry> {
    let [set, high, low] = words;
    bucket.entries.iter().find(|entry| {
        entry.set.load(Ordering::Relaxed) == *set
            && entry.high.load(Ordering::Relaxed) == *high
            && entry.low.load(Ordering::Relaxed) == *low
    })
}

/// Returns the time at which an address of a bucket expires; 0 if the bucket does not have it.
fn end_of(bucket: &Bucket, words: &[u64; 3]) -> u64 {
    entry_of(bucket, words).map_or(0, |entry| entry.end_ns.load(Ordering::Relaxed))
}

/// Returns the time (monotonic clock, ns) at which an address of a set expires; 0 if the set does not have the address.
/// - set: identity of the set (`CompileLearning`).
pub fn end(learned: &Learned, set: u64, address: u128) -> u64 {
    let words = words_of(set, address);
    let Some(bucket) = bucket_of(learned, &words) else {
        return 0;
    };
    for _ in 0..LOOKS_MAX {
        let before = bucket.number.load(Ordering::Acquire);
        let found = end_of(bucket, &words);
        fence(Ordering::Acquire);
        if before & 1 == 0 && bucket.number.load(Ordering::Relaxed) == before {
            return found;
        }
        hint::spin_loop();
    }
    let _writer = lock::lock(&learned.writer);
    end_of(bucket, &words)
}

/// Returns true if a set has the given address, and this address has not expired.
pub fn find(learned: &Learned, set: u64, address: u128, now_ns: u64) -> bool {
    end(learned, set, address) > now_ns
}

/// Stores an address in an entry of a bucket: a free entry, or in place of another address.
fn exchange(bucket: &Bucket, entry: &Entry, words: &[u64; 3], end_ns: u64) {
    let [set, high, low] = words;
    let number = bucket.number.load(Ordering::Relaxed);
    bucket.number.store(number + 1, Ordering::Relaxed);
    fence(Ordering::Release);
    entry.set.store(*set, Ordering::Relaxed);
    entry.high.store(*high, Ordering::Relaxed);
    entry.low.store(*low, Ordering::Relaxed);
    entry.end_ns.store(end_ns, Ordering::Relaxed);
    bucket.number.store(number + 2, Ordering::Release);
}

/// Adds an address to a set, with its expiry time. An address that the set already has keeps the later expiry time.
/// Returns true if an unexpired address was evicted for the new address.
pub fn add(learned: &Learned, set: u64, address: u128, end_ns: u64, now_ns: u64) -> bool {
    let words = words_of(set, address);
    let _writer = lock::lock(&learned.writer);
    let Some(bucket) = bucket_of(learned, &words) else {
        return false;
    };
    if let Some(entry) = entry_of(bucket, &words) {
        let before = entry.end_ns.load(Ordering::Relaxed);
        entry.end_ns.store(end_ns.max(before), Ordering::Relaxed);
        return false;
    }
    let ends = |entry: &&Entry| entry.end_ns.load(Ordering::Relaxed);
    let Some(entry) = bucket.entries.iter().min_by_key(ends) else {
        return false;
    };
    let evicts = ends(&entry) > now_ns;
    exchange(bucket, entry, &words, end_ns);
    evicts
}

/// Returns the number of addresses that have not expired.
pub fn count(learned: &Learned, now_ns: u64) -> u64 {
    let entries = learned.buckets.iter().flat_map(|bucket| &bucket.entries);
    let are = entries.filter(|entry| entry.end_ns.load(Ordering::Relaxed) > now_ns);
    are.count() as u64
}

/// Returns the number of the table's entries, used and free.
pub fn places(learned: &Learned) -> u32 {
    (learned.buckets.len() * BUCKET_ADDRESSES) as u32
}

/// Returns the address in an entry; None if the entry is free or the address has expired. No other thread may write.
/// - place: number of the entry, less than `places`.
pub fn at(learned: &Learned, place: u32, now_ns: u64) -> Option<LearnedAddress> {
    let place = place as usize;
    let bucket = learned.buckets.get(place / BUCKET_ADDRESSES)?;
    let entry = bucket.entries.get(place % BUCKET_ADDRESSES)?;
    let high = u128::from(entry.high.load(Ordering::Relaxed));
    let found = LearnedAddress {
        set: entry.set.load(Ordering::Relaxed),
        address: high << 64 | u128::from(entry.low.load(Ordering::Relaxed)),
        end_ns: entry.end_ns.load(Ordering::Relaxed),
    };
    Some(found).filter(|found| found.end_ns > now_ns)
}

/// Removes all addresses. Allowed only before the first lookup.
pub fn forget_all(learned: &Learned) {
    for entry in learned.buckets.iter().flat_map(|bucket| &bucket.entries) {
        entry.end_ns.store(0, Ordering::Relaxed);
    }
}
