// SPDX-License-Identifier: GPL-2.0-or-later
// Random policies and packets over few values, so that they meet, and whole policies compiled with
// what they need. The Rust twin's tests/engine makes the same of the same numbers.
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/compile.h"
#include "engine/decide.h"
#include "engine/flow.h"
#include "random.h"

enum {
    ENGINE_TEXT_BYTES = 64 << 10,
    ENGINE_PACKET_BYTES = 64,
};

/// A compiled policy with its state.
struct engine {
    struct compiled *compiled;
    struct flow flow;
    struct flow_counters counters;
};

/// Interfaces of the tests: eth0 has index 2, eth1 3 and so on up to eth3; lo has 1.
uint32_t engine_interface_index(const char *name, void *context);

/// Compiles a text. Returns what parse_text or compile_policy did.
int engine_compile(struct engine *engine, const char *text, bool linear, bool must_exist,
                   struct failure *failure);

/// Compiles a text that is right.
struct engine engine_make(const char *text, bool linear);
void engine_free(struct engine *engine);

/// Packets and bytes of a counter.
struct flow_counter engine_counter(const struct engine *engine, uint32_t counter);

/// Metadata of a packet on the hook input, all else absent.
struct decide_input engine_input(const struct packet *packet, enum packet_status status);

/// An interface name as a value.
policy_value engine_ifname(const char *name);

/// A policy of one table inet: base chains c0 and late of the hook input, and chains that they may
/// jump to. vmaps jump to c3, which has none.
void engine_policy_text(struct random *random, char text[static ENGINE_TEXT_BYTES]);

/// A random packet of the same values: IPv4 or IPv6 with TCP, UDP or ICMP. Returns its bytes.
uint32_t engine_packet_bytes(struct random *random, uint8_t bytes[static ENGINE_PACKET_BYTES]);

#endif
