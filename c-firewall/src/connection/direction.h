// SPDX-License-Identifier: GPL-2.0-or-later
// The interface that each end of a connection is bound to: a packet that claims to come from an end
// and came in elsewhere is not the end's, however well its addresses fit.
#ifndef CONNECTION_DIRECTION_H
#define CONNECTION_DIRECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "connection/types.h"

/// Binds both ends of a connection by its client's first packet.
void direction_bind(struct connection *connection, const struct connection_input *input);

/// Binds the server of a connection by a packet of its own, if the client's first one did not tell
/// where it went.
void direction_bind_server(struct connection *connection, const struct connection_input *input);

/// Whether a packet comes from another interface than the end is bound to that it claims to come
/// from.
/// - is_low: it claims to come from the lower one of both ends.
bool direction_is_foreign(const struct connection *connection, bool is_low,
                          const struct connection_input *input);

/// Notes the interfaces of a SYN that the server has not answered.
void direction_bind_pending(struct connection *connection, const struct connection_input *input);

/// Whether a packet comes from the interface that another one went to, and goes back where that
/// came from.
/// - client, server: where the other one came from and went to.
bool direction_answers(uint32_t client, uint32_t server, const struct connection_input *input);

/// Whether a packet may answer the SYN that is pending.
bool direction_answers_pending(const struct connection *connection,
                               const struct connection_input *input);

/// Binds both ends by the SYN that was pending, now that the server has answered it.
void direction_take_pending(struct connection *connection, const struct connection_input *input);

#endif
