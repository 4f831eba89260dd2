// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/report_policy.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/object.h"
#include "explain/describe.h"
#include "state/report_counters.h"

static const char *malformed_name(const struct options *options) {
    return options->malformed_by_policy ? "policy" : "fail";
}

/// Returns the name of the source from which packets get ct state: mark or attribute. The option's
/// value auto means attribute.
static const char *conntrack_name(const struct options *options) {
    return options_conntrack_name(options->conntrack == OPTIONS_CONNTRACK_MARK
                                      ? OPTIONS_CONNTRACK_MARK
                                      : OPTIONS_CONNTRACK_ATTRIBUTE);
}

void report_policy_print_start(FILE *out, const struct options *options,
                               const struct requirement *requirement) {
    fprintf(out, ", malformed %s, policy %s: reads %u bytes", malformed_name(options),
            options->policy, requirement->copy_bytes);
    if (requirement->uid_gid)
        fprintf(out, ", uid and gid");
    if (requirement->conntrack_state)
        fprintf(out, ", ct state by %s", conntrack_name(options));
    if (requirement->conntrack_mark)
        fprintf(out, ", ct mark");
    if (requirement->interface_names)
        fprintf(out, ", interface names");
    if (requirement->reject)
        fprintf(out, "; rejects");
}

/// Returns the larger of `before` and the width of a rule's position as text.
static int widest(const struct tally *tally, struct compile_place place, int before) {
    const int own = describe_place_width(tally->policy, place);

    return own > before ? own : before;
}

/// Prints each counter and log statement: its place, its counts and its rule.
static void print_rules(FILE *out, const struct tally *tally) {
    const uint32_t counters = compile_counters(tally->compiled);
    const uint32_t logs = compile_logs(tally->compiled);
    int width = 0;

    for (uint32_t i = 0; i < counters; i++)
        width = widest(tally, compile_counter_at(tally->compiled, i), width);
    for (uint32_t i = 0; i < logs; i++)
        width = widest(tally, compile_log_at(tally->compiled, i), width);
    for (uint32_t i = 0; i < counters; i++) {
        const struct compile_place place = compile_counter_at(tally->compiled, i);

        fprintf(out, "  ");
        describe_place_padded(out, tally->policy, place, width);
        fprintf(out, "  packets %" PRIu64 " bytes %" PRIu64 "  ", tally->counters[i].packets,
                tally->counters[i].bytes);
        describe_rule_text(out, tally->policy, place);
        fprintf(out, "\n");
    }
    for (uint32_t i = 0; i < logs; i++) {
        const struct compile_place place = compile_log_at(tally->compiled, i);

        fprintf(out, "  ");
        describe_place_padded(out, tally->policy, place, width);
        fprintf(out, "  logged %" PRIu64 "  ", tally->logged[i]);
        describe_rule_text(out, tally->policy, place);
        fprintf(out, "\n");
    }
}

void report_policy_print_ledger(FILE *out, const struct options *options, const struct stats *stats,
                                const struct tally *tally) {
    fprintf(out, "policy %s: ", options->policy);
    report_counters_print(out, stats, COUNTER_POLICY);
    fprintf(out, "; replies: sent %" PRIu64 ", not due %" PRIu64 ", failed %" PRIu64 "\n",
            stats->replies[REJECT_SENT], stats->replies[REJECT_NOT_DUE],
            stats->replies[REJECT_FAILED]);
    print_rules(out, tally);
}

json_t *report_policy_requirement_object(const struct requirement *requirement) {
    json_t *object = json_object();

    object_put_number(object, "copy_bytes", requirement->copy_bytes);
    object_put_bool(object, "layer4", requirement->layer4);
    object_put_bool(object, "uid_gid", requirement->uid_gid);
    object_put_bool(object, "conntrack_state", requirement->conntrack_state);
    object_put_bool(object, "conntrack_mark", requirement->conntrack_mark);
    object_put_bool(object, "interface_names", requirement->interface_names);
    object_put_bool(object, "names", requirement->names);
    object_put_bool(object, "learns", requirement->learns);
    object_put_bool(object, "reject", requirement->reject);
    return object;
}

void report_policy_put_start_object(json_t *object, const struct options *options,
                                    const struct requirement *requirement) {
    object_put_string(object, "malformed", malformed_name(options));
    object_put(object, "conntrack",
               requirement->conntrack_state || requirement->conntrack_mark
                   ? json_string(conntrack_name(options))
                   : json_null());
    object_put_string(object, "policy", options->policy);
    object_put(object, "requirement", report_policy_requirement_object(requirement));
}

/// Returns the JSON object {"rule":…,"statement":…}, to which the caller adds keys.
static json_t *place_object(const struct tally *tally, struct compile_place place) {
    json_t *object = json_object();
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out) {
        describe_place(out, tally->policy, place);
        fclose(out);
    }
    object_put_string(object, "rule", text ? text : "");
    object_put_number(object, "statement", place.statement);
    free(text);
    return object;
}

static json_t *counters_array(const struct tally *tally) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < compile_counters(tally->compiled); i++) {
        json_t *object = place_object(tally, compile_counter_at(tally->compiled, i));

        object_put_number(object, "packets", tally->counters[i].packets);
        object_put_number(object, "bytes", tally->counters[i].bytes);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *logs_array(const struct tally *tally) {
    json_t *array = json_array();

    for (uint32_t i = 0; i < compile_logs(tally->compiled); i++) {
        json_t *object = place_object(tally, compile_log_at(tally->compiled, i));

        object_put_number(object, "packets", tally->logged[i]);
        json_array_append_new(array, object);
    }
    return array;
}

json_t *report_policy_ledger_object(const struct options *options, const struct tally *tally) {
    json_t *object = json_object();

    object_put_string(object, "file", options->policy);
    object_put(object, "counters", counters_array(tally));
    object_put(object, "logs", logs_array(tally));
    return object;
}
