// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <argp.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The options that take part in both phases, in the order of the help text.
enum option_id {
    OPTION_QUEUE,
    OPTION_PIN,
    OPTION_BACKEND,
    OPTION_PROFILE,
    OPTION_COPY_BYTES,
    OPTION_BATCH,
    OPTION_RECEIVE_BUFFER,
    OPTION_QUEUE_LENGTH,
    OPTION_GSO,
    OPTION_SPIN,
    OPTION_COALESCE,
    OPTION_DEFAULT,
    OPTION_FAIL,
    OPTION_STATS,
    OPTION_JSON,
    OPTION_COUNT
};

enum {
    KEY_BASE = 256, // keys of argp from here on have no short form
    KEY_HELP = 'h',
    KEY_VERSION = 'V',
    WAIT_US_MAX = 1000,                         // of --spin and --coalesce
    STATS_SECONDS_MAX = 86400,                  // of --stats
    QUOTED_BYTES = OPTIONS_QUOTE_BYTES * 4 + 4, // each byte as \xNN, "...", NUL
};

static const struct argp_option argp_options[] = {
    {.name = "queue", .key = KEY_BASE + OPTION_QUEUE, .arg = "N"},
    {.name = "pin", .key = KEY_BASE + OPTION_PIN},
    {.name = "backend", .key = KEY_BASE + OPTION_BACKEND, .arg = "NAME"},
    {.name = "profile", .key = KEY_BASE + OPTION_PROFILE, .arg = "NAME"},
    {.name = "copy-bytes", .key = KEY_BASE + OPTION_COPY_BYTES, .arg = "N"},
    {.name = "batch", .key = KEY_BASE + OPTION_BATCH, .arg = "N"},
    {.name = "receive-buffer", .key = KEY_BASE + OPTION_RECEIVE_BUFFER, .arg = "N"},
    {.name = "queue-length", .key = KEY_BASE + OPTION_QUEUE_LENGTH, .arg = "N"},
    {.name = "gso", .key = KEY_BASE + OPTION_GSO, .arg = "on|off"},
    {.name = "spin", .key = KEY_BASE + OPTION_SPIN, .arg = "N"},
    {.name = "coalesce", .key = KEY_BASE + OPTION_COALESCE, .arg = "N"},
    {.name = "default", .key = KEY_BASE + OPTION_DEFAULT, .arg = "VERDICT"},
    {.name = "fail", .key = KEY_BASE + OPTION_FAIL, .arg = "MODE"},
    {.name = "stats", .key = KEY_BASE + OPTION_STATS, .arg = "SECONDS"},
    {.name = "json", .key = KEY_BASE + OPTION_JSON},
    {.name = "help", .key = KEY_HELP},
    {.name = "version", .key = KEY_VERSION},
    {0},
};
static_assert(sizeof argp_options / sizeof *argp_options == OPTION_COUNT + 3,
              "options of both phases, help, version, end");

const char options_help[] =
#include "help.inc" // cli/help.txt as a string literal, made by the Makefile
    ;

static const char *const backend_names[] = {
    [QUEUE_CLASSIC] = "classic", [QUEUE_MNL] = "mnl", [QUEUE_RAW] = "raw"};
static const char *const profile_names[] = {[OPTIONS_FAST] = "fast", [OPTIONS_PAPER] = "paper"};
static const char *const gso_names[] = {"off", "on"};
static const char *const default_names[] = {[VERDICT_ACCEPT] = "accept", [VERDICT_DROP] = "drop"};
static const char *const fail_names[] = {"closed", "open"};
static_assert(sizeof backend_names / sizeof *backend_names == QUEUE_KIND_COUNT, "all named");
static_assert(sizeof profile_names / sizeof *profile_names == OPTIONS_PROFILE_COUNT, "all named");

const char *options_backend_name(enum queue_kind kind) { return backend_names[kind]; }

const char *options_profile_name(enum options_profile profile) { return profile_names[profile]; }

/// What phase 1 found.
struct given {
    const char
        *values[OPTION_COUNT]; // raw, the last one given; "" for an option without a value; or NULL
    enum options_action action;
    int taken;   // arguments that are understood, the program's name among them
    bool failed; // and failure is filled in
    struct failure *failure;
};

/// Writes at most OPTIONS_QUOTE_BYTES of a text with everything unprintable, '"' and '\' as \xNN,
/// then
/// "..." if there was more.
static const char *quote(const char *text, char quoted[static QUOTED_BYTES]) {
    char *at = quoted;

    for (size_t i = 0; i < OPTIONS_QUOTE_BYTES && text[i]; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if (byte < 0x20 || byte > 0x7e || byte == '"' || byte == '\\')
            at += sprintf(at, "\\x%02x", byte);
        else
            *at++ = (char)byte;
    }
    sprintf(at, "%s", strnlen(text, OPTIONS_QUOTE_BYTES + 1) > OPTIONS_QUOTE_BYTES ? "..." : "");
    return quoted;
}

/// Finds the long option that a name of so many bytes stands for: its own name, or a prefix that no
/// other option has. NULL if there is none.
static const struct argp_option *find_option(const char *name, size_t length) {
    const struct argp_option *found = NULL;

    for (const struct argp_option *option = argp_options; option->name; option++) {
        if (strncmp(option->name, name, length) != 0)
            continue;
        if (strlen(option->name) == length)
            return option;
        if (found)
            return NULL;
        found = option;
    }
    return found;
}

/// Tells what is wrong with an argument that argp refused.
static void fail_structure(const char *token, struct failure *failure) {
    const bool is_long = strncmp(token, "--", 2) == 0;
    const size_t length = is_long ? strcspn(token, "=") : strnlen(token, 2);
    const struct argp_option *option = is_long ? find_option(token + 2, length - 2) : NULL;
    char named[OPTIONS_QUOTE_BYTES + 2];
    char quoted[QUOTED_BYTES];

    if (option && option->arg) {
        failure_set(failure, LOG_EXIT_USAGE, "option --%s needs a value: see --help", option->name);
    } else if (option) {
        failure_set(failure, LOG_EXIT_USAGE, "option --%s takes no value: see --help",
                    option->name);
    } else {
        snprintf(named, sizeof named, "%.*s", (int)length, token);
        failure_set(failure, LOG_EXIT_USAGE, "unknown or ambiguous option %s: see --help",
                    quote(named, quoted));
    }
}

/// Called by argp for each option and argument, in order, and when one was refused.
static error_t take_argument(int key, char *value, struct argp_state *state) {
    struct given *given = state->input;
    char quoted[QUOTED_BYTES];

    if (key >= KEY_BASE && key < KEY_BASE + OPTION_COUNT) {
        given->values[key - KEY_BASE] = value ? value : "";
        given->taken = state->next;
        return 0;
    }
    switch (key) {
    case KEY_HELP:
        given->action = OPTIONS_ACTION_HELP;
        return ECANCELED; // whatever follows is not looked at
    case KEY_VERSION:
        given->action = OPTIONS_ACTION_VERSION;
        return ECANCELED;
    case ARGP_KEY_ARG:
        failure_set(given->failure, LOG_EXIT_USAGE, "unexpected argument \"%s\": see --help",
                    quote(value, quoted));
        given->failed = true;
        return EINVAL;
    case ARGP_KEY_ERROR:
        if (!given->failed && given->action == OPTIONS_ACTION_RUN)
            fail_structure(state->argv[given->taken], given->failure);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/// Phase 1. Returns 0, or -EINVAL with failure filled in.
static int take_structure(int argc, char **argv, struct given *given) {
    const struct argp argp = {.options = argp_options, .parser = take_argument};
    const unsigned int flags = ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT | ARGP_IN_ORDER;
    const error_t error = argp_parse(&argp, argc, argv, flags, NULL, given);

    return error != 0 && given->action == OPTIONS_ACTION_RUN ? -EINVAL : 0;
}

static int fail_value(const struct given *given, enum option_id option, const char *expected) {
    char quoted[QUOTED_BYTES];

    failure_set(given->failure, LOG_EXIT_USAGE, "--%s \"%s\": expected %s",
                argp_options[option].name, quote(given->values[option], quoted), expected);
    return -EINVAL;
}

/// Reads decimal digits, and nothing else, up to `end` (excluded).
static bool read_number(const char *text, const char *end, uint32_t max, uint32_t *number) {
    uint64_t read = 0;

    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        read = read * 10 + (uint64_t)(*text - '0');
        if (read > max)
            return false;
    }
    *number = (uint32_t)read;
    return true;
}

static int check_number(const struct given *given, enum option_id option, uint32_t min,
                        uint32_t max, uint32_t *number) {
    const char *value = given->values[option];
    uint32_t read;

    if (!value)
        return 0;
    if (!read_number(value, value + strlen(value), max, &read) || read < min) {
        char expected[64];

        snprintf(expected, sizeof expected, "a whole number from %u to %u", min, max);
        return fail_value(given, option, expected);
    }
    *number = read;
    return 0;
}

static int check_choice(const struct given *given, enum option_id option, const char *const *names,
                        int count, const char *expected, int *choice) {
    const char *value = given->values[option];

    if (!value)
        return 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(value, names[i]) == 0) {
            *choice = i;
            return 0;
        }
    }
    return fail_value(given, option, expected);
}

static int check_queue(const struct given *given, struct options *options) {
    const char *value = given->values[OPTION_QUEUE];
    const char *colon, *end;
    uint32_t first, last;

    if (!value)
        return 0;
    end = value + strlen(value);
    colon = strchr(value, ':');
    if (!read_number(value, colon ? colon : end, UINT16_MAX, &first))
        goto fail;
    last = first;
    if (colon && !read_number(colon + 1, end, UINT16_MAX, &last))
        goto fail;
    if (last < first || last - first >= OPTIONS_QUEUES_MAX)
        goto fail;
    options->queue_first = (uint16_t)first;
    options->queue_last = (uint16_t)last;
    return 0;

fail:
    return fail_value(given, OPTION_QUEUE, "N or N:M, 0 <= N <= M <= 65535, at most 256 queues");
}

static const struct options profiles[] = {
    [OPTIONS_FAST] =
        {
            .backend = QUEUE_RAW,
            .profile = OPTIONS_FAST,
            .copy_bytes = 128,
            .batch = 64,
            .receive_buffer = 67108864,
            .queue_length = 131072,
            .gso = true,
            .spin_us = 50,
            .coalesce_us = 60,
        },
    [OPTIONS_PAPER] =
        {
            .backend = QUEUE_CLASSIC,
            .profile = OPTIONS_PAPER,
            .copy_bytes = 65535,
            .batch = 1,
            .queue_length = 1024,
        },
};
static_assert(sizeof profiles / sizeof *profiles == OPTIONS_PROFILE_COUNT, "all defined");
static_assert(VERDICT_ACCEPT == 0, "the default of --default is what zeroed options hold");

static int fail_fixed(const struct given *given, enum option_id option) {
    failure_set(given->failure, LOG_EXIT_USAGE,
                "--profile paper fixes --%s: leave it out or use --profile fast",
                argp_options[option].name);
    return -EINVAL;
}

/// What the profile paper doesn't allow.
static int check_paper(const struct given *given, const struct options *options) {
    if (options->batch != 1)
        return fail_fixed(given, OPTION_BATCH);
    if (given->values[OPTION_SPIN])
        return fail_fixed(given, OPTION_SPIN);
    if (given->values[OPTION_COALESCE])
        return fail_fixed(given, OPTION_COALESCE);
    if (options->default_verdict == VERDICT_ACCEPT)
        return 0;
    failure_set(given->failure, LOG_EXIT_USAGE,
                "--profile paper accepts every packet: "
                "leave --default out or use --profile fast");
    return -EINVAL;
}

/// The profile whose values options that weren't given have; a wrong name is found by check_values.
static enum options_profile profile_of(const struct given *given) {
    const char *value = given->values[OPTION_PROFILE];

    return value && strcmp(value, profile_names[OPTIONS_PAPER]) == 0 ? OPTIONS_PAPER : OPTIONS_FAST;
}

/// Phase 2: the values, in the order of the help text. Returns 0, or -EINVAL with failure filled
/// in.
static int check_values(const struct given *given, struct options *options) {
    struct options checked = profiles[profile_of(given)];
    int backend = checked.backend, profile = checked.profile, gso = checked.gso;
    int verdict = checked.default_verdict, fail_open = checked.fail_open;

    if (check_queue(given, &checked) < 0 ||
        check_choice(given, OPTION_BACKEND, backend_names, QUEUE_KIND_COUNT, "classic, mnl or raw",
                     &backend) < 0 ||
        check_choice(given, OPTION_PROFILE, profile_names, OPTIONS_PROFILE_COUNT, "fast or paper",
                     &profile) < 0 ||
        check_number(given, OPTION_COPY_BYTES, 0, UINT16_MAX, &checked.copy_bytes) < 0 ||
        check_number(given, OPTION_BATCH, 1, VERDICT_RUNS_MAX, &checked.batch) < 0 ||
        check_number(given, OPTION_RECEIVE_BUFFER, 0, INT32_MAX / 2, &checked.receive_buffer) < 0 ||
        check_number(given, OPTION_QUEUE_LENGTH, 1, UINT32_MAX, &checked.queue_length) < 0 ||
        check_choice(given, OPTION_GSO, gso_names, 2, "on or off", &gso) < 0 ||
        check_number(given, OPTION_SPIN, 0, WAIT_US_MAX, &checked.spin_us) < 0 ||
        check_number(given, OPTION_COALESCE, 0, WAIT_US_MAX, &checked.coalesce_us) < 0 ||
        check_choice(given, OPTION_DEFAULT, default_names, 2, "accept or drop", &verdict) < 0 ||
        check_choice(given, OPTION_FAIL, fail_names, 2, "open or closed", &fail_open) < 0 ||
        check_number(given, OPTION_STATS, 1, STATS_SECONDS_MAX, &checked.stats_s) < 0)
        return -EINVAL;
    checked.pin = given->values[OPTION_PIN];
    checked.json = given->values[OPTION_JSON];
    checked.backend = (enum queue_kind)backend;
    checked.receive_buffer_given = given->values[OPTION_RECEIVE_BUFFER];
    checked.gso = gso;
    checked.default_verdict = (enum verdict)verdict;
    checked.fail_open = fail_open;
    if (profile == OPTIONS_PAPER && check_paper(given, &checked) < 0)
        return -EINVAL;
    *options = checked;
    return 0;
}

int options_parse(int argc, char **argv, struct options *options, struct failure *failure) {
    struct given given = {.taken = 1, .failure = failure};

    if (take_structure(argc, argv, &given) < 0)
        return -EINVAL;
    if (given.action == OPTIONS_ACTION_RUN && check_values(&given, options) < 0)
        return -EINVAL;
    return given.action;
}

struct queue_settings options_queue(const struct options *options, uint16_t number) {
    return (struct queue_settings){
        .number = number,
        .kind = options->backend,
        .copy_bytes = options->copy_bytes,
        .batch = options->batch,
        .slot_bytes = options->profile == OPTIONS_PAPER
                          ? OPTIONS_PAPER_SLOT_BYTES
                          : queue_socket_slot_bytes(options->copy_bytes),
        .receive_buffer = options->receive_buffer,
        .receive_buffer_required = options->receive_buffer_given,
        .queue_length = options->queue_length,
        .gso = options->gso,
        .fail_open = options->fail_open,
    };
}
