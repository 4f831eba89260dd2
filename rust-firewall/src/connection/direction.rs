// SPDX-License-Identifier: GPL-2.0-or-later
//! The interface that each end of a connection is bound to: a packet that claims to come from an end and came in elsewhere is not the
//! end's, however well its addresses fit.
#![deny(clippy::indexing_slicing)]

use crate::connection::types::{Connection, ConnectionInput, INTERFACE_UNKNOWN};

/// Whether a packet from a source interface can not be that of an end, bound as it is.
fn differs(end: u32, source: u32) -> bool {
    end != source && end != INTERFACE_UNKNOWN && source != INTERFACE_UNKNOWN
}

/// Binds both ends of a connection by its client's first packet.
pub fn bind(connection: &mut Connection, input: &ConnectionInput) {
    connection.client_interface = input.source_interface;
    connection.server_interface = input.sink_interface;
}

/// Binds the server of a connection by a packet of its own, if the client's first one did not tell where it went.
pub fn bind_server(connection: &mut Connection, input: &ConnectionInput) {
    if connection.server_interface == INTERFACE_UNKNOWN {
        connection.server_interface = input.source_interface;
    }
}

/// Whether a packet comes from another interface than the end is bound to that it claims to come from.
/// - is_low: it claims to come from the lower one of both ends.
pub fn is_foreign(connection: &Connection, is_low: bool, input: &ConnectionInput) -> bool {
    let end = match is_low == connection.client_low {
        true => connection.client_interface,
        false => connection.server_interface,
    };
    differs(end, input.source_interface)
}

/// Notes the interfaces of a SYN that the server has not answered.
pub fn bind_pending(connection: &mut Connection, input: &ConnectionInput) {
    connection.pending_client_interface = input.source_interface;
    connection.pending_server_interface = input.sink_interface;
}

/// Whether a packet comes from the interface that another one went to, and goes back where that came from.
/// - client, server: where the other one came from and went to.
pub fn answers(client: u32, server: u32, input: &ConnectionInput) -> bool {
    !differs(server, input.source_interface) && !differs(client, input.sink_interface)
}

/// Whether a packet may answer the SYN that is pending.
pub fn answers_pending(connection: &Connection, input: &ConnectionInput) -> bool {
    let client = connection.pending_client_interface;
    answers(client, connection.pending_server_interface, input)
}

/// Binds both ends by the SYN that was pending, now that the server has answered it.
pub fn take_pending(connection: &mut Connection, input: &ConnectionInput) {
    connection.client_interface = connection.pending_client_interface;
    connection.server_interface = connection.pending_server_interface;
    bind_server(connection, input);
}
