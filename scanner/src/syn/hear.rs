// SPDX-License-Identifier: GPL-2.0-or-later
//! The thread that listens.

use std::io;
use std::sync::atomic::Ordering;

use super::capture::{Capture, BLOCKS};
use super::frame::{self, Answer};
use super::Shared;
use crate::counts::{add, Counts};
use crate::record::{Outbox, Record};
use crate::targets::Address;

/// Hears answers until it is over.
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
            // What was in the ring when it was over has been heard then, however much strangers go on sending.
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
    // A link-local address is asked on an interface, which the packet does not name: there is one of each address.
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
