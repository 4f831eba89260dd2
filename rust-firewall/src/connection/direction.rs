// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces that the ends of a connection are bound to: a packet with an end's address that came in by another
//! interface does not come from that end.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Connection, ConnectionInput, INTERFACE_HOST, INTERFACE_UNKNOWN};

/// Returns true if the interface of an end and an interface of a packet are known and differ.
fn differs(end: u32, source: u32) -> bool {
    end != source && end != INTERFACE_UNKNOWN && source != INTERFACE_UNKNOWN
}

/// Binds both ends of a connection to the interfaces of its client's first packet.
pub fn bind(connection: &mut Connection, input: &ConnectionInput) {
    connection.client_interface = input.source_interface;
    connection.server_interface = input.sink_interface;
}

/// Binds the server to the source interface of a packet from the server, if the server's interface is still unknown.
pub fn bind_server(connection: &mut Connection, input: &ConnectionInput) {
    if connection.server_interface == INTERFACE_UNKNOWN {
        connection.server_interface = input.source_interface;
    }
}

/// Returns true if a packet comes from another interface than its sender is bound to.
/// - is_low: true if the packet claims to come from the lower end (by address and port).
pub fn is_foreign(connection: &Connection, is_low: bool, input: &ConnectionInput) -> bool {
    let end = match is_low == connection.client_low {
        true => connection.client_interface,
        false => connection.server_interface,
    };
    differs(end, input.source_interface)
}

/// Stores the interfaces of a SYN that the server has not answered.
pub fn bind_pending(connection: &mut Connection, input: &ConnectionInput) {
    connection.pending_client_interface = input.source_interface;
    connection.pending_server_interface = input.sink_interface;
}

/// Returns true if a packet's interfaces are those of another packet in reverse. An unknown interface counts as equal.
/// - client, server: source and sink interface of the other packet.
pub fn answers(client: u32, server: u32, input: &ConnectionInput) -> bool {
    !differs(server, input.source_interface) && !differs(client, input.sink_interface)
}

/// Returns true if a packet's interfaces are those of a query in reverse (see `answers`). If the query's sink interface
/// is unknown, the packet's source interface must differ from the query's, unless this host sent the query.
/// - client, server: source and sink interface of the query.
pub fn answers_query(client: u32, server: u32, input: &ConnectionInput) -> bool {
    let is_told = server != INTERFACE_UNKNOWN || client == INTERFACE_HOST;
    answers(client, server, input) && (is_told || client != input.source_interface)
}

/// Returns true if a packet's interfaces are those of the pending SYN in reverse (see `answers`).
pub fn answers_pending(connection: &Connection, input: &ConnectionInput) -> bool {
    let client = connection.pending_client_interface;
    answers(client, connection.pending_server_interface, input)
}

/// Binds both ends to the interfaces of the pending SYN, which the server has answered.
/// - input: metadata of the server's answer.
pub fn confirm_pending(connection: &mut Connection, input: &ConnectionInput) {
    connection.client_interface = connection.pending_client_interface;
    connection.server_interface = connection.pending_server_interface;
    bind_server(connection, input);
}
