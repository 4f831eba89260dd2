// SPDX-License-Identifier: GPL-2.0-or-later
// The options of a header of TCP (RFC 9293, section 3.1).
#ifndef CONNECTION_OPTION_H
#define CONNECTION_OPTION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OPTION_MULTIPATH = 30, // Multipath TCP (RFC 8684)
};

/// Whether options have one of a kind. An option whose length is wrong ends them, as to Linux
/// (tcp_parse_options).
/// - options: what stands behind the first 20 bytes of a header.
bool option_has(const uint8_t *options, uint32_t length, uint8_t kind);

#endif
