// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/daemon.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum {
    STATS_SECONDS_MAX = 86400, // of --stats
    DEADLINE_MS_MIN = 10,      // of --deadline, if it is not 0
    DEADLINE_MS_MAX = 60000,
    EVENTS_RATE_MAX = 1000000,
    MODE_MAX = 0777,      // of --control-mode
    MODE_DIGITS_MAX = 4,  // of it
    USER_BYTES_MAX = 256, // of a name
    SOCKET_BYTES_MAX = sizeof((struct sockaddr_un){0}.sun_path) - 1,
};
static_assert(SOCKET_BYTES_MAX == 107, "as messages say");

#define UNIX_PREFIX "unix:"

static const char *const situation_names[] = {
    [OPTIONS_OVERLOAD] = "overload",   [OPTIONS_STALL] = "stall",         [OPTIONS_CRASH] = "crash",
    [OPTIONS_MALFORMED] = "malformed", [OPTIONS_TRUNCATED] = "truncated",
};
static const char *const default_names[] = {[VERDICT_ACCEPT] = "accept", [VERDICT_DROP] = "drop"};
static const char *const malformed_names[] = {"fail", "policy"};
static const char *const mode_names[] = {"closed", "open"};
static const char *const sandbox_names[] = {"off", "on"};
static const char *const level_names[] = {"error", "warning", "info", "debug"};
static_assert(sizeof situation_names / sizeof *situation_names == OPTIONS_SITUATION_COUNT,
              "all named");

const char *options_situation_name(enum options_situation situation) {
    return situation_names[situation];
}

const char *options_mode_name(bool open) { return mode_names[open]; }

const char *options_fail_text(const struct options *options, char text[static OPTIONS_FAIL_BYTES]) {
    int open = 0;
    char *at = text;

    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++) {
        if (!options->fail_open[i])
            continue;
        at += sprintf(at, "%s%s=open", open > 0 ? "," : "", situation_names[i]);
        open++;
    }
    if (open == 0 || open == OPTIONS_SITUATION_COUNT)
        sprintf(text, "%s", mode_names[open > 0]);
    return text;
}

/// The place of a name of so many bytes, -1 if there is none.
static int place_of(const char *name, size_t length, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return i;
    return -1;
}

static int fail_twice(const struct values *values, int situation) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    failure_set(values->failure, LOG_EXIT_USAGE, "--fail \"%s\": %s is there twice: leave one out",
                arguments_quote(values_get(values, OPTION_FAIL), quoted),
                situation_names[situation]);
    return -EINVAL;
}

int options_daemon_decision(const struct values *values, struct options *options) {
    int verdict = options->default_verdict, by_policy = options->malformed_by_policy;

    if (values_choice(values, OPTION_DEFAULT, default_names, 2, "accept or drop", &verdict) < 0 ||
        values_choice(values, OPTION_MALFORMED, malformed_names, 2, "fail or policy", &by_policy) <
            0)
        return -EINVAL;
    options->default_verdict = (enum verdict)verdict;
    options->malformed_by_policy = by_policy;
    return 0;
}

int options_daemon_fail(const struct values *values, struct options *options) {
    static const char expected[] = "open or closed, or a list like overload=open,crash=closed of "
                                   "overload, stall, crash, malformed and truncated";
    const char *at = values_get(values, OPTION_FAIL);
    bool seen[OPTIONS_SITUATION_COUNT] = {false};
    int mode = at ? place_of(at, strlen(at), mode_names, 2) : -1;

    for (int i = 0; mode >= 0 && i < OPTIONS_SITUATION_COUNT; i++)
        options->fail_open[i] = mode;
    while (at && mode < 0) {
        const size_t length = strcspn(at, ","), name = strcspn(at, "=");
        const int situation = place_of(at, name, situation_names, OPTIONS_SITUATION_COUNT);
        const int chosen =
            name < length ? place_of(at + name + 1, length - name - 1, mode_names, 2) : -1;

        if (situation < 0 || chosen < 0)
            return values_fail(values, OPTION_FAIL, expected);
        if (seen[situation])
            return fail_twice(values, situation);
        seen[situation] = true;
        options->fail_open[situation] = chosen;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return 0;
}

static int check_deadline(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_DEADLINE);
    uint32_t read;

    if (!value)
        return 0;
    if (!values_read_number(value, value + strlen(value), DEADLINE_MS_MAX, &read) ||
        (read > 0 && read < DEADLINE_MS_MIN))
        return values_fail(values, OPTION_DEADLINE, "0 or a whole number from 10 to 60000");
    options->deadline_ms = read;
    return 0;
}

/// Whether a text is ADDRESS:PORT or [ADDRESS]:PORT.
static bool is_endpoint(const char *text) {
    const char *colon = strrchr(text, ':');
    const bool is_ipv6 = *text == '[';
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    uint32_t port;
    size_t length;

    if (!colon || !values_read_number(colon + 1, text + strlen(text), UINT16_MAX, &port) ||
        port == 0)
        return false;
    length = (size_t)(colon - text);
    if (is_ipv6 && text[length - 1] != ']')
        return false;
    if (is_ipv6) {
        text++;
        length -= 2;
    }
    if (length >= sizeof address)
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    return inet_pton(is_ipv6 ? AF_INET6 : AF_INET, address, &parsed) == 1;
}

static int check_metrics(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_METRICS);

    if (value && !is_endpoint(value))
        return values_fail(values, OPTION_METRICS,
                           "an address with a port, like 127.0.0.1:9630 or [::1]:9630");
    options->metrics = value;
    return 0;
}

static int check_events(const struct values *values, struct options *options) {
    static const char expected[] = "a file, - or unix:PATH of at most 107 bytes";
    const size_t prefix = strlen(UNIX_PREFIX);

    if (values_text(values, OPTION_EVENTS, PATH_MAX - 1, expected, &options->events) < 0)
        return -EINVAL;
    if (options->events && strncmp(options->events, UNIX_PREFIX, prefix) == 0) {
        const size_t length = strlen(options->events + prefix);

        if (length == 0 || length > SOCKET_BYTES_MAX)
            return values_fail(values, OPTION_EVENTS, expected);
    }
    return 0;
}

static int check_mode(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_CONTROL_MODE);
    unsigned long mode;

    if (!value)
        return 0;
    mode = strtoul(value, NULL, 8);
    if (*value == '\0' || strlen(value) > MODE_DIGITS_MAX ||
        value[strspn(value, "01234567")] != '\0' || mode > MODE_MAX)
        return values_fail(values, OPTION_CONTROL_MODE, "an octal mode from 0 to 0777");
    options->control_mode = (uint32_t)mode;
    return 0;
}

static int check_owner(const struct values *values, struct options *options) {
    static const char expected[] = "USER or USER:GROUP";
    const char *colon;

    if (values_text(values, OPTION_CONTROL_OWNER, USER_BYTES_MAX, expected,
                    &options->control_owner) < 0)
        return -EINVAL;
    colon = options->control_owner ? strchr(options->control_owner, ':') : NULL;
    if (colon && (colon == options->control_owner || colon[1] == '\0' || strchr(colon + 1, ':')))
        return values_fail(values, OPTION_CONTROL_OWNER, expected);
    return 0;
}

int options_daemon_values(const struct values *values, struct options *options) {
    static const char socket[] = "a path of 1 to 107 bytes";
    int level = options->log_level, sandbox = options->sandbox;

    if (check_deadline(values, options) < 0 ||
        values_number(values, OPTION_STATS, 1, STATS_SECONDS_MAX, &options->stats_s) < 0 ||
        check_metrics(values, options) < 0 || check_events(values, options) < 0 ||
        values_number(values, OPTION_EVENTS_RATE, 1, EVENTS_RATE_MAX, &options->events_rate) < 0 ||
        values_choice(values, OPTION_LOG_LEVEL, level_names, 4, "error, warning, info or debug",
                      &level) < 0 ||
        values_text(values, OPTION_CONTROL, SOCKET_BYTES_MAX, socket, &options->control) < 0 ||
        check_mode(values, options) < 0 || check_owner(values, options) < 0 ||
        values_text(values, OPTION_TAKE_OVER, SOCKET_BYTES_MAX, socket, &options->take_over) < 0 ||
        values_text(values, OPTION_USER, USER_BYTES_MAX, "a user's name", &options->user) < 0 ||
        values_choice(values, OPTION_SANDBOX, sandbox_names, 2, "on or off", &sandbox) < 0)
        return -EINVAL;
    options->json = values_get(values, OPTION_JSON);
    options->log_level = (enum log_level)level;
    options->sandbox = sandbox;
    return 0;
}

int options_daemon_paper(const struct values *values) {
    static const enum arguments_option without[] = {OPTION_METRICS, OPTION_EVENTS, OPTION_CONTROL,
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
