// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/pool.h"

#include <errno.h>
#include <stdlib.h>

int connection_pool_make(struct connection_pool *pool, uint64_t bytes) {
    const uint64_t wanted = bytes / CONNECTION_BLOCK_BYTES;
    const uint32_t count =
        wanted < CONNECTION_BLOCK_NONE ? (uint32_t)wanted : CONNECTION_BLOCK_NONE;

    *pool = (struct connection_pool){
        .bytes = calloc(count ? count : 1, CONNECTION_BLOCK_BYTES),
        .links = calloc(count ? count : 1, sizeof *pool->links),
        .count = count,
        .free = CONNECTION_BLOCK_NONE,
    };
    if (pool->bytes && pool->links)
        return 0;
    connection_pool_free(pool);
    return -ENOMEM;
}

void connection_pool_free(struct connection_pool *pool) {
    free(pool->bytes);
    free(pool->links);
    *pool = (struct connection_pool){0};
}

uint32_t connection_pool_allocate(struct connection_pool *pool) {
    const uint32_t block = pool->free;

    if (block != CONNECTION_BLOCK_NONE) {
        pool->free = pool->links[block];
        return block;
    }
    if (pool->used >= pool->count)
        return CONNECTION_BLOCK_NONE;
    return pool->used++;
}

void connection_pool_give(struct connection_pool *pool, uint32_t block) {
    pool->links[block] = pool->free;
    pool->free = block;
}

uint8_t *connection_pool_block(struct connection_pool *pool, uint32_t block) {
    return pool->bytes + (size_t)block * CONNECTION_BLOCK_BYTES;
}
