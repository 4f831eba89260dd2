// SPDX-License-Identifier: GPL-2.0-or-later
// Options of a TCP header (RFC 9293, section 3.1).
#ifndef CONNECTION_OPTION_H
#define CONNECTION_OPTION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OPTION_MULTIPATH = 30, // kind of the option Multipath TCP (RFC 8684)
};

/// Returns true if the options contain an option of the given kind. An option with an invalid
/// length ends the list, as in Linux (tcp_parse_options).
/// - options: the bytes after the first 20 bytes of a header.
bool option_has(const uint8_t *options, uint32_t length, uint8_t kind);

#endif
