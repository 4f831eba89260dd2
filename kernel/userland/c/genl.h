// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Generic netlink exchanges, implemented by one library each: genl_raw.c, genl_mnl.c, genl_nl.c.
/// All functions end the program if the kernel or the library fails; they check only that a message
/// is the expected answer.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Opens a socket and binds it.
void genl_open(void);
void genl_close(void);
/// Queries nlctrl for a family; returns its number.
uint16_t genl_family(const char *name);
/// Sends bytes to the lab's family and reads them back.
void genl_echo(uint16_t family, const uint8_t *bytes, size_t length);
/// Requests a dump of `parts` parts and reads it; returns the number received.
size_t genl_dump(uint16_t family, uint32_t parts);
/// Requests a dump of more parts than one receive returns, and receives once.
void genl_dump_begin(uint16_t family, uint32_t parts);
/// Continues an interrupted dump, to its end or to the point where the library reports the
/// interruption. A library that reports interruptions must have reported it by then.
void genl_dump_rest(void);
/// Sends an echo without its attribute and reads the refusal; returns the missing attribute's type
/// from the extended ACK.
uint32_t genl_refused(uint16_t family);
