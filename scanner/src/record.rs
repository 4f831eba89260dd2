// SPDX-License-Identifier: GPL-2.0-or-later
//! Results on their way from the rings to the writer, in batches that are allocated before the start and reused.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

use crate::state::{Finding, Reason, State};

/// Result for one target.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Index of the target in the plan.
    pub index: u64,
    pub state: State,
    pub reason: Reason,
    /// Error number of [`Reason::Other`] and [`Reason::Shortage`]; 0 for other reasons.
    pub errno: i32,
    pub attempts: u8,
    pub finding: Finding,
    /// Time from the start of the last connection attempt to its result, an answer or a time-out; 0 in a --syn scan.
    pub rtt_us: u32,
    /// Start and end of the answer's bytes in the batch.
    text: (u32, u32),
}

const RECORDS: usize = 256;
/// Maximum bytes of an answer. A batch has this much room in addition to TEXTS, at which it is full.
pub const LONGEST_TEXT: usize = 16 * 1024;
const TEXTS: usize = 64 * 1024;
/// Number of batches of an outbox: its thread fills one batch; the other batches are with the writer or on their
/// way back.
const BATCHES: usize = 8;

#[derive(Debug)]
pub struct Batch {
    records: Vec<Record>,
    texts: Vec<u8>,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            records: Vec::with_capacity(RECORDS),
            texts: Vec::with_capacity(TEXTS + LONGEST_TEXT),
        }
    }

    /// Iterates over the records, each with the bytes of its answer.
    pub fn iter(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        self.records.iter().map(|record| {
            let (from, to) = record.text;
            (record, &self.texts[from as usize..to as usize])
        })
    }

    fn is_full(&self) -> bool {
        self.records.len() == RECORDS || self.texts.len() >= TEXTS
    }
}

/// Sending end of the channel for results: each thread that scans has one. It sends batches of results and gets empty
/// batches back.
pub struct Outbox {
    batch: Option<Batch>,
    full: SyncSender<(usize, Batch)>,
    empty: Receiver<Batch>,
    ring: usize,
}

/// Receiving end of the channel for results, for the writer.
pub struct Inbox {
    full: Receiver<(usize, Batch)>,
    empty: Vec<SyncSender<Batch>>,
}

/// Creates `rings` outboxes, one for each thread that scans, and the inbox.
pub fn boxes(rings: usize) -> (Vec<Outbox>, Inbox) {
    let (full, received) = sync_channel(rings * BATCHES);
    let (outboxes, empty) = (0..rings)
        .map(|ring| {
            let (back, empty) = sync_channel(BATCHES);
            for _ in 1..BATCHES {
                // The channel has room for all batches of a ring.
                let _ = back.try_send(Batch::new());
            }
            let outbox = Outbox {
                batch: Some(Batch::new()),
                full: full.clone(),
                empty,
                ring,
            };
            (outbox, back)
        })
        .unzip();
    let inbox = Inbox {
        full: received,
        empty,
    };
    (outboxes, inbox)
}

impl Outbox {
    /// Adds a record with the bytes of its answer, of which it stores at most LONGEST_TEXT. Waits if the batch is then
    /// full and the writer holds all other batches.
    pub fn push(&mut self, mut record: Record, text: &[u8]) {
        let Some(batch) = &mut self.batch else { return };
        let text = &text[..text.len().min(LONGEST_TEXT)];
        let from = batch.texts.len() as u32;
        batch.texts.extend_from_slice(text);
        record.text = (from, batch.texts.len() as u32);
        batch.records.push(record);
        if batch.is_full() {
            self.flush();
        }
    }

    /// Passes the current batch to the writer. Called when the batch is full, before the thread waits for long, so that
    /// results stream, and at the end.
    pub fn flush(&mut self) {
        let has_records = |batch: &Batch| !batch.records.is_empty();
        if !self.batch.as_ref().is_some_and(has_records) {
            return;
        }
        let Some(batch) = self.batch.take() else {
            return;
        };
        // If the writer has ended (its output was closed), the batch is lost: the scan is being stopped.
        if self.full.send((self.ring, batch)).is_ok() {
            self.batch = self.empty.recv().ok();
        }
    }
}

impl Inbox {
    /// Passes each batch to `take` until all rings are done, or `take` fails.
    pub fn each<E>(self, mut take: impl FnMut(&Batch) -> Result<(), E>) -> Result<(), E> {
        while let Ok((ring, mut batch)) = self.full.recv() {
            take(&batch)?;
            batch.records.clear();
            batch.texts.clear();
            let _ = self.empty[ring].try_send(batch);
        }
        Ok(())
    }
}

impl Record {
    pub fn new(index: u64, state: State, reason: Reason) -> Record {
        Record {
            index,
            state,
            reason,
            errno: 0,
            attempts: 1,
            finding: Finding::None,
            rtt_us: 0,
            text: (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_comes_with_its_own_bytes() {
        let (mut outboxes, inbox) = boxes(2);
        let count = 3000;
        let senders: Vec<_> = outboxes
            .drain(..)
            .enumerate()
            .map(|(ring, mut outbox)| {
                std::thread::spawn(move || {
                    for index in 0..count {
                        let text = format!("{ring}:{index}").repeat(index as usize % 50);
                        let record = Record::new(index, State::Open, Reason::SynAck);
                        outbox.push(record, text.as_bytes());
                    }
                    outbox.flush();
                })
            })
            .collect();
        let mut seen = 0;
        inbox
            .each::<()>(|batch| {
                for (record, text) in batch.iter() {
                    let text = std::str::from_utf8(text).unwrap();
                    let times = record.index as usize % 50;
                    let word = [0, 1].map(|ring| format!("{ring}:{}", record.index).repeat(times));
                    assert!(word.iter().any(|word| word == text));
                    seen += 1;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 2 * count);
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
    }

    #[test]
    fn a_writer_that_is_gone_blocks_nobody() {
        let (mut outboxes, inbox) = boxes(1);
        drop(inbox);
        for index in 0..10_000 {
            outboxes[0].push(Record::new(index, State::Open, Reason::SynAck), b"text");
        }
        outboxes[0].flush();
    }
}
