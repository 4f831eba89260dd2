// SPDX-License-Identifier: GPL-2.0-or-later
// Interfaces that the ends of a connection are bound to: a packet with an end's address that came
// in by another interface does not come from that end.
#ifndef CONNECTION_DIRECTION_H
#define CONNECTION_DIRECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// Binds both ends of a connection to the interfaces of its client's first packet.
void direction_bind(struct connection *connection, const struct connection_input *input);

/// Binds the server to the source interface of a packet from the server, if the server's interface
/// is still unknown.
void direction_bind_server(struct connection *connection, const struct connection_input *input);

/// Returns true if a packet comes from another interface than its sender is bound to.
/// - is_low: true if the packet claims to come from the lower end (by address and port).
bool direction_is_foreign(const struct connection *connection, bool is_low,
                          const struct connection_input *input);

/// Stores the interfaces of a SYN that the server has not answered.
void direction_bind_pending(struct connection *connection, const struct connection_input *input);

/// Returns true if a packet's interfaces are those of another packet in reverse. An unknown
/// interface counts as equal.
/// - client, server: source and sink interface of the other packet.
bool direction_answers(uint32_t client, uint32_t server, const struct connection_input *input);

/// Returns true if a packet's interfaces are those of a query in reverse (see direction_answers).
/// If the query's sink interface is unknown, the packet's source interface must differ from the
/// query's, unless this host sent the query.
/// - client, server: source and sink interface of the query.
bool direction_answers_query(uint32_t client, uint32_t server,
                             const struct connection_input *input);

/// Returns true if a packet's interfaces are those of the pending SYN in reverse (see
/// direction_answers).
bool direction_answers_pending(const struct connection *connection,
                               const struct connection_input *input);

/// Binds both ends to the interfaces of the pending SYN, which the server has answered.
/// - input: metadata of the server's answer.
void direction_confirm_pending(struct connection *connection, const struct connection_input *input);

#endif
