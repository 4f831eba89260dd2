// SPDX-License-Identifier: GPL-2.0-or-later
//! The listening thread.

use std::io;
use std::sync::atomic::Ordering;

use super::capture::{Capture, BLOCKS};
use super::frame::{self, Answer};
use super::Shared;
use crate::counts::{add, Counts};
use crate::record::{Outbox, Record};
use crate::targets::Address;

/// Receives answers until the scan is over.
pub fn listen(
    shared: &Shared,
    mut capture: Capture,
    counts: &Counts,
    mut outbox: Outbox,
) -> io::Result<()> {
    let mut left = BLOCKS;
    loop {
        let over = shared.over.load(Ordering::Relaxed);
        let heard = capture.next_block(|packet| {
            match frame::answer(packet, shared.port, &shared.cookies) {
                Some(answer) => hear(shared, counts, &mut outbox, answer),
                None => add(&counts.strangers, 1),
            }
        })?;
        add(&counts.calls, 1);
        if !heard {
            outbox.flush();
        }
        if over {
            // After the end the thread reads the ring's content once, however much unrelated traffic continues.
            left -= 1;
            if !heard || left == 0 {
                break;
            }
        }
    }
    outbox.flush();
    add(&counts.ring_losses, capture.lost()?);
    Ok(())
}

fn hear(shared: &Shared, counts: &Counts, outbox: &mut Outbox, answer: Answer) {
    let plan = shared.job.plan;
    // A link-local address is asked on an interface, which the packet does not name; each address is asked on one interface
    // only.
    let scopes = plan.targets.ranges().iter().map(|range| range.scope);
    let index = [0]
        .into_iter()
        .chain(scopes.filter(|&scope| scope != 0))
        .find_map(|scope| {
            let address = Address {
                ip: answer.of,
                scope,
            };
            plan.index(address, answer.port)
        });
    match index {
        Some(index) if shared.take(index) => {
            let record = Record::new(index, answer.state, answer.reason);
            shared.tell(outbox, counts, record);
        }
        Some(_) => {}
        None => add(&counts.strangers, 1),
    }
}
