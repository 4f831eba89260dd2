// SPDX-License-Identifier: GPL-2.0-or-later
// Memory for clients' bytes, in blocks of one size. It is allocated once; unused blocks are never
// touched.
#ifndef CONNECTION_POOL_H
#define CONNECTION_POOL_H

#include <stdint.h>

#include "connection/types.h"

/// Makes a pool of `bytes` bytes, rounded down to whole blocks. Returns 0, or -ENOMEM with nothing
/// to free.
int connection_pool_make(struct connection_pool *pool, uint64_t bytes);
void connection_pool_free(struct connection_pool *pool);

/// Allocates a block from the pool. Returns its index, or CONNECTION_BLOCK_NONE if no block is
/// free. Its content is arbitrary.
uint32_t connection_pool_allocate(struct connection_pool *pool);

/// Frees a block, so that the pool can allocate it again.
void connection_pool_give(struct connection_pool *pool, uint32_t block);

/// Returns the bytes of a block.
uint8_t *connection_pool_block(struct connection_pool *pool, uint32_t block);

#endif
