// SPDX-License-Identifier: GPL-2.0-or-later
//! What is kept of connections, as it is told to who asks: a page after the other, each of which takes
//! little time whatever the table holds. A connection keeps its slot, so one that stays is told of once.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Connection, ConnectionKey, Connections, KEY_WORDS, SLOT_NONE};
use crate::names::{Names, NamesProtocol, NamesState, HOST_BYTES};

/// Slots that are looked at for a page.
pub const LOOKED_MAX: u32 = 256;
/// Connections of a page.
pub const LISTED_MAX: usize = 64;

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ListedState {
    /// Its client has not shown its names yet.
    #[default]
    Undecided,
    /// Its client has shown a name.
    Named,
    /// Its client has shown that it has no name.
    Missing,
    /// The policy has refused it, or its client claimed different bytes for one place.
    Denied,
    /// Its names can't be read, and never will.
    Unknown,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    pub key: ConnectionKey,
    pub is_udp: bool,
    /// The client is the lower one of both ends.
    pub client_low: bool,
    pub state: ListedState,
    /// Protocol of its client, as far as known.
    pub protocol: NamesProtocol,
    /// Bytes of `host`; 0 = it named none.
    pub host_length: u8,
    pub host: [u8; HOST_BYTES],
    /// Since it is followed.
    pub age_ns: u64,
}

/// A part of a table.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Asked: the slot to begin at.
    pub from: u32,
    /// Asked: connections that are undecided only.
    pub undecided: bool,
    /// Slot of the next page; SLOT_NONE = end.
    pub next: u32,
    pub count: u32,
    pub listed: [Listed; LISTED_MAX],
}

impl Default for Listed {
    fn default() -> Self {
        Listed {
            key: [0; KEY_WORDS],
            is_udp: false,
            client_low: false,
            state: ListedState::Undecided,
            protocol: NamesProtocol::Other,
            host_length: 0,
            host: [0; HOST_BYTES],
            age_ns: 0,
        }
    }
}

impl Default for Page {
    fn default() -> Self {
        Page {
            from: 0,
            undecided: false,
            next: SLOT_NONE,
            count: 0,
            listed: [Listed::default(); LISTED_MAX],
        }
    }
}

/// State of a connection under the policy of a generation.
fn state_of(connection: &Connection, generation: u64) -> ListedState {
    if connection.evasion || connection.denied == generation && generation != 0 {
        return ListedState::Denied;
    }
    match connection.names.state {
        NamesState::Known if connection.names.host_length > 0 => ListedState::Named,
        NamesState::Known => ListedState::Missing,
        NamesState::Unreadable => ListedState::Unknown,
        _ => ListedState::Undecided,
    }
}

/// Fills a page in as it was asked for. generation: of the policy.
pub fn fill(connections: &Connections, generation: u64, now_ns: u64, page: &mut Page) {
    let slots = &connections.table.slots;
    let end = (page.from.saturating_add(LOOKED_MAX) as usize).min(slots.len()) as u32;
    let none = Names::default();
    let mut slot = page.from;
    page.count = 0;
    while slot < end && (page.count as usize) < LISTED_MAX {
        let connection = slots.get(slot as usize);
        slot += 1;
        // A slot that is free has no protocol.
        let Some(connection) = connection.filter(|connection| connection.key != [0; KEY_WORDS])
        else {
            continue;
        };
        let state = state_of(connection, generation);
        if page.undecided && state != ListedState::Undecided {
            continue;
        }
        // Incomplete names are not listed.
        let names = match connection.names.state {
            NamesState::Known => &connection.names,
            _ => &none,
        };
        if let Some(listed) = page.listed.get_mut(page.count as usize) {
            *listed = Listed {
                key: connection.key,
                is_udp: connection.is_udp,
                client_low: connection.client_low,
                state,
                protocol: names.protocol,
                host_length: names.host_length,
                host: names.host,
                age_ns: now_ns.saturating_sub(connection.opened_ns),
            };
            page.count += 1;
        }
    }
    page.next = match (slot as usize) < slots.len() {
        true => slot,
        false => SLOT_NONE,
    };
}
