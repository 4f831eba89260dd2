// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/direction.h"

/// Returns true if the interface of an end and an interface of a packet are known and differ.
static bool differs(uint32_t end, uint32_t source) {
    return end != source && end != CONNECTION_INTERFACE_UNKNOWN &&
           source != CONNECTION_INTERFACE_UNKNOWN;
}

void direction_bind(struct connection *connection, const struct connection_input *input) {
    connection->client_interface = input->source_interface;
    connection->server_interface = input->sink_interface;
}

void direction_bind_server(struct connection *connection, const struct connection_input *input) {
    if (connection->server_interface == CONNECTION_INTERFACE_UNKNOWN)
        connection->server_interface = input->source_interface;
}

bool direction_is_foreign(const struct connection *connection, bool is_low,
                          const struct connection_input *input) {
    const bool is_clients = is_low == connection->client_low;

    return differs(is_clients ? connection->client_interface : connection->server_interface,
                   input->source_interface);
}

void direction_bind_pending(struct connection *connection, const struct connection_input *input) {
    connection->pending_client_interface = input->source_interface;
    connection->pending_server_interface = input->sink_interface;
}

bool direction_answers(uint32_t client, uint32_t server, const struct connection_input *input) {
    return !differs(server, input->source_interface) && !differs(client, input->sink_interface);
}

bool direction_answers_query(uint32_t client, uint32_t server,
                             const struct connection_input *input) {
    const bool is_told =
        server != CONNECTION_INTERFACE_UNKNOWN || client == CONNECTION_INTERFACE_HOST;

    return direction_answers(client, server, input) &&
           (is_told || client != input->source_interface);
}

bool direction_answers_pending(const struct connection *connection,
                               const struct connection_input *input) {
    return direction_answers(connection->pending_client_interface,
                             connection->pending_server_interface, input);
}

void direction_confirm_pending(struct connection *connection,
                               const struct connection_input *input) {
    connection->client_interface = connection->pending_client_interface;
    connection->server_interface = connection->pending_server_interface;
    direction_bind_server(connection, input);
}
