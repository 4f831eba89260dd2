// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/daemon.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static_assert(OPTION_SOCKET_BYTES_MAX == sizeof((struct sockaddr_un){0}.sun_path) - 1, "one NUL");

#define UNIX_PREFIX "unix:"

const char *options_fail_text(const struct options *options, char text[static OPTIONS_FAIL_BYTES]) {
    int open = 0;
    char *at = text;

    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++) {
        if (!options->fail_open[i])
            continue;
        at += sprintf(at, "%s%s=open", open > 0 ? "," : "",
                      options_situation_name((enum options_situation)i));
        open++;
    }
    if (open == 0 || open == OPTIONS_SITUATION_COUNT)
        sprintf(text, "%s", options_mode_name(open > 0));
    return text;
}

/// Returns true if the first `length` bytes of a text equal a name.
static bool is_name(const char *text, size_t length, const char *name) {
    return strlen(name) == length && strncmp(name, text, length) == 0;
}

/// Returns the situation of --fail with a name of `length` bytes; -1 if there is none.
static int situation_of(const char *name, size_t length) {
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        if (is_name(name, length, options_situation_name((enum options_situation)i)))
            return i;
    return -1;
}

/// Returns 1 if the mode of --fail with a name of `length` bytes is open, 0 if it is closed; -1 if
/// there is none.
static int mode_of(const char *name, size_t length) {
    for (int open = 0; open < 2; open++)
        if (is_name(name, length, options_mode_name(open)))
            return open;
    return -1;
}

static int fail_twice(const struct values *values, int situation) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    failure_set(values->failure, LOG_EXIT_USAGE, "--fail \"%s\": %s is given twice: leave one out",
                arguments_quote(values_get(values, OPTION_FAIL), quoted),
                options_situation_name((enum options_situation)situation));
    return -EINVAL;
}

/// Stores the value of an option that is a verdict: accept or drop.
static int store_verdict(const struct values *values, enum arguments_option option,
                         enum verdict *verdict) {
    int drops = *verdict == VERDICT_DROP;

    if (values_choice(values, option, &drops) < 0)
        return -EINVAL;
    *verdict = drops ? VERDICT_DROP : VERDICT_ACCEPT;
    return 0;
}

int options_daemon_decision(const struct values *values, struct options *options) {
    int by_policy = options->malformed_by_policy;

    if (store_verdict(values, OPTION_DEFAULT, &options->default_verdict) < 0 ||
        values_choice(values, OPTION_MALFORMED, &by_policy) < 0)
        return -EINVAL;
    options->malformed_by_policy = by_policy;
    return 0;
}

/// Parses a value of --undecided, e.g. `accept:8192`: the verdict and the number of bytes, which is
/// unchanged if the value has none. Returns true if the value is valid.
static bool parse_undecided(const char *value, const struct option_facts *facts,
                            enum verdict *verdict, uint32_t *bytes) {
    const char *colon = strchrnul(value, ':'), *const *names = option_facts[OPTION_DEFAULT].choices;
    const size_t length = (size_t)(colon - value);
    const bool drops = length == strlen(names[1]) && memcmp(value, names[1], length) == 0;

    if (!drops && (length != strlen(names[0]) || memcmp(value, names[0], length) != 0))
        return false;
    *verdict = drops ? VERDICT_DROP : VERDICT_ACCEPT;
    if (*colon == '\0')
        return true;
    return !drops && values_parse_number(colon + 1, value + strlen(value), facts->max, bytes) &&
           *bytes >= facts->min;
}

int options_daemon_undecided(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_UNDECIDED);
    enum verdict verdict = options->undecided_verdict;
    uint32_t bytes = options->undecided_bytes;

    if (value && !parse_undecided(value, &option_facts[OPTION_UNDECIDED], &verdict, &bytes))
        return values_fail(values, OPTION_UNDECIDED);
    options->undecided_verdict = verdict;
    options->undecided_bytes = bytes;
    return 0;
}

/// Minimum number of bits of --stage: one for "final", and at least two each for classes and for
/// generations.
enum { STAGE_BITS_MIN = 5 };

/// Returns true if a mask has enough bits, and these bits are adjacent.
static bool is_stage(uint32_t mask) {
    const int bits = __builtin_popcount(mask);

    return bits >= STAGE_BITS_MIN && __builtin_clz(mask) + bits + __builtin_ctz(mask) == 32;
}

/// Stores the value of --stage.
static int check_stage(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_STAGE);
    uint32_t mask;

    if (!value)
        return 0;
    if (!values_parse_mark(value, &mask) || !is_stage(mask))
        return values_fail(values, OPTION_STAGE);
    options->stage = mask;
    return 0;
}

/// Stores the value of --settled.
static int check_settled(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_SETTLED);

    if (value && !values_parse_mark(value, &options->settled))
        return values_fail(values, OPTION_SETTLED);
    return 0;
}

int options_daemon_names(const struct values *values, struct options *options) {
    if (options_daemon_undecided(values, options) < 0 ||
        values_number(values, OPTION_CONNECTIONS, &options->connections) < 0 ||
        values_number(values, OPTION_HELLO_MEMORY, &options->hello_memory) < 0 ||
        values_number(values, OPTION_HELLO_TIMEOUT, &options->hello_timeout_s) < 0 ||
        values_number(values, OPTION_LEARNED, &options->learned) < 0 ||
        check_stage(values, options) < 0)
        return -EINVAL;
    return check_settled(values, options);
}

int options_daemon_fail(const struct values *values, struct options *options) {
    const char *at = values_get(values, OPTION_FAIL);
    bool seen[OPTIONS_SITUATION_COUNT] = {false};
    int mode = at ? mode_of(at, strlen(at)) : -1;

    for (int i = 0; mode >= 0 && i < OPTIONS_SITUATION_COUNT; i++)
        options->fail_open[i] = mode;
    while (at && mode < 0) {
        const size_t length = strcspn(at, ","), name = strcspn(at, "=");
        const int situation = situation_of(at, name);
        const int chosen = name < length ? mode_of(at + name + 1, length - name - 1) : -1;

        if (situation < 0 || chosen < 0)
            return values_fail(values, OPTION_FAIL);
        if (seen[situation])
            return fail_twice(values, situation);
        seen[situation] = true;
        options->fail_open[situation] = chosen;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return 0;
}

static int check_events(const struct values *values, struct options *options) {
    const size_t prefix = strlen(UNIX_PREFIX);

    if (values_text(values, OPTION_EVENTS, &options->events) < 0)
        return -EINVAL;
    if (options->events && strncmp(options->events, UNIX_PREFIX, prefix) == 0) {
        const size_t length = strlen(options->events + prefix);

        if (length == 0 || length > OPTION_SOCKET_BYTES_MAX)
            return values_fail(values, OPTION_EVENTS);
    }
    return 0;
}

static int check_mode(const struct values *values, struct options *options) {
    const struct option_facts *facts = &option_facts[OPTION_CONTROL_MODE];
    const char *value = values_get(values, OPTION_CONTROL_MODE);
    unsigned long mode;

    if (!value)
        return 0;
    mode = strtoul(value, NULL, 8);
    if (*value == '\0' || strlen(value) > facts->bytes ||
        value[strspn(value, "01234567")] != '\0' || mode > facts->max)
        return values_fail(values, OPTION_CONTROL_MODE);
    options->control_mode = (uint32_t)mode;
    return 0;
}

static int check_owner(const struct values *values, struct options *options) {
    const char *colon;

    if (values_text(values, OPTION_CONTROL_OWNER, &options->control_owner) < 0)
        return -EINVAL;
    colon = options->control_owner ? strchr(options->control_owner, ':') : NULL;
    if (colon && (colon == options->control_owner || colon[1] == '\0' || strchr(colon + 1, ':')))
        return values_fail(values, OPTION_CONTROL_OWNER);
    return 0;
}

int options_daemon_values(const struct values *values, struct options *options) {
    int level = options->log_level, sandbox = options->sandbox;

    if (values_number(values, OPTION_DEADLINE, &options->deadline_ms) < 0 ||
        values_number(values, OPTION_STATS, &options->stats_s) < 0 ||
        check_events(values, options) < 0 ||
        values_number(values, OPTION_EVENTS_RATE, &options->events_rate) < 0 ||
        values_choice(values, OPTION_LOG_LEVEL, &level) < 0 ||
        values_text(values, OPTION_CONTROL, &options->control) < 0 ||
        check_mode(values, options) < 0 || check_owner(values, options) < 0 ||
        values_text(values, OPTION_TAKE_OVER, &options->take_over) < 0 ||
        values_text(values, OPTION_USER, &options->user) < 0 ||
        values_choice(values, OPTION_SANDBOX, &sandbox) < 0)
        return -EINVAL;
    options->json = values_get(values, OPTION_JSON);
    options->log_level = (enum log_level)level;
    options->sandbox = sandbox;
    return 0;
}

int options_daemon_paper(const struct values *values) {
    static const enum arguments_option without[] = {OPTION_EVENTS, OPTION_CONTROL,
                                                    OPTION_TAKE_OVER};

    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        if (!values_get(values, without[i]))
            continue;
        failure_set(values->failure, LOG_EXIT_USAGE,
                    "--profile paper does without --%s: leave it out or use --profile fast",
                    arguments_name(without[i]));
        return -EINVAL;
    }
    return 0;
}

int options_daemon_alone(const struct values *values) {
    static const struct {
        enum arguments_option option, needed;
    } pairs[] = {
        {OPTION_EVENTS_RATE, OPTION_EVENTS},
        {OPTION_CONTROL_MODE, OPTION_CONTROL},
        {OPTION_CONTROL_OWNER, OPTION_CONTROL},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char needed[32];

        if (!values_get(values, pairs[i].option) || values_get(values, pairs[i].needed))
            continue;
        snprintf(needed, sizeof needed, "--%s", arguments_name(pairs[i].needed));
        return values_fail_without(values, pairs[i].option, needed, needed);
    }
    return 0;
}
