// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/options.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "options/daemon.h"
#include "options/explain.h"
#include "options/values.h"

enum {
    WAIT_US_MAX = 1000, // of --spin and --coalesce
};

const char options_help[] =
#include "help.inc" // cli/help.txt as a string literal, made by the Makefile
    ;

static const char *const backend_names[] = {
    [QUEUE_CLASSIC] = "classic", [QUEUE_MNL] = "mnl", [QUEUE_RAW] = "raw"};
static const char *const profile_names[] = {[OPTIONS_FAST] = "fast", [OPTIONS_PAPER] = "paper"};
static const char *const gso_names[] = {"off", "on"};
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

static int check_queue(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_QUEUE);
    const char *colon, *end;
    uint32_t first, last;

    if (!value)
        return 0;
    end = value + strlen(value);
    colon = strchr(value, ':');
    if (!values_read_number(value, colon ? colon : end, UINT16_MAX, &first))
        goto fail;
    last = first;
    if (colon && !values_read_number(colon + 1, end, UINT16_MAX, &last))
        goto fail;
    if (last < first || last - first >= OPTIONS_QUEUES_MAX)
        goto fail;
    options->queue_first = (uint16_t)first;
    options->queue_last = (uint16_t)last;
    return 0;

fail:
    return values_fail(values, OPTION_QUEUE, "N or N:M, 0 <= N <= M <= 65535, at most 256 queues");
}

static const struct options profiles[] = {
    [OPTIONS_FAST] =
        {
            .backend = QUEUE_RAW,
            .profile = OPTIONS_FAST,
            .explain = {.iif = "", .oif = ""},
            .copy_bytes = PACKET_COPY_BYTES,
            .batch = 64,
            .receive_buffer = 67108864,
            .queue_length = 131072,
            .gso = true,
            .spin_us = 50,
            .coalesce_us = 60,
            .deadline_ms = 1000,
            .events_rate = 1000,
            .log_level = LOG_INFO,
            .control_mode = 0600,
            .sandbox = true,
        },
    [OPTIONS_PAPER] =
        {
            .backend = QUEUE_CLASSIC,
            .profile = OPTIONS_PAPER,
            .copy_bytes = 65535,
            .batch = 1,
            .queue_length = 1024,
            .events_rate = 1000,
            .log_level = LOG_INFO,
            .control_mode = 0600,
            .sandbox = true,
        },
};
static_assert(sizeof profiles / sizeof *profiles == OPTIONS_PROFILE_COUNT, "all defined");
static_assert(VERDICT_ACCEPT == 0, "the default of --default is what zeroed options hold");

static int fail_fixed(const struct values *values, enum arguments_option option) {
    failure_set(values->failure, LOG_EXIT_USAGE,
                "--profile paper fixes --%s: leave it out or use --profile fast",
                arguments_name(option));
    return -EINVAL;
}

static int fail_accepting(const struct values *values, enum arguments_option option) {
    failure_set(values->failure, LOG_EXIT_USAGE,
                "--profile paper accepts every packet: leave --%s out or use --profile fast",
                arguments_name(option));
    return -EINVAL;
}

/// What the profile paper doesn't allow.
static int check_paper(const struct values *values, const struct options *options) {
    if (options->batch != 1)
        return fail_fixed(values, OPTION_BATCH);
    if (values_get(values, OPTION_SPIN))
        return fail_fixed(values, OPTION_SPIN);
    if (values_get(values, OPTION_COALESCE))
        return fail_fixed(values, OPTION_COALESCE);
    if (options->policy)
        return fail_accepting(values, OPTION_POLICY);
    if (options->default_verdict != VERDICT_ACCEPT)
        return fail_accepting(values, OPTION_DEFAULT);
    return options_daemon_paper(values);
}

/// The profile whose values options that weren't given have; a wrong name is found by check_values.
static enum options_profile profile_of(const struct values *values) {
    const char *value = values_get(values, OPTION_PROFILE);

    return value && strcmp(value, profile_names[OPTIONS_PAPER]) == 0 ? OPTIONS_PAPER : OPTIONS_FAST;
}

/// What has no meaning without --policy.
static int check_policy(const struct values *values, const struct options *options) {
    if (options->policy)
        return 0;
    if (values_get(values, OPTION_MALFORMED))
        return values_fail_without(values, OPTION_MALFORMED, "a policy", "--policy");
    if (values_get(values, OPTION_CONNTRACK))
        return values_fail_without(values, OPTION_CONNTRACK, "a policy", "--policy");
    return 0;
}

/// The values of a command line without a command, in the order of the help text.
static int check_run(const struct values *values, struct options *options) {
    int backend = options->backend, profile = options->profile, gso = options->gso;
    int conntrack = options->conntrack;

    if (check_queue(values, options) < 0 ||
        values_choice(values, OPTION_BACKEND, backend_names, QUEUE_KIND_COUNT,
                      "classic, mnl or raw", &backend) < 0 ||
        values_choice(values, OPTION_PROFILE, profile_names, OPTIONS_PROFILE_COUNT, "fast or paper",
                      &profile) < 0 ||
        values_number(values, OPTION_COPY_BYTES, 0, UINT16_MAX, &options->copy_bytes) < 0 ||
        values_number(values, OPTION_BATCH, 1, VERDICT_PACKETS_MAX, &options->batch) < 0 ||
        values_number(values, OPTION_RECEIVE_BUFFER, 0, INT32_MAX / 2, &options->receive_buffer) <
            0 ||
        values_number(values, OPTION_QUEUE_LENGTH, 1, UINT32_MAX, &options->queue_length) < 0 ||
        values_choice(values, OPTION_GSO, gso_names, 2, "on or off", &gso) < 0 ||
        values_number(values, OPTION_SPIN, 0, WAIT_US_MAX, &options->spin_us) < 0 ||
        values_number(values, OPTION_COALESCE, 0, WAIT_US_MAX, &options->coalesce_us) < 0 ||
        values_path(values, values_get(values, OPTION_POLICY)) < 0 ||
        options_daemon_decision(values, options) < 0 ||
        values_choice(values, OPTION_CONNTRACK, conntrack_names, OPTIONS_CONNTRACK_COUNT,
                      "auto, attribute or mark", &conntrack) < 0 ||
        options_daemon_fail(values, options) < 0 || options_daemon_values(values, options) < 0)
        return -EINVAL;
    options->pin = values_get(values, OPTION_PIN);
    options->backend = (enum queue_kind)backend;
    options->receive_buffer_asked = values_get(values, OPTION_RECEIVE_BUFFER);
    options->gso = gso;
    options->policy = values_get(values, OPTION_POLICY);
    options->conntrack = (enum options_conntrack)conntrack;
    if (profile == OPTIONS_PAPER && check_paper(values, options) < 0)
        return -EINVAL;
    return check_policy(values, options) < 0 ? -EINVAL : options_daemon_alone(values);
}

int options_parse(int argc, char **argv, struct options *options, struct failure *failure) {
    struct arguments arguments;
    const struct values values = {.arguments = &arguments, .failure = failure};
    struct options checked;

    if (arguments_parse(argc, argv, &arguments, failure) < 0)
        return -EINVAL;
    if (arguments.text != ARGUMENTS_NO_TEXT)
        return arguments.text == ARGUMENTS_HELP ? OPTIONS_ACTION_HELP : OPTIONS_ACTION_VERSION;
    checked = profiles[profile_of(&values)];
    if (arguments.command == ARGUMENTS_CHECK) {
        if (values_path(&values, arguments.words[0]) < 0)
            return -EINVAL;
        checked.policy = arguments.words[0];
        checked.print = values_get(&values, OPTION_PRINT);
    } else if (arguments.command == ARGUMENTS_EXPLAIN) {
        if (options_explain_values(&values, &checked) < 0)
            return -EINVAL;
    } else if (check_run(&values, &checked) < 0) {
        return -EINVAL;
    }
    *options = checked;
    return arguments.command == ARGUMENTS_RUN     ? OPTIONS_ACTION_RUN
           : arguments.command == ARGUMENTS_CHECK ? OPTIONS_ACTION_CHECK
                                                  : OPTIONS_ACTION_EXPLAIN;
}

int options_require(const struct options *options, const struct requirement *requirement,
                    struct failure *failure) {
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
        .receive_buffer_required = options->receive_buffer_asked,
        .queue_length = options->queue_length,
        .gso = options->gso,
        .fail_open = options->fail_open[OPTIONS_OVERLOAD],
        .uid_gid = requirement && requirement->uid_gid,
        .conntrack = conntrack,
    };
}
