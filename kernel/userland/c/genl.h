// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Generic netlink exchanges, done by one library each: genl_raw.c, genl_mnl.c, genl_nl.c. All
/// functions end the program if the kernel or the library fails; what is read is checked for being
/// the answer, and no more.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Opens a socket and binds it.
void genl_open(void);
void genl_close(void);
/// Asks nlctrl for a family: its number.
uint16_t genl_family(const char *name);
/// Sends bytes to the lab's family and reads them back.
void genl_echo(uint16_t family, const uint8_t *bytes, size_t length);
/// Asks for so many parts and reads them all: how many came.
size_t genl_dump(uint16_t family, uint32_t parts);
/// Asks for so many parts, more than one receive gives, and receives once.
void genl_dump_begin(uint16_t family, uint32_t parts);
/// Reads on in a dump that was interrupted: to its end, or to where the library tells of that. A
/// library that tells at all must have told by then.
void genl_dump_rest(void);
/// Sends an echo without its attribute. Reads the refusal with its extended ACK: which attribute
/// was missing.
uint32_t genl_refused(uint16_t family);
