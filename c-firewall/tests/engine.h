// SPDX-License-Identifier: GPL-2.0-or-later
// Random policies and packets with few different values, so that packets often match rules; and
// compilation of policies with their state. The Rust twin's tests/unit/support/engine.rs generates
// the same policies and packets from the same random numbers.
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

/// Returns the index of an interface of the tests: 1 for lo, 2 to 5 for eth0 to eth3, otherwise 0.
uint32_t engine_interface_index(const char *name, void *context);

/// Compiles a policy's text. Returns the result of parse_text or compile_policy.
/// - linear, must_exist: linear and interfaces_must_exist of struct compile_settings.
int engine_compile(struct engine *engine, const char *text, bool linear, bool must_exist,
                   struct failure *failure);

/// Compiles a policy's text. The test fails if the text is not valid; missing interfaces are
/// allowed.
/// - linear: linear of struct compile_settings.
struct engine engine_make(const char *text, bool linear);
void engine_free(struct engine *engine);

/// Returns the packets and bytes of a counter.
struct flow_counter engine_counter(const struct engine *engine, uint32_t counter);

/// Returns the metadata of a packet on the hook input, with all optional fields absent.
struct decide_input engine_input(const struct packet *packet, enum packet_status status);

/// Returns an interface name as a value of the type ifname.
policy_value engine_ifname(const char *name);

/// Generates a policy with one table inet: base chains c0 and late of the hook input, and chains
/// that c0 may jump to. Verdict maps jump to c3, which has no jumps.
void engine_policy_text(struct random *random, char text[static ENGINE_TEXT_BYTES]);

/// Generates a random packet: IPv4 or IPv6 with TCP, UDP or ICMP. Its addresses and ports are in
/// the ranges that engine_policy_text uses. Returns the packet's length.
uint32_t engine_packet_bytes(struct random *random, uint8_t bytes[static ENGINE_PACKET_BYTES]);

#endif
