// SPDX-License-Identifier: GPL-2.0-or-later
//! Passes packets from a reader to the writer in chunks of whole blocks. Chunks are reused; all of them are allocated before
//! the start.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Fill level in bytes at which a chunk is passed to the writer.
const FULL: usize = 512 << 10;

/// Returns the maximum bytes of a chunk if no packet block exceeds `longest` bytes.
pub const fn capacity(longest: usize) -> usize {
    FULL + longest
}

/// A buffer of pcapng packet blocks.
#[derive(Debug)]
pub struct Chunk {
    pub bytes: Vec<u8>,
    pub packets: u64,
    /// Index of the reader that owns the chunk.
    pub ring: usize,
}

/// Empty chunks of one reader. The chunk returned last is reused first, since it is probably still in the cache.
#[derive(Debug, Default)]
struct Pool {
    chunks: Mutex<Vec<Chunk>>,
    given: Condvar,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's end of the queue of chunks.
pub struct Outbox<'a> {
    full: SyncSender<Chunk>,
    pool: &'a Pool,
    chunk: Option<Chunk>,
}

/// The writer's end of the queue of chunks.
pub struct Inbox<'a> {
    full: Receiver<Chunk>,
    pools: &'a Pools,
}

pub struct Pools(Vec<Pool>);

impl Pools {
    /// Allocates the chunks of `readers` readers: for each reader as many as hold `bytes` up to their fill level FULL
    /// (at least four). Each chunk has room for one more block of `longest` bytes.
    pub fn new(readers: usize, bytes: usize, longest: usize) -> Pools {
        let count = (bytes / FULL).max(4);
        let pool = |ring| {
            let chunk = |_| Chunk {
                bytes: Vec::with_capacity(capacity(longest)),
                packets: 0,
                ring,
            };
            Pool {
                chunks: Mutex::new((0..count).map(chunk).collect()),
                given: Condvar::new(),
            }
        };
        Pools((0..readers).map(pool).collect())
    }

    pub fn boxes(&self) -> (Vec<Outbox<'_>>, Inbox<'_>) {
        let all: usize = self.0.iter().map(|pool| pool.lock().len()).sum();
        // The queue holds all chunks, so sending a chunk never blocks.
        let (full, received) = sync_channel(all);
        let outbox = |pool| Outbox {
            full: full.clone(),
            pool,
            chunk: None,
        };
        let inbox = Inbox {
            full: received,
            pools: self,
        };
        (self.0.iter().map(outbox).collect(), inbox)
    }
}

impl Outbox<'_> {
    /// Returns a chunk with room for one more block. If the writer holds all chunks, waits until it returns one; meanwhile
    /// the kernel's ring buffers packets and counts its drops.
    pub fn chunk(&mut self) -> &mut Chunk {
        if self
            .chunk
            .as_ref()
            .is_some_and(|chunk| chunk.bytes.len() >= FULL)
        {
            self.flush();
        }
        let pool = self.pool;
        self.chunk.get_or_insert_with(|| {
            let mut chunks = pool.lock();
            loop {
                match chunks.pop() {
                    Some(chunk) => return chunk,
                    None => {
                        chunks = pool
                            .given
                            .wait(chunks)
                            .unwrap_or_else(PoisonError::into_inner)
                    }
                }
            }
        })
    }

    /// Passes the current chunk to the writer; does nothing if the chunk has no packets.
    pub fn flush(&mut self) {
        if let Some(chunk) = self.chunk.take_if(|chunk| chunk.packets > 0) {
            // The writer outlives all readers.
            let _ = self.full.send(chunk);
        }
    }
}

impl Inbox<'_> {
    /// Waits for the next chunk, at most `limit`. Fails with Timeout, or with Disconnected once all readers have ended.
    pub fn next(
        &self,
        limit: Duration,
    ) -> std::result::Result<Chunk, std::sync::mpsc::RecvTimeoutError> {
        self.full.recv_timeout(limit)
    }

    pub fn give(&self, mut chunk: Chunk) {
        chunk.bytes.clear();
        chunk.packets = 0;
        let pool = &self.pools.0[chunk.ring];
        pool.lock().push(chunk);
        pool.given.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_go_round_and_a_reader_waits_for_the_writer() {
        let pools = Pools::new(2, 0, 100);
        let (outboxes, inbox) = pools.boxes();
        let count = 1000;
        std::thread::scope(|scope| {
            for mut outbox in outboxes {
                scope.spawn(move || {
                    for number in 0..count {
                        let chunk = outbox.chunk();
                        chunk.bytes.resize(FULL, number as u8);
                        chunk.packets += 1;
                    }
                    outbox.flush();
                });
            }
            let mut seen = [0, 0];
            while seen != [count, count] {
                let chunk = inbox.next(Duration::from_secs(300)).unwrap();
                assert_eq!(chunk.packets, 1);
                assert_eq!(chunk.bytes[0], seen[chunk.ring] as u8);
                assert!(chunk.bytes.capacity() >= FULL + 100);
                seen[chunk.ring] += 1;
                inbox.give(chunk);
            }
        });
        assert!(inbox.next(Duration::ZERO).is_err());
    }
}
