// SPDX-License-Identifier: GPL-2.0-or-later
// Connections in the form in which an upgrade hands them over.
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "connection/types.h"

/// Returns a worker's connections in the form in which an upgrade hands them over. The caller frees
/// the bytes.
/// - room: number of bytes that may be written.
/// - length: out: number of bytes in the result.
uint8_t *connections_written(struct connections *connections, uint64_t room, uint64_t now_ns,
                             size_t *length);

#endif
