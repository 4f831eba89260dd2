// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Generic netlink requests, implemented without a library (genl_raw.c), by libmnl (genl_mnl.c) and
/// by libnl (genl_nl.c). All functions end the program if the kernel or the library fails; they
/// check only that a message is the expected answer.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Opens a generic netlink socket and binds it.
void genl_open(void);
void genl_close(void);
/// Queries nlctrl for a family; returns its number.
uint16_t genl_family(const char *name);
/// Sends bytes to the lab's family and receives its echo. Ends the program if the echo has another
/// length.
void genl_echo(uint16_t family, const uint8_t *bytes, size_t length);
/// Requests a dump of `parts` parts and reads it; returns the number received.
size_t genl_dump(uint16_t family, uint32_t parts);
/// Requests a dump of `parts` parts and receives once, so that the dump is unfinished. `parts` must
/// be more than one receive returns.
void genl_dump_begin(uint16_t family, uint32_t parts);
/// Continues an interrupted dump (its list has changed: NLM_F_DUMP_INTR), to its end or to the
/// point where the library reports the interruption. Ends the program if a library that can report
/// interruptions has not done so.
void genl_dump_rest(void);
/// Sends an echo request without its attribute, and reads the refusal. Returns the type of the
/// missing attribute from the extended ACK.
uint32_t genl_refused(uint16_t family);
