// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Ways that bring their own messages: D-Bus and Thrift, a file each (rpc_*), which defines `rpc`.
/// A child serves, the parent calls, as in ipc.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "exchange.h"
#include "service.h"

/// The most that an exchange has ready for a way: a packet of the largest size.
#define RPC_PACKET_MOST 65536

struct rpc {
    /// In the parent, before there is a child.
    void (*open)(void);
    /// In the child: answers until it is killed. Calls rpc_ready() when it can be asked.
    void (*serve)(void);
    /// In the parent, when the child can be asked.
    void (*connect)(void);
    /// In the parent, when the child has ended; may be NULL.
    void (*close)(void);
    struct service_client client;
    struct service_verdict (*verdict)(const uint8_t *packet, size_t length);
};

extern const struct rpc rpc;

void rpc_ready(void);

#ifdef __cplusplus
}
#endif
