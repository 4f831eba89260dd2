// SPDX-License-Identifier: GPL-2.0-or-later
//! Lists connections in pages. The time for a page is limited, whatever the size of the table. A connection keeps its
//! slot, so a connection that stays is listed once.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Connection, ConnectionKey, Connections, KEY_WORDS, SLOT_NONE};
use crate::names::{Names, NamesProtocol, NamesState, HOST_BYTES};

/// Maximum number of slots of the connection table that are searched for one page of the listing.
pub const LOOKED_MAX: u32 = 256;
/// Maximum number of connections on a page of the listing.
pub const LISTED_MAX: usize = 64;

/// State of a listed connection: the client's name is not sent yet, sent, missing or unreadable, or the connection is
/// denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ListedState {
    /// Undecided: the client has not sent its names yet.
    #[default]
    Undecided,
    /// The client has sent a name.
    Named,
    /// The client sends no name.
    Missing,
    /// The policy refused the connection, or its client sent different bytes for the same position of its stream, or
    /// different names in a second ClientHello.
    Denied,
    /// The connection's names are unreadable for good.
    Unknown,
}

/// A listed connection.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    pub key: ConnectionKey,
    pub is_udp: bool,
    /// True if the client is the lower end (by address and port).
    pub client_low: bool,
    pub state: ListedState,
    /// Protocol in which the client sends names; `Other` also if the names are not known.
    pub protocol: NamesProtocol,
    /// Length of `host` in bytes; 0 = the connection has no host name.
    pub host_length: u8,
    pub host: [u8; HOST_BYTES],
    /// Time since the connection was first followed; for a connection from before an upgrade, since its last use or
    /// change of list in the old firewall.
    pub age_ns: u64,
}

/// A page of the listing of connections: the request (`from` and `undecided`) and the result.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Request: slot of the connection table at which the search begins.
    pub from: u32,
    /// Request: list only undecided connections.
    pub undecided: bool,
    /// Slot at which the search for the next page begins; SLOT_NONE means that this is the last page.
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

/// Returns the state of a connection for the policy of a generation.
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

/// Fills a page with connections, as the page requests.
/// - generation: generation of the current policy; a connection that an earlier policy refused does not count as
///   denied.
/// - page: in: the request; out: all other fields.
pub fn fill(connections: &Connections, generation: u64, now_ns: u64, page: &mut Page) {
    let slots = &connections.table.slots;
    let end = (page.from.saturating_add(LOOKED_MAX) as usize).min(slots.len()) as u32;
    let none = Names::default();
    let mut slot = page.from;
    page.count = 0;
    while slot < end && (page.count as usize) < LISTED_MAX {
        let connection = slots.get(slot as usize);
        slot += 1;
        // In a free slot the key is 0: it has no protocol.
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
