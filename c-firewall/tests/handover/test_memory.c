// SPDX-License-Identifier: GPL-2.0-or-later
// Tests the memory that an upgrade passes: its content, with the vectors that both twins share, and
// its seals.
#include "handover/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connection/follow.h"
#include "connections.h"
#include "engine.h"
#include "engine/learned.h"
#include "handover/connections.h"
#include "handover/counted.h"
#include "handover/handover.h"
#include "handover/learned.h"
#include "handover/rules.h"
#include "test.h"
#include "vectors.h"

enum {
    FOUND_BYTES = 128,
    MUCH = 200000, // number of bytes, larger than a single write
    LIMITS_MAX = 8,
    LEARNED_MAX = 8, // maximum number of learned addresses of all sets
    ROOMS = 128,     // approximate number of limits (rooms) with which connections are written
};

#define NOW_NS UINT64_C(1000000000000)

static const struct connection_settings settings = {16, 16384, UINT64_C(10000000000), 8192};

/// Returns the bytes of hexadecimal digits; the caller frees them.
static uint8_t *unhex(const char *hex, size_t *length) {
    uint8_t *bytes;

    *length = strlen(hex) / 2;
    bytes = malloc(*length + 1);
    for (size_t i = 0; i < *length; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};

        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    // The block has exactly this size, so that the sanitizer detects reads after its end.
    return realloc(bytes, *length > 0 ? *length : 1);
}

static void judge_rules(const char *hex, char found[static FOUND_BYTES]) {
    size_t length;
    uint8_t *bytes = unhex(hex, &length);
    struct migration_side side;

    if (handover_rules_parse(bytes, length, &side) < 0)
        snprintf(found, FOUND_BYTES, "refused");
    else
        snprintf(found, FOUND_BYTES, "%u %u %u %u %u", side.rule_count,
                 side.totals[MIGRATION_COUNTERS], side.totals[MIGRATION_LOGS],
                 side.totals[MIGRATION_LIMITS], side.totals[MIGRATION_QUOTAS]);
    migration_side_free(&side);
    free(bytes);
}

/// Parses the connections in a memory, and writes them again. Checks that writing changes nothing.
/// The caller frees the result.
/// - room: number of bytes that may be written.
/// - again: out: number of bytes in the result.
static uint8_t *written_in(const uint8_t *bytes, size_t length, uint64_t room, size_t *again) {
    struct handover_connections_taken followed;
    struct connections connections;
    uint8_t *written, *whole;
    size_t whole_length;

    assert_int_equal(connection_make(&connections, &settings), 0);
    assert_null(handover_connections_parse(bytes, length, &connections, NOW_NS, &followed));
    written = connections_written(&connections, room, NOW_NS, again);
    whole = connections_written(&connections, UINT64_MAX, NOW_NS, &whole_length);
    assert_int_equal(whole_length, length);
    assert_memory_equal(whole, bytes, length);
    free(whole);
    connection_free(&connections);
    return written;
}

/// Parses the connections in a memory, and writes them again with several limits of bytes, each
/// large enough for the records of forgotten connections. Checks that no result exceeds its limit,
/// and that a limit of `length` bytes gives the same bytes again.
static void check_rooms(const uint8_t *bytes, size_t length) {
    size_t least, again;
    uint8_t *written = written_in(bytes, length, 0, &least);

    for (size_t room = least; room < length; room += 1 + length / ROOMS) {
        free(written);
        written = written_in(bytes, length, room, &again);
        assert_true(again <= room);
    }
    free(written);
    written = written_in(bytes, length, length, &again);
    assert_int_equal(again, length);
    assert_memory_equal(written, bytes, length);
    free(written);
}

/// Parses the memory of connections, given in hexadecimal. Writes to `found` the name of the
/// invalid part; without an invalid part, writes the counts of connections that were taken and left
/// out, "same" if writing them again gives the same bytes, and index and tag of each record of a
/// forgotten connection.
static void judge_connections(const char *hex, char found[static FOUND_BYTES]) {
    struct handover_connections_taken followed;
    struct connections connections;
    size_t length, length_again;
    uint8_t *bytes = unhex(hex, &length), *again;
    const char *part;
    bool same;

    assert_int_equal(connection_make(&connections, &settings), 0);
    part = handover_connections_parse(bytes, length, &connections, NOW_NS, &followed);
    again = connections_written(&connections, UINT64_MAX, NOW_NS, &length_again);
    same = length == length_again && memcmp(bytes, again, length) == 0;
    if (part)
        snprintf(found, FOUND_BYTES, "%s", part);
    else
        snprintf(found, FOUND_BYTES, "%" PRIu64 " %" PRIu64 "%s", followed.taken, followed.left_out,
                 same ? " same" : "");
    if (!part)
        check_rooms(again, length_again);
    for (uint32_t place = 0; !part && place <= connections.table.mask; place++) {
        const struct connection_grave grave = connections.table.graves[place];
        const size_t at = strlen(found);

        if (grave.second != 0)
            snprintf(found + at, FOUND_BYTES - at, " %u:%08x", place, grave.tag);
    }
    for (int list = 0; part && list < CONNECTION_LIST_COUNT; list++)
        assert_int_equal(connections.table.lists[list].count, 0);
    connection_free(&connections);
    free(bytes);
    free(again);
}

/// Returns the learned addresses as an upgrade writes them; the caller frees them.
static uint8_t *learned_written(const struct compiled *compiled, size_t *length) {
    static struct handover_memory memory;
    struct handover_sealed sealed;
    uint8_t *bytes;

    assert_int_equal(handover_memory_make(&memory), 0);
    assert_int_equal(handover_learned_write(&memory, compiled, NOW_NS), 0);
    assert_int_equal(handover_memory_seal(&memory), 0);
    assert_int_equal(handover_sealed_open(&sealed, dup(memory.fd), UINT64_MAX), 0);
    assert_int_equal(handover_sealed_read(&sealed, &bytes), 0);
    *length = sealed.size;
    handover_sealed_close(&sealed);
    handover_memory_close(&memory);
    return bytes;
}

/// Parses the memory of learned addresses, given in hexadecimal. Writes to `found` the name of the
/// invalid part; without an invalid part, writes the counts of addresses that were taken, had no
/// room, and belong to unknown sets, and "same" if writing them again gives the same bytes.
static void judge_learned(const char *hex, char found[static FOUND_BYTES]) {
    static const char text[] = "table inet t {\n"
                               "\tset cdn { type ipv4_addr; learn dns \"a.example\"; }\n"
                               "\tset cdn6 { type ipv6_addr; learn dns \"a.example\"; }\n"
                               "}\n";
    struct engine engine = engine_make(text, false);
    struct handover_learned_taken taken;
    size_t length, length_again;
    uint8_t *bytes = unhex(hex, &length), *again;
    const char *part;
    bool same;

    engine.compiled->learned = learned_make(LEARNED_MAX);
    part = handover_learned_parse(bytes, length, engine.compiled, NOW_NS, &taken);
    again = learned_written(engine.compiled, &length_again);
    same = length == length_again && memcmp(bytes, again, length) == 0;
    if (part)
        snprintf(found, FOUND_BYTES, "%s", part);
    else
        snprintf(found, FOUND_BYTES, "%" PRIu64 " %" PRIu64 " %" PRIu64 "%s", taken.taken,
                 taken.left_out, taken.other, same ? " same" : "");
    assert_int_equal(learned_count(engine.compiled->learned, NOW_NS), part ? 0 : taken.taken);
    engine_free(&engine);
    free(bytes);
    free(again);
}

/// Makes the table from another process's numbers of counts to this process's numbers: all are
/// known, and equal in both processes.
static void make_places(struct handover_places *places, uint32_t count) {
    places->of = calloc(count + 1U, sizeof *places->of);
    places->count = count;
    for (uint32_t i = 0; i < count; i++)
        places->of[i] = i;
}

/// Makes a state with the given numbers of counts, counters, queues, limits and quotas.
/// - shape: numbers of counts, of counters of a queue, of queues, and of quotas.
/// - sizes: sizes of the limits, separated by commas; "-" = no limits.
static void make_taken(struct handover *taken, const unsigned int shape[4], const char *sizes) {
    char copy[FOUND_BYTES];
    const size_t queues = shape[2] * sizeof *taken->queues;

    handover_init(taken);
    make_places(&taken->count_places, shape[0]);
    make_places(&taken->stat_places, shape[1]);
    taken->queues = aligned_alloc(STATS_ALIGN, queues);
    memset(taken->queues, 0, queues);
    taken->queue_count = shape[2];
    for (uint32_t i = 0; i < shape[2]; i++)
        taken->queues[i].handover.fd = -1;
    taken->side.totals[MIGRATION_QUOTAS] = shape[3];
    taken->side.limit_sizes = calloc(LIMITS_MAX, sizeof *taken->side.limit_sizes);
    snprintf(copy, sizeof copy, "%s", sizes);
    for (char *at = strtok(copy, ",-"); at; at = strtok(NULL, ",-"))
        taken->side.limit_sizes[taken->side.totals[MIGRATION_LIMITS]++] = strtoll(at, NULL, 10);
}

static void judge_states(const char *line, char found[static FOUND_BYTES]) {
    struct handover taken;
    unsigned int shape[4];
    char sizes[FOUND_BYTES];
    int at = 0;
    uint64_t bytes, *words;
    const char *part;

    assert_int_equal(sscanf(line, "%u %u %u %127s %u:%n", &shape[0], &shape[1], &shape[2], sizes,
                            &shape[3], &at),
                     5);
    make_taken(&taken, shape, sizes);
    bytes = handover_counted_states_bytes(&taken);
    words = malloc(bytes);
    line += at;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++) {
        char *end;

        words[i] = strtoull(line, &end, 10);
        assert_ptr_not_equal(line, end);
        line = end;
    }
    assert_string_equal(line, "");
    assert_int_equal(handover_counted_make_states(&taken), 0);
    part = handover_counted_parse_states((const uint8_t *)words, &taken);
    snprintf(found, FOUND_BYTES, "%s", part ? part : "ok");
    free(words);
    handover_free(&taken);
}

static void memory_is_taken_as_the_vectors_say(void **state) {
    static const char rules[] = "rules ", states[] = "states ", expect[] = "expect ";
    static const char connections[] = "connections ", learned[] = "learned ";
    FILE *file = vectors_open("handover-memory.txt");
    char found[FOUND_BYTES] = "", *line = NULL;
    size_t room = 0;
    int vectors = 0;

    (void)state;
    while (getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, rules, sizeof rules - 1) == 0) {
            judge_rules(line + sizeof rules - 1, found);
        } else if (strncmp(line, states, sizeof states - 1) == 0) {
            judge_states(line + sizeof states - 1, found);
        } else if (strncmp(line, connections, sizeof connections - 1) == 0) {
            judge_connections(line + sizeof connections - 1, found);
        } else if (strncmp(line, learned, sizeof learned - 1) == 0) {
            judge_learned(line + sizeof learned - 1, found);
        } else if (strncmp(line, expect, sizeof expect - 1) == 0) {
            assert_string_equal(found, line + sizeof expect - 1);
            vectors++;
        }
    }
    assert_true(vectors > 30);
    free(line);
    fclose(file);
}

static void what_is_sealed_comes_over_and_stays(void **state) {
    struct handover_memory *memory = calloc(1, sizeof *memory);
    uint8_t *much = malloc(MUCH), *read;
    struct handover_sealed sealed;

    (void)state;
    memset(much, 7, MUCH);
    assert_int_equal(handover_memory_make(memory), 0);
    assert_int_equal(handover_memory_reserve(memory, MUCH + 8), 0);
    assert_int_equal(handover_memory_append(memory, much, MUCH), 0);
    assert_int_equal(handover_memory_append_number(memory, 0x0807060504030201), 0);
    assert_int_equal(handover_memory_seal(memory), 0);
    assert_int_equal(handover_sealed_open(&sealed, dup(memory->fd), MUCH + 8), 0);
    assert_int_equal(sealed.size, MUCH + 8);
    assert_int_equal(handover_sealed_read(&sealed, &read), 0);
    assert_memory_equal(read, much, MUCH);
    assert_memory_equal(read + MUCH, "\1\2\3\4\5\6\7\10", 8);
    assert_int_equal(pwrite(memory->fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(memory->fd, 0), -1);
    assert_int_equal(ftruncate(memory->fd, 2 * MUCH), -1);
    handover_sealed_close(&sealed);
    handover_memory_close(memory);
    free(memory);
    free(much);
    free(read);
}

static int refused(int fd) {
    struct handover_sealed sealed;
    const int result = handover_sealed_open(&sealed, fd, 8);

    handover_sealed_close(&sealed);
    return result;
}

static void what_is_not_sealed_or_too_large_is_refused(void **state) {
    struct handover_memory *memory = calloc(1, sizeof *memory);
    struct handover_sealed sealed;
    FILE *file = tmpfile();
    int ends[2];

    (void)state;
    assert_int_equal(handover_memory_make(memory), 0);
    assert_int_equal(handover_memory_append_number(memory, 1), 0);
    assert_int_equal(refused(dup(memory->fd)), -EPROTO);
    assert_int_equal(handover_memory_seal(memory), 0);
    assert_int_equal(refused(dup(memory->fd)), 0);
    assert_int_equal(handover_sealed_open(&sealed, dup(memory->fd), 7), -EPROTO);
    assert_int_equal(refused(dup(fileno(file))), -EPROTO);
    assert_int_equal(refused(open("/dev/zero", O_RDONLY)), -EPROTO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(refused(ends[0]), -EPROTO);
    close(ends[1]);
    fclose(file);
    handover_memory_close(memory);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_taken_as_the_vectors_say),
        cmocka_unit_test(what_is_sealed_comes_over_and_stays),
        cmocka_unit_test(what_is_not_sealed_or_too_large_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
