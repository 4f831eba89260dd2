// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "source.h"

enum {
    WAIT_US_MAX = 1000,        // of --spin and --coalesce
    STATS_SECONDS_MAX = 86400, // of --stats
};

const char options_help[] =
#include "help.inc" // cli/help.txt as a string literal, made by the Makefile
    ;

static const char *const backend_names[] = {
    [QUEUE_CLASSIC] = "classic", [QUEUE_MNL] = "mnl", [QUEUE_RAW] = "raw"};
static const char *const profile_names[] = {[OPTIONS_FAST] = "fast", [OPTIONS_PAPER] = "paper"};
static const char *const gso_names[] = {"off", "on"};
static const char *const default_names[] = {[VERDICT_ACCEPT] = "accept", [VERDICT_DROP] = "drop"};
static const char *const fail_names[] = {"closed", "open"};
static const char *const malformed_names[] = {"fail", "policy"};
static const char *const conntrack_names[] = {[OPTIONS_CONNTRACK_AUTO] = "auto",
                                              [OPTIONS_CONNTRACK_ATTRIBUTE] = "attribute",
                                              [OPTIONS_CONNTRACK_MARK] = "mark"};
static_assert(sizeof backend_names / sizeof *backend_names == QUEUE_KIND_COUNT, "all named");
static_assert(sizeof profile_names / sizeof *profile_names == OPTIONS_PROFILE_COUNT, "all named");
static_assert(sizeof conntrack_names / sizeof *conntrack_names == OPTIONS_CONNTRACK_COUNT, "all");

const char *options_backend_name(enum queue_kind kind) { return backend_names[kind]; }

const char *options_profile_name(enum options_profile profile) { return profile_names[profile]; }

const char *options_conntrack_name(enum options_conntrack conntrack) {
    return conntrack_names[conntrack];
}

/// What the command line gave, and where to say what is wrong with it.
struct given {
    const struct arguments *arguments;
    struct failure *failure;
};

static const char *value_of(const struct given *given, enum arguments_option option) {
    return given->arguments->values[option];
}

static int fail_value(const struct given *given, enum arguments_option option,
                      const char *expected) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    failure_set(given->failure, LOG_EXIT_USAGE, "--%s \"%s\": expected %s", arguments_name(option),
                arguments_quote(value_of(given, option), quoted), expected);
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

static int check_number(const struct given *given, enum arguments_option option, uint32_t min,
                        uint32_t max, uint32_t *number) {
    const char *value = value_of(given, option);
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

static int check_choice(const struct given *given, enum arguments_option option,
                        const char *const *names, int count, const char *expected, int *choice) {
    const char *value = value_of(given, option);

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
    const char *value = value_of(given, OPTION_QUEUE);
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
            .explain = {.iif = "", .oif = ""},
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

static int fail_fixed(const struct given *given, enum arguments_option option) {
    failure_set(given->failure, LOG_EXIT_USAGE,
                "--profile paper fixes --%s: leave it out or use --profile fast",
                arguments_name(option));
    return -EINVAL;
}

static int fail_accepting(const struct given *given, enum arguments_option option) {
    failure_set(given->failure, LOG_EXIT_USAGE,
                "--profile paper accepts every packet: leave --%s out or use --profile fast",
                arguments_name(option));
    return -EINVAL;
}

/// What the profile paper doesn't allow.
static int check_paper(const struct given *given, const struct options *options) {
    if (options->batch != 1)
        return fail_fixed(given, OPTION_BATCH);
    if (value_of(given, OPTION_SPIN))
        return fail_fixed(given, OPTION_SPIN);
    if (value_of(given, OPTION_COALESCE))
        return fail_fixed(given, OPTION_COALESCE);
    if (options->policy)
        return fail_accepting(given, OPTION_POLICY);
    if (options->default_verdict != VERDICT_ACCEPT)
        return fail_accepting(given, OPTION_DEFAULT);
    return 0;
}

/// The profile whose values options that weren't given have; a wrong name is found by check_values.
static enum options_profile profile_of(const struct given *given) {
    const char *value = value_of(given, OPTION_PROFILE);

    return value && strcmp(value, profile_names[OPTIONS_PAPER]) == 0 ? OPTIONS_PAPER : OPTIONS_FAST;
}

static int fail_without_policy(const struct given *given, enum arguments_option option) {
    failure_set(given->failure, LOG_EXIT_USAGE,
                "--%s has no meaning without a policy: add --policy or leave it out",
                arguments_name(option));
    return -EINVAL;
}

/// What has no meaning without --policy.
static int check_policy(const struct given *given, const struct options *options) {
    if (options->policy)
        return 0;
    if (value_of(given, OPTION_MALFORMED))
        return fail_without_policy(given, OPTION_MALFORMED);
    if (value_of(given, OPTION_CONNTRACK))
        return fail_without_policy(given, OPTION_CONNTRACK);
    return 0;
}

/// A path is text, as what quotes it is.
static int check_path(const struct given *given, const char *path) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    if (!path || source_check((const uint8_t *)path, strlen(path)) == strlen(path))
        return 0;
    failure_set(given->failure, LOG_EXIT_USAGE, "\"%s\": expected a path in UTF-8",
                arguments_quote(path, quoted));
    return -EINVAL;
}

/// The values of a command line without a command, in the order of the help text.
static int check_run(const struct given *given, struct options *options) {
    int backend = options->backend, profile = options->profile, gso = options->gso;
    int verdict = options->default_verdict, fail_open = options->fail_open;
    int by_policy = options->malformed_by_policy, conntrack = options->conntrack;

    if (check_queue(given, options) < 0 ||
        check_choice(given, OPTION_BACKEND, backend_names, QUEUE_KIND_COUNT, "classic, mnl or raw",
                     &backend) < 0 ||
        check_choice(given, OPTION_PROFILE, profile_names, OPTIONS_PROFILE_COUNT, "fast or paper",
                     &profile) < 0 ||
        check_number(given, OPTION_COPY_BYTES, 0, UINT16_MAX, &options->copy_bytes) < 0 ||
        check_number(given, OPTION_BATCH, 1, VERDICT_RUNS_MAX, &options->batch) < 0 ||
        check_number(given, OPTION_RECEIVE_BUFFER, 0, INT32_MAX / 2, &options->receive_buffer) <
            0 ||
        check_number(given, OPTION_QUEUE_LENGTH, 1, UINT32_MAX, &options->queue_length) < 0 ||
        check_choice(given, OPTION_GSO, gso_names, 2, "on or off", &gso) < 0 ||
        check_number(given, OPTION_SPIN, 0, WAIT_US_MAX, &options->spin_us) < 0 ||
        check_number(given, OPTION_COALESCE, 0, WAIT_US_MAX, &options->coalesce_us) < 0 ||
        check_path(given, value_of(given, OPTION_POLICY)) < 0 ||
        check_choice(given, OPTION_DEFAULT, default_names, 2, "accept or drop", &verdict) < 0 ||
        check_choice(given, OPTION_FAIL, fail_names, 2, "open or closed", &fail_open) < 0 ||
        check_choice(given, OPTION_MALFORMED, malformed_names, 2, "fail or policy", &by_policy) <
            0 ||
        check_choice(given, OPTION_CONNTRACK, conntrack_names, OPTIONS_CONNTRACK_COUNT,
                     "auto, attribute or mark", &conntrack) < 0 ||
        check_number(given, OPTION_STATS, 1, STATS_SECONDS_MAX, &options->stats_s) < 0)
        return -EINVAL;
    options->pin = value_of(given, OPTION_PIN);
    options->json = value_of(given, OPTION_JSON);
    options->backend = (enum queue_kind)backend;
    options->copy_bytes_given = value_of(given, OPTION_COPY_BYTES);
    options->receive_buffer_given = value_of(given, OPTION_RECEIVE_BUFFER);
    options->gso = gso;
    options->policy = value_of(given, OPTION_POLICY);
    options->default_verdict = (enum verdict)verdict;
    options->fail_open = fail_open;
    options->malformed_by_policy = by_policy;
    options->conntrack = (enum options_conntrack)conntrack;
    if (profile == OPTIONS_PAPER && check_paper(given, options) < 0)
        return -EINVAL;
    return check_policy(given, options);
}

static int check_hook(const struct given *given, struct options_explain *explain) {
    const char *value = value_of(given, OPTION_HOOK);

    if (!value)
        return 0;
    explain->has_hook = true;
    for (int hook = 0; hook < POLICY_HOOK_COUNT; hook++) {
        if (strcmp(value, policy_hook_name((enum policy_hook)hook)) == 0) {
            explain->hook = (enum policy_hook)hook;
            return 0;
        }
    }
    return fail_value(given, OPTION_HOOK, "input, output, forward, prerouting or postrouting");
}

static int check_interface(const struct given *given, enum arguments_option option,
                           const char **name) {
    const char *value = value_of(given, option);

    if (!value)
        return 0;
    if (*value == '\0' || strlen(value) >= IF_NAMESIZE)
        return fail_value(given, option, "an interface name of 1 to 15 bytes");
    *name = value;
    return 0;
}

/// Reads hexadecimal digits, and nothing else, to the end.
static bool read_hexadecimal(const char *text, uint32_t *number) {
    uint64_t read = 0;

    if (*text == '\0' || text[strspn(text, "0123456789abcdefABCDEF")] != '\0')
        return false;
    for (; *text; text++) {
        const char digit[] = {*text, '\0'};

        read = read * 16 + strtoul(digit, NULL, 16);
        if (read > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)read;
    return true;
}

static int check_mark(const struct given *given, enum arguments_option option, bool *has,
                      uint32_t *mark) {
    const char *value = value_of(given, option);
    bool good;

    if (!value)
        return 0;
    if (strncmp(value, "0x", 2) == 0)
        good = read_hexadecimal(value + 2, mark);
    else
        good = read_number(value, value + strlen(value), UINT32_MAX, mark);
    if (!good)
        return fail_value(given, option,
                          "a number from 0 to 4294967295, decimal or 0x hexadecimal");
    *has = true;
    return 0;
}

static int check_id(const struct given *given, enum arguments_option option, bool *has,
                    uint32_t *id) {
    *has = value_of(given, option);
    return check_number(given, option, 0, UINT32_MAX - 1, id);
}

static const struct {
    const char *name;
    uint32_t bit; // as POLICY_CT_STATE
} ct_states[] = {{"invalid", 1}, {"established", 2}, {"related", 4}, {"new", 8}, {"untracked", 64}};

/// The bit of a state's name of so many bytes, 0 if there is none.
static uint32_t ct_state_of(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof ct_states / sizeof *ct_states; i++)
        if (strlen(ct_states[i].name) == length && strncmp(ct_states[i].name, name, length) == 0)
            return ct_states[i].bit;
    return 0;
}

static int check_ct_state(const struct given *given, struct options_explain *explain) {
    const char *at = value_of(given, OPTION_CT_STATE);

    if (!at)
        return 0;
    explain->has_ct_state = true;
    for (;; at++) {
        const size_t length = strcspn(at, ",");
        const uint32_t bit = ct_state_of(at, length);

        if (bit == 0)
            return fail_value(given, OPTION_CT_STATE,
                              "new, established, related, invalid or untracked");
        explain->ct_state |= bit;
        at += length;
        if (*at == '\0')
            return 0;
    }
}

/// The values of `explain`, in the order of the help text.
static int check_explain(const struct given *given, struct options *options) {
    struct options_explain *explain = &options->explain;
    int verdict = options->default_verdict, fail_open = options->fail_open;
    int by_policy = options->malformed_by_policy;
    bool has_mark;

    if (check_choice(given, OPTION_DEFAULT, default_names, 2, "accept or drop", &verdict) < 0 ||
        check_choice(given, OPTION_FAIL, fail_names, 2, "open or closed", &fail_open) < 0 ||
        check_choice(given, OPTION_MALFORMED, malformed_names, 2, "fail or policy", &by_policy) <
            0 ||
        check_hook(given, explain) < 0 || check_interface(given, OPTION_IIF, &explain->iif) < 0 ||
        check_interface(given, OPTION_OIF, &explain->oif) < 0 ||
        check_mark(given, OPTION_MARK, &has_mark, &explain->mark) < 0 ||
        check_id(given, OPTION_UID, &explain->has_uid, &explain->uid) < 0 ||
        check_id(given, OPTION_GID, &explain->has_gid, &explain->gid) < 0 ||
        check_ct_state(given, explain) < 0 ||
        check_mark(given, OPTION_CT_MARK, &explain->has_ct_mark, &explain->ct_mark) < 0 ||
        check_path(given, given->arguments->words[0]) < 0 ||
        check_path(given, given->arguments->words[1]) < 0)
        return -EINVAL;
    options->default_verdict = (enum verdict)verdict;
    options->fail_open = fail_open;
    options->malformed_by_policy = by_policy;
    options->json = value_of(given, OPTION_JSON);
    options->policy = given->arguments->words[0];
    explain->capture = given->arguments->words[1];
    return 0;
}

int options_parse(int argc, char **argv, struct options *options, struct failure *failure) {
    struct arguments arguments;
    const struct given given = {.arguments = &arguments, .failure = failure};
    struct options checked;

    if (arguments_parse(argc, argv, &arguments, failure) < 0)
        return -EINVAL;
    if (arguments.text != ARGUMENTS_NO_TEXT)
        return arguments.text == ARGUMENTS_HELP ? OPTIONS_ACTION_HELP : OPTIONS_ACTION_VERSION;
    checked = profiles[profile_of(&given)];
    if (arguments.command == ARGUMENTS_CHECK) {
        if (check_path(&given, arguments.words[0]) < 0)
            return -EINVAL;
        checked.policy = arguments.words[0];
        checked.print = value_of(&given, OPTION_PRINT);
    } else if (arguments.command == ARGUMENTS_EXPLAIN) {
        if (check_explain(&given, &checked) < 0)
            return -EINVAL;
    } else if (check_run(&given, &checked) < 0) {
        return -EINVAL;
    }
    *options = checked;
    return arguments.command == ARGUMENTS_RUN     ? OPTIONS_ACTION_RUN
           : arguments.command == ARGUMENTS_CHECK ? OPTIONS_ACTION_CHECK
                                                  : OPTIONS_ACTION_EXPLAIN;
}

int options_require(struct options *options, const struct requirement *requirement,
                    struct failure *failure) {
    if (!options->copy_bytes_given)
        options->copy_bytes = requirement->copy_bytes;
    if (options->copy_bytes < requirement->copy_bytes) {
        failure_set(failure, LOG_EXIT_USAGE,
                    "the policy reads %u bytes of a packet where --copy-bytes gives it %u: "
                    "ask for %u or leave --copy-bytes out",
                    requirement->copy_bytes, options->copy_bytes, requirement->copy_bytes);
        return -EINVAL;
    }
    if (requirement->conntrack_mark && options->conntrack == OPTIONS_CONNTRACK_MARK) {
        failure_set(failure, LOG_EXIT_USAGE,
                    "the policy uses ct mark, which --conntrack mark does not give: "
                    "use --conntrack attribute or take ct mark out of the policy");
        return -EINVAL;
    }
    return 0;
}

struct queue_settings options_queue(const struct options *options,
                                    const struct requirement *requirement, uint16_t number) {
    const bool conntrack = requirement &&
                           (requirement->conntrack_state || requirement->conntrack_mark) &&
                           options->conntrack != OPTIONS_CONNTRACK_MARK;
    const uint32_t copied = options->copy_bytes + (conntrack ? QUEUE_CONNTRACK_BYTES : 0);

    return (struct queue_settings){
        .number = number,
        .kind = options->backend,
        .copy_bytes = options->copy_bytes,
        .batch = options->batch,
        .slot_bytes = options->profile == OPTIONS_PAPER ? OPTIONS_PAPER_SLOT_BYTES
                                                        : queue_socket_slot_bytes(copied),
        .receive_buffer = options->receive_buffer,
        .receive_buffer_required = options->receive_buffer_given,
        .queue_length = options->queue_length,
        .gso = options->gso,
        .fail_open = options->fail_open,
        .uid_gid = requirement && requirement->uid_gid,
        .conntrack = conntrack,
    };
}
