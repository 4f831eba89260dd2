// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/options.h"

#include <errno.h>
#include <string.h>

#include "options/daemon.h"
#include "options/explain.h"
#include "options/values.h"

const char options_help[] =
#include "help.inc" // cli/help.txt as a string literal, made by the Makefile
    ;

#define NS_PER_SECOND UINT64_C(1000000000)

/// Reads the first and the last queue of "N" or "N:M".
static bool read_queues(const char *value, uint16_t *first, uint16_t *last) {
    const char *colon = strchr(value, ':'), *end = value + strlen(value);
    uint32_t from, to;

    if (!values_read_number(value, colon ? colon : end, option_facts[OPTION_QUEUE].max, &from))
        return false;
    to = from;
    if (colon && !values_read_number(colon + 1, end, option_facts[OPTION_QUEUE].max, &to))
        return false;
    if (to < from || to - from >= OPTION_QUEUES_MAX)
        return false;
    *first = (uint16_t)from;
    *last = (uint16_t)to;
    return true;
}

static int check_queue(const struct values *values, struct options *options) {
    const char *value = values_get(values, OPTION_QUEUE);

    if (!value || read_queues(value, &options->queue_first, &options->queue_last))
        return 0;
    return values_fail(values, OPTION_QUEUE);
}

/// The value of an option that is not given.
static uint32_t default_of(enum arguments_option option, enum options_profile profile) {
    return option_facts[option].defaults[profile];
}

/// The options of a profile.
static struct options profile_options(enum options_profile profile) {
    return (struct options){
        .queue_first = (uint16_t)default_of(OPTION_QUEUE, profile),
        .queue_last = (uint16_t)default_of(OPTION_QUEUE, profile),
        .backend = (enum queue_kind)default_of(OPTION_BACKEND, profile),
        .profile = profile,
        .copy_bytes = default_of(OPTION_COPY_BYTES, profile),
        .batch = default_of(OPTION_BATCH, profile),
        .receive_buffer = default_of(OPTION_RECEIVE_BUFFER, profile),
        .queue_length = default_of(OPTION_QUEUE_LENGTH, profile),
        .gso = default_of(OPTION_GSO, profile),
        .spin_us = default_of(OPTION_SPIN, profile),
        .coalesce_us = default_of(OPTION_COALESCE, profile),
        .default_verdict = default_of(OPTION_DEFAULT, profile) ? VERDICT_DROP : VERDICT_ACCEPT,
        .malformed_by_policy = default_of(OPTION_MALFORMED, profile),
        .conntrack = (enum options_conntrack)default_of(OPTION_CONNTRACK, profile),
        .undecided_verdict = VERDICT_ACCEPT,
        .undecided_bytes = default_of(OPTION_UNDECIDED, profile),
        .connections = default_of(OPTION_CONNECTIONS, profile),
        .hello_memory = default_of(OPTION_HELLO_MEMORY, profile),
        .hello_timeout_s = default_of(OPTION_HELLO_TIMEOUT, profile),
        .learned = default_of(OPTION_LEARNED, profile),
        .deadline_ms = default_of(OPTION_DEADLINE, profile),
        .stats_s = default_of(OPTION_STATS, profile),
        .events_rate = default_of(OPTION_EVENTS_RATE, profile),
        .log_level = (enum log_level)default_of(OPTION_LOG_LEVEL, profile),
        .control_mode = default_of(OPTION_CONTROL_MODE, profile),
        .sandbox = default_of(OPTION_SANDBOX, profile),
    };
}

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

/// Options that the profile paper excludes.
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

    return value && strcmp(value, options_profile_name(OPTIONS_PAPER)) == 0 ? OPTIONS_PAPER
                                                                            : OPTIONS_FAST;
}

/// Options that need --policy.
static int check_policy(const struct values *values, const struct options *options) {
    static const enum arguments_option of_policy[] = {
        OPTION_MALFORMED,   OPTION_CONNTRACK,    OPTION_UNDECIDED,
        OPTION_CONNECTIONS, OPTION_HELLO_MEMORY, OPTION_HELLO_TIMEOUT,
    };

    if (options->policy)
        return 0;
    for (size_t i = 0; i < sizeof of_policy / sizeof *of_policy; i++)
        if (values_get(values, of_policy[i]))
            return values_fail_without(values, of_policy[i], "a policy", "--policy");
    return 0;
}

/// Stores the values of a command line without a command, in the order of the help text.
static int check_run(const struct values *values, struct options *options) {
    int backend = options->backend, profile = options->profile, gso = options->gso;
    int conntrack = options->conntrack;

    if (check_queue(values, options) < 0 || values_choice(values, OPTION_BACKEND, &backend) < 0 ||
        values_choice(values, OPTION_PROFILE, &profile) < 0 ||
        values_number(values, OPTION_COPY_BYTES, &options->copy_bytes) < 0 ||
        values_number(values, OPTION_BATCH, &options->batch) < 0 ||
        values_number(values, OPTION_RECEIVE_BUFFER, &options->receive_buffer) < 0 ||
        values_number(values, OPTION_QUEUE_LENGTH, &options->queue_length) < 0 ||
        values_choice(values, OPTION_GSO, &gso) < 0 ||
        values_number(values, OPTION_SPIN, &options->spin_us) < 0 ||
        values_number(values, OPTION_COALESCE, &options->coalesce_us) < 0 ||
        values_path(values, values_get(values, OPTION_POLICY)) < 0 ||
        options_daemon_decision(values, options) < 0 ||
        values_choice(values, OPTION_CONNTRACK, &conntrack) < 0 ||
        options_daemon_names(values, options) < 0 || options_daemon_fail(values, options) < 0 ||
        options_daemon_values(values, options) < 0)
        return -EINVAL;
    options->pin = values_get(values, OPTION_PIN);
    options->backend = (enum queue_kind)backend;
    options->copy_bytes_asked = values_get(values, OPTION_COPY_BYTES);
    options->receive_buffer_asked = values_get(values, OPTION_RECEIVE_BUFFER);
    options->gso = gso;
    options->policy = values_get(values, OPTION_POLICY);
    options->conntrack = (enum options_conntrack)conntrack;
    if (profile == OPTIONS_PAPER && check_paper(values, options) < 0)
        return -EINVAL;
    return check_policy(values, options) < 0 ? -EINVAL : options_daemon_alone(values);
}

/// Stores the values of `check`.
static int check_check(const struct values *values, struct options *options) {
    const char *policy = values->arguments->words[0];

    if (values_path(values, policy) < 0)
        return -EINVAL;
    options->policy = policy;
    options->print = values_get(values, OPTION_PRINT);
    return 0;
}

int options_parse(int argc, char **argv, struct options *options, struct failure *failure) {
    struct arguments arguments;
    const struct values values = {.arguments = &arguments, .failure = failure};
    struct options checked;

    if (arguments_parse(argc, argv, &arguments, failure) < 0)
        return -EINVAL;
    if (arguments.text != ARGUMENTS_NO_TEXT)
        return arguments.text == ARGUMENTS_HELP ? OPTIONS_ACTION_HELP : OPTIONS_ACTION_VERSION;
    checked = profile_options(profile_of(&values));
    if (arguments.command == ARGUMENTS_CHECK) {
        if (check_check(&values, &checked) < 0)
            return -EINVAL;
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
    if (options->copy_bytes_asked && options->copy_bytes < requirement->copy_bytes) {
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

void options_provide(struct options *options, const struct requirement *requirement) {
    if (!options->copy_bytes_asked && options->copy_bytes < requirement->copy_bytes)
        options->copy_bytes = requirement->copy_bytes;
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
        .names = requirement_reads_names(requirement),
    };
}

struct connection_settings options_connections(const struct options *options) {
    return (struct connection_settings){
        .connections = options->connections,
        .hello_bytes = options->hello_memory,
        .hello_timeout_ns = options->hello_timeout_s * NS_PER_SECOND,
        .undecided_bytes = options->undecided_bytes,
    };
}
