// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/state.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/object.h"
#include "control/request.h"
#include "spec/counter.h"

enum {
    // Maximum number of names of counts, or of a queue's counters, from another process.
    NAMES_MAX = 1024,
};

const char *handover_state_fd_name(enum handover_fd fd) {
    static const char *const names[] = {
        [HANDOVER_CONTROL] = "control",
        [HANDOVER_EVENTS] = "events",
    };

    return names[fd];
}

/// Returns the name of a counter of struct stats by its place.
static const char *stats_name(size_t place) { return counter_words[place].handover; }

static json_t *string_or_null(const char *text) {
    return text ? json_string_nocheck(text) : json_null();
}

/// Allocates queues, zeroed and without sockets. Returns 0 or -ENOMEM.
static int make_queues(struct handover *state, uint32_t count) {
    const size_t bytes = count * sizeof *state->queues;

    state->queues = aligned_alloc(STATS_ALIGN, bytes);
    if (!state->queues)
        return -ENOMEM;
    memset(state->queues, 0, bytes);
    state->queue_count = count;
    for (uint32_t i = 0; i < count; i++)
        state->queues[i].handover.fd = -1;
    return 0;
}

/// Creates the identity table of indexes: the element n is n. It is valid for values in the order
/// of this process's names. Returns 0 or -ENOMEM.
static int make_own_places(struct handover_places *places, uint32_t count) {
    places->of = calloc(count, sizeof *places->of);
    if (!places->of)
        return -ENOMEM;
    places->count = count;
    for (uint32_t i = 0; i < count; i++)
        places->of[i] = i;
    return 0;
}

int handover_state_make(struct handover *state, uint32_t queues) {
    int result = make_queues(state, queues);

    if (result == 0)
        result = make_own_places(&state->count_places, COUNT_COUNT);
    if (result == 0)
        result = make_own_places(&state->stat_places, STATS_WORDS);
    return result;
}

static json_t *queue_object(const struct worker_handover *queue) {
    json_t *object = json_object();

    object_put_number(object, "queue", queue->number);
    object_put_number(object, "copy_bytes", queue->handover.copy_bytes);
    object_put_number(object, "flags", queue->handover.flags);
    return object;
}

char *handover_state_print(const struct handover *state) {
    json_t *object = json_object(), *counts = json_array();
    json_t *stats = json_array(), *queues = json_array();

    for (int i = 0; i < COUNT_COUNT; i++)
        json_array_append_new(counts, json_string_nocheck(counts_name((enum count)i)));
    for (size_t i = 0; i < STATS_WORDS; i++)
        json_array_append_new(stats, json_string_nocheck(stats_name(i)));
    for (uint32_t i = 0; i < state->queue_count; i++)
        json_array_append_new(queues, queue_object(&state->queues[i]));
    object_put(object, "ok", json_true());
    object_put_number(object, "version", CONTROL_VERSION);
    object_put_number(object, "pid", (uint64_t)state->pid);
    object_put_number(object, "generation", state->generation);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        object_put(object, handover_state_fd_name((enum handover_fd)i),
                   string_or_null(state->options[i]));
    object_put(object, "connections",
               state->connections ? json_integer(state->followed_most) : json_null());
    object_put(object, "learned", json_boolean(state->learns));
    object_put(object, "counts", counts);
    object_put(object, "stats", stats);
    object_put(object, "queues", queues);
    return object_line(object);
}

int handover_state_fail_part(const char *part, struct failure *failure) {
    failure_set(
        failure, LOG_EXIT_CALL,
        "the old firewall's state has an invalid \"%s\": check that it is a Twinwall firewall",
        part);
    return -EPROTO;
}

/// Parses the number at a key, which must exist and be 0 to `max`. Returns 0, or -EPROTO with
/// failure filled in.
static int parse_number(const json_t *object, const char *key, uint64_t max, uint64_t *number,
                        struct failure *failure) {
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > max)
        return handover_state_fail_part(key, failure);
    *number = (uint64_t)json_integer_value(value);
    return 0;
}

static int parse_queue(const json_t *object, struct worker_handover *queue,
                       struct failure *failure) {
    uint64_t number = 0, copy_bytes = 0, flags = 0;

    if (parse_number(object, "queue", UINT16_MAX, &number, failure) < 0 ||
        parse_number(object, "copy_bytes", UINT32_MAX, &copy_bytes, failure) < 0 ||
        parse_number(object, "flags", UINT32_MAX, &flags, failure) < 0)
        return -EPROTO;
    queue->number = (uint16_t)number;
    queue->handover = (struct queue_handover){
        .fd = -1, .copy_bytes = (uint32_t)copy_bytes, .flags = (uint32_t)flags};
    return 0;
}

static int parse_queues(const json_t *queues, struct handover *state, struct failure *failure) {
    const size_t count = json_array_size(queues);

    if (count == 0 || count > OPTION_QUEUES_MAX)
        return handover_state_fail_part("queues", failure);
    if (make_queues(state, (uint32_t)count) < 0) {
        failure_set_start(failure, "aligned_alloc", ENOMEM);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        if (parse_queue(json_array_get(queues, i), &state->queues[i], failure) < 0)
            return -EPROTO;
    return 0;
}

/// Returns a copy of the string at a key; NULL if there is none, or no memory.
static char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? strdup(text) : NULL;
}

/// Function that returns one of this process's names of counters by its place.
typedef const char *name_at(size_t place);

static const char *count_name(size_t place) { return counts_name((enum count)place); }

/// Returns the index of a name among this process's names; HANDOVER_UNKNOWN if this process has no
/// such name.
static uint32_t place_of(const char *name, name_at *ours, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(name, ours(i)) == 0)
            return i;
    return HANDOVER_UNKNOWN;
}

/// Parses an array of the old process's names of counters. Stores for each name its index among
/// this process's names; HANDOVER_UNKNOWN if this process has no such name.
/// - Returns 0, or -errno with failure filled in.
static int parse_names(const json_t *object, const char *key, name_at *ours, uint32_t count,
                       struct handover_places *places, struct failure *failure) {
    const json_t *names = json_object_get(object, key);
    const size_t named = json_array_size(names);

    if (!json_is_array(names) || named > NAMES_MAX)
        return handover_state_fail_part(key, failure);
    // One element more, so that the result is not NULL for 0 elements.
    places->of = calloc(named + 1U, sizeof *places->of);
    if (!places->of) {
        failure_set_start(failure, "calloc", ENOMEM);
        return -ENOMEM;
    }
    for (size_t i = 0; i < named; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (!name)
            return handover_state_fail_part(key, failure);
        places->of[places->count++] = place_of(name, ours, count);
    }
    return 0;
}

static int fail_version(struct failure *failure) {
    failure_set(failure, LOG_EXIT_CALL,
                "the old firewall hands over in another way than this one: stop it, and start this "
                "one without --take-over");
    return -EPROTO;
}

int handover_state_fail_refused(const json_t *object, struct failure *failure) {
    const char *error = json_string_value(json_object_get(object, "error"));

    failure_set(failure, LOG_EXIT_CALL, "the old firewall refuses the upgrade: %s",
                error ? error : "it gives no reason");
    for (char *at = failure->text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f')
            *at = '?';
    return -EPERM;
}

int handover_state_fail_stranger(struct failure *failure) {
    failure_set(
        failure, LOG_EXIT_CALL,
        "no firewall answers at this path: give --take-over the path of a firewall's --control");
    return -EPROTO;
}

/// Parses the largest number of connections that any old worker followed when the old process sent
/// its state; null if the old policy reads no names.
static void parse_connections(const json_t *number, struct handover *state) {
    const json_int_t most = json_integer_value(number);

    state->connections = json_is_integer(number) && most >= 0 && most <= UINT32_MAX;
    state->followed_most = state->connections ? (uint32_t)most : 0;
}

static int parse_object(const json_t *object, struct handover *state, struct failure *failure) {
    uint64_t version = 0, pid = 0, generation = 0;
    int result;

    if (json_is_false(json_object_get(object, "ok")))
        return handover_state_fail_refused(object, failure);
    if (parse_number(object, "version", INT64_MAX, &version, failure) < 0)
        return -EPROTO;
    if (version != CONTROL_VERSION)
        return fail_version(failure);
    if (parse_number(object, "pid", INT32_MAX, &pid, failure) < 0 ||
        parse_number(object, "generation", UINT32_MAX, &generation, failure) < 0)
        return -EPROTO;
    state->pid = (int64_t)pid;
    state->generation = (uint32_t)generation;
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        state->options[i] = text_of(object, handover_state_fd_name((enum handover_fd)i));
    parse_connections(json_object_get(object, "connections"), state);
    state->learns = json_is_true(json_object_get(object, "learned"));
    result = parse_names(object, "counts", count_name, COUNT_COUNT, &state->count_places, failure);
    if (result == 0)
        result =
            parse_names(object, "stats", stats_name, STATS_WORDS, &state->stat_places, failure);
    return result < 0 ? result : parse_queues(json_object_get(object, "queues"), state, failure);
}

int handover_state_parse(const char *line, struct handover *state, struct failure *failure) {
    json_t *object = json_loads(line, 0, NULL);
    const int result = json_is_object(object) ? parse_object(object, state, failure)
                                              : handover_state_fail_stranger(failure);

    json_decref(object);
    return result;
}
