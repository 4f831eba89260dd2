// SPDX-License-Identifier: GPL-2.0-or-later
// Connections as an upgrade hands them over.
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "connection/types.h"

/// The written state of a worker's connections, to be freed.
/// - room: bytes that may be written.
/// - length: of it.
uint8_t *connections_written(struct connections *connections, uint64_t room, uint64_t now_ns,
                             size_t *length);

#endif
