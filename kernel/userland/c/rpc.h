// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Transports with a message format of their own: D-Bus and Thrift. Each is a file (rpc_*), which
/// defines `rpc`. A child serves, the parent calls, as in ipc.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "exchange.h"
#include "service.h"

/// Maximum bytes of a packet that the client sends for a verdict.
#define RPC_PACKET_MOST 65536

struct rpc {
    /// Prepares the transport. Called in the parent, before the child is started.
    void (*open)(void);
    /// Called in the child: answers until it is killed. Calls rpc_ready() once it accepts requests.
    void (*serve)(void);
    /// Connects the client to the server. Called in the parent, once the child accepts requests.
    void (*connect)(void);
    /// Ends a daemon or removes a file of the transport. Called in the parent, after the child has
    /// ended; may be NULL.
    void (*close)(void);
    struct service_client client;
    struct service_verdict (*verdict)(const uint8_t *packet, size_t length);
};

extern const struct rpc rpc;

void rpc_ready(void);

#ifdef __cplusplus
}
#endif
