// SPDX-License-Identifier: GPL-2.0-or-later
//! Accepts every packet of a queue with the crate nfq, as in its documentation: peer-nfq QUEUE [tuned].

use nfq::{Queue, Verdict};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut queue = Queue::open()?;
    queue.bind(number)?;
    if words.next().as_deref() == Some("tuned") {
        queue.set_copy_range(number, 128)?;
        queue.set_queue_max_len(number, 131_072)?;
        queue.set_recv_gso(number, true)?;
    }
    loop {
        let mut message = queue.recv()?;
        message.set_verdict(Verdict::Accept);
        queue.verdict(message)?;
    }
}
