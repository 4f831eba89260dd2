// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/request.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "options/arguments.h"
#include "options/options.h"
#include "packet/verdict.h"

#define COMMANDS "status, stats, rules, reload, log, drain, tail, proof, connections or upgrade"

enum { KEYS_MAX = 2 };

// Maximum position in the connection listing. A position is a worker's index and a slot of the
// worker's connection table.
static const json_int_t FROM_MAX = ((json_int_t)1 << 48) - 1;

/// Commands with their names and the keys that they accept besides "command".
static const struct {
    const char *name;
    const char *keys[KEYS_MAX];
} commands[] = {
    [CONTROL_STATUS] = {"status", {NULL}},
    [CONTROL_STATS] = {"stats", {NULL}},
    [CONTROL_RULES] = {"rules", {NULL}},
    [CONTROL_RELOAD] = {"reload", {NULL}},
    [CONTROL_LOG] = {"log", {"level"}},
    [CONTROL_DRAIN] = {"drain", {"seconds"}},
    [CONTROL_TAIL] = {"tail", {"verdicts", "packets"}},
    [CONTROL_PROOF] = {"proof", {NULL}},
    [CONTROL_CONNECTIONS] = {"connections", {"undecided", "from"}},
    [CONTROL_UPGRADE] = {"upgrade", {"version", "backend"}},
};

/// Names of verdicts in `tail`, with their bits; `accept` includes the verdict with a mark.
static const struct {
    const char *name;
    uint32_t verdicts;
} tail_verdicts[] = {
    {"accept", 1U << VERDICT_ACCEPT | 1U << VERDICT_MARK},
    {"drop", 1U << VERDICT_DROP},
    {"reject", 1U << VERDICT_REJECT},
};

static int fail(struct failure *failure, const char *text) {
    failure_set(failure, LOG_EXIT_USAGE, "%s", text);
    return -EINVAL;
}

static int fail_key(struct failure *failure, const char *key, const char *expected) {
    failure_set(failure, LOG_EXIT_USAGE, "\"%s\": expected %s", key, expected);
    return -EINVAL;
}

static int find_command(const json_t *object, enum control_command *command,
                        struct failure *failure) {
    const json_t *value = json_object_get(object, "command");
    const char *name = json_string_value(value);
    char quoted[ARGUMENTS_QUOTED_BYTES];

    if (!name)
        return fail_key(failure, "command", COMMANDS);
    for (int i = 0; i < CONTROL_COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        *command = (enum control_command)i;
        return 0;
    }
    failure_set(failure, LOG_EXIT_USAGE, "unknown command \"%s\": expected " COMMANDS,
                arguments_quote(name, quoted));
    return -EINVAL;
}

static bool takes(enum control_command command, const char *key) {
    for (int i = 0; i < KEYS_MAX; i++)
        if (commands[command].keys[i] && strcmp(commands[command].keys[i], key) == 0)
            return true;
    return strcmp(key, "command") == 0;
}

/// Fails if the request has keys that the command does not accept. The failure names the first of
/// these keys in byte order.
static int check_keys(json_t *object, enum control_command command, struct failure *failure) {
    const char *unknown = NULL;
    char quoted[ARGUMENTS_QUOTED_BYTES];
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) {
        if (!takes(command, key) && (!unknown || strcmp(key, unknown) < 0))
            unknown = key;
    }
    if (!unknown)
        return 0;
    failure_set(failure, LOG_EXIT_USAGE, "%s takes no \"%s\": leave it out", commands[command].name,
                arguments_quote(unknown, quoted));
    return -EINVAL;
}

static int parse_level(const json_t *value, struct control_request *request,
                       struct failure *failure) {
    const char *name = json_string_value(value);

    if (!value)
        return 0;
    for (int i = 0; name && i < LOG_LEVEL_COUNT; i++) {
        if (strcmp(name, log_level_name((enum log_level)i)) != 0)
            continue;
        request->has_level = true;
        request->level = (enum log_level)i;
        return 0;
    }
    return fail_key(failure, "level", "error, warning, info or debug");
}

static int parse_seconds(const json_t *value, struct control_request *request,
                         struct failure *failure) {
    const json_int_t seconds = json_integer_value(value);

    if (!value)
        return 0;
    if (!json_is_integer(value) || seconds < 0 || seconds > CONTROL_DRAIN_SECONDS_MAX)
        return fail_key(failure, "seconds", "a whole number from 0 to 3600");
    request->seconds = (uint32_t)seconds;
    return 0;
}

/// Returns the verdict bits of a name in `tail`; 0 if the name is unknown.
static uint32_t verdicts_of(const json_t *name) {
    const char *text = json_string_value(name);

    for (size_t i = 0; text && i < sizeof tail_verdicts / sizeof *tail_verdicts; i++)
        if (strcmp(text, tail_verdicts[i].name) == 0)
            return tail_verdicts[i].verdicts;
    return 0;
}

static int parse_verdicts(const json_t *value, struct control_request *request,
                          struct failure *failure) {
    static const char expected[] = "a list of accept, drop and reject";
    const size_t count = json_array_size(value);
    uint32_t verdicts = 0;

    if (!value)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t one = verdicts_of(json_array_get(value, i));

        if (one == 0)
            return fail_key(failure, "verdicts", expected);
        verdicts |= one;
    }
    if (verdicts == 0)
        return fail_key(failure, "verdicts", expected);
    request->verdicts = verdicts;
    return 0;
}

static int parse_bool(const char *key, const json_t *value, bool *read, struct failure *failure) {
    if (value && !json_is_boolean(value))
        return fail_key(failure, key, "true or false");
    *read = json_is_true(value);
    return 0;
}

static int parse_from(const json_t *value, struct control_request *request,
                      struct failure *failure) {
    const json_int_t from = json_integer_value(value);

    if (value && (!json_is_integer(value) || from < 0 || from > FROM_MAX))
        return fail_key(failure, "from", "the value of next in the last answer");
    request->from = (uint64_t)from;
    return 0;
}

static int parse_upgrade(const json_t *object, struct control_request *request,
                         struct failure *failure) {
    const char *backend = json_string_value(json_object_get(object, "backend"));
    const json_t *version = json_object_get(object, "version");

    if (!json_is_integer(version) || json_integer_value(version) != CONTROL_VERSION)
        return fail_key(failure, "version",
                        "2: stop this firewall, and start the new one without --take-over");
    for (int i = 0; backend && i < QUEUE_KIND_COUNT; i++) {
        if (strcmp(backend, options_backend_name((enum queue_kind)i)) != 0)
            continue;
        request->backend = (enum queue_kind)i;
        return 0;
    }
    return fail_key(failure, "backend", "classic, mnl or raw");
}

static int parse_values(const json_t *object, struct control_request *request,
                        struct failure *failure) {
    switch (request->command) {
    case CONTROL_LOG:
        return parse_level(json_object_get(object, "level"), request, failure);
    case CONTROL_DRAIN:
        return parse_seconds(json_object_get(object, "seconds"), request, failure);
    case CONTROL_TAIL:
        if (parse_verdicts(json_object_get(object, "verdicts"), request, failure) < 0)
            return -EINVAL;
        return parse_bool("packets", json_object_get(object, "packets"), &request->packets,
                          failure);
    case CONTROL_CONNECTIONS:
        if (parse_bool("undecided", json_object_get(object, "undecided"), &request->undecided,
                       failure) < 0)
            return -EINVAL;
        return parse_from(json_object_get(object, "from"), request, failure);
    case CONTROL_UPGRADE:
        return parse_upgrade(object, request, failure);
    default:
        return 0;
    }
}

int control_request_parse(const char *line, size_t length, struct control_request *request,
                          struct failure *failure) {
    struct control_request parsed = {
        .seconds = CONTROL_DRAIN_SECONDS,
        .verdicts = (1U << VERDICT_COUNT) - 1,
    };
    json_t *object = json_loadb(line, length, 0, NULL);
    int result;

    if (!json_is_object(object)) {
        json_decref(object);
        return fail(failure, "the line is no JSON object: send one like {\"command\":\"status\"}");
    }
    result = find_command(object, &parsed.command, failure);
    if (result == 0)
        result = check_keys(object, parsed.command, failure);
    if (result == 0)
        result = parse_values(object, &parsed, failure);
    json_decref(object);
    if (result == 0)
        *request = parsed;
    return result;
}
