// SPDX-License-Identifier: GPL-2.0-or-later
#include "connections.h"

#include <unistd.h>

#include "handover/connections.h"
#include "test.h"

uint8_t *connections_written(struct connections *connections, uint64_t room, uint64_t now_ns,
                             size_t *length) {
    static struct handover_memory memory;
    struct handover_sealed sealed;
    uint8_t *bytes;

    assert_int_equal(handover_memory_make(&memory), 0);
    assert_int_equal(handover_connections_write(&memory, connections, room, now_ns), 0);
    assert_int_equal(handover_memory_seal(&memory), 0);
    assert_int_equal(handover_sealed_open(&sealed, dup(memory.fd), UINT64_MAX), 0);
    assert_int_equal(handover_sealed_read(&sealed, &bytes), 0);
    *length = sealed.size;
    handover_sealed_close(&sealed);
    handover_memory_close(&memory);
    return bytes;
}
