// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses that sets have learnt, of all workers together.
//!
//! Theory of operation: a table of fixed size that never allocates. An address lies in one bucket, by a hash with a key that
//! is drawn once; where it is full, the address that ends first makes room. Sets are known by a hash of what they say, so
//! that a set which says the same after a reload goes on with its addresses. Who looks takes no lock: a bucket has a
//! number that is odd while one of its addresses is exchanged, and who finds it odd or changed looks again. Who writes
//! takes a lock, and so does who has looked too often, so that nobody waits for a writer that the kernel put to sleep.
#![deny(clippy::indexing_slicing)]

use std::hint;
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::sync::Mutex;

use crate::base::lock;
use crate::base::siphash::{self, SiphashKey};

/// Addresses of a bucket.
const BUCKET_ADDRESSES: usize = 8;
/// How often a bucket is looked at without a lock.
const LOOKS_MAX: u32 = 64;

/// An address of a set.
#[derive(Debug, Default)]
struct Entry {
    set: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    /// When it is over; 0 = there is none.
    end_ns: AtomicU64,
}

/// A bucket. Its number is odd while an address is exchanged.
#[derive(Debug, Default)]
struct Bucket {
    number: AtomicU64,
    entries: [Entry; BUCKET_ADDRESSES],
}

/// An address of a set, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedAddress {
    pub set: u64,
    pub address: u128,
    /// When it is over.
    pub end_ns: u64,
}

/// The addresses of all sets.
#[derive(Debug)]
pub struct Learned {
    key: SiphashKey,
    buckets: Vec<Bucket>,
    writer: Mutex<()>,
}

/// Makes room for so many addresses.
pub fn make(addresses: u32) -> Learned {
    let buckets = (addresses as usize).div_ceil(BUCKET_ADDRESSES).max(1);
    Learned {
        key: siphash::draw(),
        buckets: (0..buckets).map(|_| Bucket::default()).collect(),
        writer: Mutex::new(()),
    }
}

/// The words of an address of a set.
fn words_of(set: u64, address: u128) -> [u64; 3] {
    [set, (address >> 64) as u64, address as u64]
}

/// The bucket of an address.
fn bucket_of<'a>(learned: &'a Learned, words: &[u64; 3]) -> Option<&'a Bucket> {
    let hash = siphash::words(&learned.key, words);
    let place = u128::from(hash) * learned.buckets.len() as u128 >> 64;
    learned.buckets.get(place as usize)
}

/// The entry of an address, be it over or not.
fn entry_of<'a>(bucket: &'a Bucket, words: &[u64; 3]) -> Option<&'a Entry> {
    let [set, high, low] = words;
    bucket.entries.iter().find(|entry| {
        entry.set.load(Ordering::Relaxed) == *set
            && entry.high.load(Ordering::Relaxed) == *high
            && entry.low.load(Ordering::Relaxed) == *low
    })
}

/// Whether a bucket has an address.
fn holds(bucket: &Bucket, words: &[u64; 3], now_ns: u64) -> bool {
    let entry = entry_of(bucket, words);
    entry.is_some_and(|entry| entry.end_ns.load(Ordering::Relaxed) > now_ns)
}

/// Whether a set has an address.
pub fn find(learned: &Learned, set: u64, address: u128, now_ns: u64) -> bool {
    let words = words_of(set, address);
    let Some(bucket) = bucket_of(learned, &words) else {
        return false;
    };
    for _ in 0..LOOKS_MAX {
        let before = bucket.number.load(Ordering::Acquire);
        let found = holds(bucket, &words, now_ns);
        fence(Ordering::Acquire);
        if before & 1 == 0 && bucket.number.load(Ordering::Relaxed) == before {
            return found;
        }
        hint::spin_loop();
    }
    let _writer = lock::lock(&learned.writer);
    holds(bucket, &words, now_ns)
}

/// Replaces an address, or stores one in a free place.
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

/// Has a set know an address until a time, or for longer if it does already. Returns whether another one made room before
/// its time.
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

/// How many addresses there are.
pub fn count(learned: &Learned, now_ns: u64) -> u64 {
    let entries = learned.buckets.iter().flat_map(|bucket| &bucket.entries);
    let are = entries.filter(|entry| entry.end_ns.load(Ordering::Relaxed) > now_ns);
    are.count() as u64
}

/// How many places for addresses there are.
pub fn places(learned: &Learned) -> u32 {
    (learned.buckets.len() * BUCKET_ADDRESSES) as u32
}

/// The address at a place that is not over, while nobody writes.
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

/// Forgets all addresses. Only before the first lookup.
pub fn forget_all(learned: &Learned) {
    for entry in learned.buckets.iter().flat_map(|bucket| &bucket.entries) {
        entry.end_ns.store(0, Ordering::Relaxed);
    }
}
