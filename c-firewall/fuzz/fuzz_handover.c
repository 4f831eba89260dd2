// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of the data that an old firewall sends in an upgrade. Input: a byte that selects the kind
// of data, then the data: a line of state, or the memory of rules, of states, of connections or of
// learned addresses. Before the memory of states, five bytes say how many values it has.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection/follow.h"
#include "connection/lifetime.h"
#include "engine/compile.h"
#include "engine/learned.h"
#include "handover/connections.h"
#include "handover/counted.h"
#include "handover/handover.h"
#include "handover/learned.h"
#include "handover/rules.h"
#include "handover/state.h"
#include "policy/parse/parse.h"

enum {
    LINE,
    RULES,
    STATES,
    CONNECTIONS,
    LEARNED,
    SHAPE_BYTES = 5,
    PLACES_MAX = 4,
    LIMIT_SIZE = 1000,
    TABLE = 16, // maximum number of connections in a table
    STREAM_BYTES = 16384,
    ADDRESSES = 64,
};

#define NOW_NS UINT64_C(1000000000000)

static void must(int condition) {
    if (!condition)
        abort();
}

/// Checks that each accepted line of state can be printed, and that the printed line is accepted.
static void fuzz_line(const uint8_t *data, size_t size) {
    char *line = strndup((const char *)data, size), *printed;
    struct handover told, again;
    struct failure failure;

    handover_init(&told);
    handover_init(&again);
    if (handover_state_parse(line, &told, &failure) == 0) {
        printed = handover_state_print(&told);
        must(handover_state_parse(printed, &again, &failure) == 0);
        must(told.queue_count == again.queue_count && told.pid == again.pid);
        free(printed);
    } else {
        must(!strchr(failure.text, '\n'));
    }
    handover_free(&told);
    handover_free(&again);
    free(line);
}

/// Checks the accepted memory of rules: the totals are the sums over all rules, the sizes of the
/// limits' buckets are valid, and all rules are paired if the rules are paired with themselves.
static void fuzz_rules(const uint8_t *data, size_t size) {
    uint32_t totals[MIGRATION_KIND_COUNT] = {0};
    struct migration_side side;
    struct migration carry;

    if (handover_rules_parse(data, size, &side) < 0) {
        must(!side.rules);
        return;
    }
    for (uint32_t i = 0; i < side.rule_count; i++)
        for (int kind = 0; kind < MIGRATION_KIND_COUNT; kind++)
            totals[kind] += side.rules[i].count[kind];
    must(memcmp(totals, side.totals, sizeof totals) == 0);
    for (uint32_t i = 0; i < totals[MIGRATION_LIMITS]; i++)
        must(side.limit_sizes[i] > 0 && side.limit_sizes[i] <= FLOW_LIMIT_SIZE_MAX);
    must(migration_pair(&carry, &side, &side) == 0);
    must(carry.kept == side.rule_count && carry.added == 0 && carry.removed == 0);
    migration_free(&carry);
    migration_side_free(&side);
}

static void make_places(struct handover_places *places, uint32_t count) {
    places->of = calloc(count + 1U, sizeof *places->of);
    places->count = count;
    for (uint32_t i = 0; i < count; i++)
        places->of[i] = i % 2 ? i : HANDOVER_UNKNOWN;
}

/// Checks that the accepted states of limits and quotas lie within their bounds.
static void fuzz_states(const uint8_t *data, size_t size) {
    struct handover taken;
    uint8_t *bytes;
    uint64_t room;

    if (size < SHAPE_BYTES)
        return;
    handover_init(&taken);
    make_places(&taken.count_places, data[0] % PLACES_MAX);
    make_places(&taken.stat_places, data[1] % PLACES_MAX);
    taken.queue_count = 1U + data[2] % 2;
    taken.queues = aligned_alloc(STATS_ALIGN, taken.queue_count * sizeof *taken.queues);
    memset(taken.queues, 0xff, taken.queue_count * sizeof *taken.queues);
    taken.side.totals[MIGRATION_LIMITS] = data[3] % PLACES_MAX;
    taken.side.totals[MIGRATION_QUOTAS] = data[4] % PLACES_MAX;
    taken.side.limit_sizes = calloc(PLACES_MAX, sizeof *taken.side.limit_sizes);
    for (int i = 0; i < PLACES_MAX; i++)
        taken.side.limit_sizes[i] = LIMIT_SIZE;
    room = handover_counted_states_bytes(&taken);
    bytes = calloc(1, room);
    memcpy(bytes, data + SHAPE_BYTES, size - SHAPE_BYTES < room ? size - SHAPE_BYTES : room);
    must(handover_counted_make_states(&taken) == 0);
    if (!handover_counted_parse_states(bytes, &taken)) {
        for (uint32_t i = 0; i < taken.side.totals[MIGRATION_LIMITS]; i++)
            must(taken.states.tokens[i] >= 0 && taken.states.tokens[i] <= LIMIT_SIZE);
        for (uint32_t i = 0; i < taken.side.totals[MIGRATION_QUOTAS]; i++)
            must(taken.states.used[i] <= INT64_MAX);
    }
    free(bytes);
    handover_free(&taken);
}

/// Parses the connections of a hand-over into an empty table, and writes the table. Returns the
/// written bytes, which the caller frees; NULL if the parser refuses `bytes`, which leaves the
/// table empty.
/// - length: in/out: length of `bytes`; then of the written bytes.
static uint8_t *again(struct connections *connections, const uint8_t *bytes, size_t *length) {
    static struct handover_memory memory;
    struct handover_connections_taken followed;
    struct handover_sealed sealed;
    uint8_t *written = NULL;

    lifetime_forget_all(connections);
    if (handover_connections_parse(bytes, *length, connections, NOW_NS, &followed)) {
        must(connection_count(connections) == 0);
        return NULL;
    }
    must(connection_count(connections) == followed.taken);
    must(handover_memory_make(&memory) == 0);
    must(handover_connections_write(&memory, connections, UINT64_MAX, NOW_NS) == 0);
    must(handover_memory_seal(&memory) == 0);
    must(handover_sealed_open(&sealed, dup(memory.fd), UINT64_MAX) == 0);
    must(handover_sealed_read(&sealed, &written) == 0);
    *length = sealed.size;
    handover_sealed_close(&sealed);
    handover_memory_close(&memory);
    return written;
}

/// Checks that accepted connections are written as bytes that stay the same if they are parsed and
/// written again.
static void fuzz_connections(const uint8_t *data, size_t size) {
    static const struct connection_settings settings = {TABLE, STREAM_BYTES, UINT64_C(10000000000),
                                                        8192};
    static struct connections connections;
    static bool made = false;
    uint8_t *first, *second;
    size_t length = size, length_again;

    if (!made)
        must(connection_make(&connections, &settings) == 0);
    made = true;
    first = again(&connections, data, &length);
    if (!first)
        return;
    length_again = length;
    second = again(&connections, first, &length_again);
    must(second && length == length_again && memcmp(first, second, length) == 0);
    free(first);
    free(second);
}

static uint32_t no_interface(const char *name, void *context) {
    (void)name;
    (void)context;
    return 0;
}

/// Compiles the policy that the test vectors of learned addresses need, with empty learning sets.
static struct compiled *make_learning(void) {
    static const char text[] = "table inet t {\n"
                               "\tset cdn { type ipv4_addr; learn dns \"a.example\"; }\n"
                               "\tset cdn6 { type ipv6_addr; learn dns \"a.example\"; }\n"
                               "}\n";
    const struct compile_settings settings = {.interface_index = no_interface};
    struct compiled *compiled;
    struct failure failure;
    struct policy policy;

    must(parse_text("t", (const uint8_t *)text, strlen(text), &policy, &failure) == 0);
    must(compile_policy(&policy, &settings, &compiled, &failure) == 0);
    policy_free(&policy);
    compiled->learned = learned_make(ADDRESSES);
    must(compiled->learned != NULL);
    return compiled;
}

/// Checks that accepted learned addresses are stored, and that they are accepted again after they
/// are written.
static void fuzz_learned(const uint8_t *data, size_t size) {
    static struct compiled *compiled;
    static struct handover_memory memory;
    struct handover_learned_taken taken, second;
    struct handover_sealed sealed;
    uint8_t *written = NULL;

    if (!compiled)
        compiled = make_learning();
    learned_forget_all(compiled->learned);
    if (handover_learned_parse(data, size, compiled, NOW_NS, &taken)) {
        must(learned_count(compiled->learned, NOW_NS) == 0);
        return;
    }
    must(learned_count(compiled->learned, NOW_NS) == taken.taken);
    must(handover_memory_make(&memory) == 0);
    must(handover_learned_write(&memory, compiled, NOW_NS) == 0);
    must(handover_memory_seal(&memory) == 0);
    must(handover_sealed_open(&sealed, dup(memory.fd), UINT64_MAX) == 0);
    must(handover_sealed_read(&sealed, &written) == 0);
    learned_forget_all(compiled->learned);
    must(!handover_learned_parse(written, sealed.size, compiled, NOW_NS, &second));
    must(second.taken == taken.taken && second.left_out == 0 && second.other == 0);
    handover_sealed_close(&sealed);
    handover_memory_close(&memory);
    free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    switch (data[0]) {
    case LINE:
        fuzz_line(data + 1, size - 1);
        break;
    case RULES:
        fuzz_rules(data + 1, size - 1);
        break;
    case STATES:
        fuzz_states(data + 1, size - 1);
        break;
    case CONNECTIONS:
        fuzz_connections(data + 1, size - 1);
        break;
    case LEARNED:
        fuzz_learned(data + 1, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
