// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "connection/asked.h"
#include "connection/follow.h"
#include "engine/fields.h"
#include "engine/interface.h"
#include "engine/learned.h"
#include "engine/named.h"
#include "engine/teach.h"
#include "explain/comment.h"
#include "explain/json.h"
#include "explain/text.h"
#include "explain/types.h"
#include "packet/pcap.h"
#include "policy/parse/parse.h"
#include "worker/reject.h"

enum {
    GENERATION = 1, // generation of the only policy
};

static int engine_make(struct explain_engine *engine, struct explain *explain, bool linear,
                       struct failure *failure) {
    const struct compile_settings settings = {
        .linear = linear, .interface_index = indexes_add, .context = &explain->indexes};
    int result = compile_policy(&explain->policy, &settings, &engine->compiled, failure);

    if (result < 0)
        return result;
    if (explain->indexes.failed) {
        failure_set_start(failure, "realloc", ENOMEM);
        return -ENOMEM;
    }
    result = flow_make(&engine->flow, engine->compiled);
    if (result == 0)
        result = flow_counters_make(&engine->counters, engine->compiled);
    if (result < 0)
        failure_set_start(failure, "calloc", -result);
    return result;
}

static void engine_free(struct explain_engine *engine) {
    flow_counters_free(&engine->counters);
    flow_free(&engine->flow);
    compile_free(engine->compiled);
}

/// Returns the hook of the base chain that comes first in the policy's text; input if there is no
/// base chain.
static enum policy_hook first_hook(const struct policy *policy) {
    for (uint32_t i = 0; i < policy->table_count; i++)
        for (uint32_t j = 0; j < policy->tables[i].chain_count; j++) {
            const struct policy_chain *chain = &policy->tables[i].chains[j];

            if (chain->is_base && chain->declared == 0)
                return chain->hook;
        }
    return POLICY_INPUT;
}

/// Parses the bytes of a packet that the daemon would copy.
/// - inspected: out: the packet's parsed headers, for decide_input.
static enum packet_status inspect(const struct explain *explain, const struct pcap_packet *packet,
                                  struct packet *inspected) {
    const uint32_t copy_bytes = explain->options.copy_bytes;
    const uint32_t captured = packet->captured < copy_bytes ? packet->captured : copy_bytes;

    return packet_parse(packet->bytes, captured, packet->original, inspected);
}

/// Returns the IP version (NFPROTO_*) that the kernel would report for a packet.
/// - version: IP version in the frame; 0 = decide reads it from the packet.
static uint8_t nfproto_of(uint8_t version) {
    if (version == 4)
        return FIELDS_IPV4;
    return version == 6 ? FIELDS_IPV6 : 0;
}

/// Returns the policy's input for a packet, with the metadata that the daemon would have.
/// - parsed: out: result of inspect, to which the input points.
static struct decide_input input_of(const struct explain *explain, const struct pcap_packet *packet,
                                    struct packet *parsed) {
    const struct options_facts *facts = &explain->facts;

    return (struct decide_input){
        .packet = parsed,
        .status = inspect(explain, packet, parsed),
        .hook = (uint8_t)(facts->has_hook ? facts->hook : explain->hook),
        .nfproto = nfproto_of(packet->version),
        .length = packet->original,
        .mark = facts->mark,
        .iif = indexes_iif(&explain->indexes, facts->iif),
        .oif = indexes_oif(&explain->indexes, facts->oif, facts->iif),
        .iifname = interface_value(facts->iif),
        .oifname = interface_value(facts->oif),
        .has_uid = facts->has_uid,
        .has_gid = facts->has_gid,
        .uid = facts->uid,
        .gid = facts->gid,
        .has_ct_state = facts->has_ct_state,
        .ct_state = facts->ct_state,
        .has_ct_mark = facts->has_ct_mark,
        .ct_mark = facts->ct_mark,
        .now_ns = explain->now_ns,
    };
}

static bool same_place(struct compile_place a, struct compile_place b) {
    return a.table == b.table && a.chain == b.chain && a.rule == b.rule;
}

/// Returns true if both engines (with indexes, and without) came to the same decision.
static bool agree(const struct explain *explain, const struct decide_outcome *a,
                  const struct decide_outcome *b) {
    if (a->verdict != b->verdict || a->by != b->by || a->mark_set != b->mark_set ||
        a->mark != b->mark || a->undecidable != b->undecidable || a->undecided != b->undecided ||
        a->read_names != b->read_names)
        return false;
    if (a->verdict == VERDICT_REJECT &&
        (a->reject.kind != b->reject.kind || a->reject.code != b->reject.code))
        return false;
    if (a->by == DECIDE_BY_RULE)
        return same_place(compile_rule_at(explain->daemon.compiled, a->rule),
                          compile_rule_at(explain->linear.compiled, b->rule));
    return a->by != DECIDE_BY_POLICY ||
           same_place(compile_chain_at(explain->daemon.compiled, a->chain),
                      compile_chain_at(explain->linear.compiled, b->chain));
}

static int fail_disagreement(const struct explain *explain, struct failure *failure) {
    failure_set(failure, LOG_EXIT_CALL,
                "packet %llu: the policy as compiled and its rules one by one come to different "
                "results: this is a fault of the program, please report it",
                (unsigned long long)explain->number);
    return -EFAULT;
}

/// Returns true if the counters of both engines are equal.
static bool counters_agree(const struct explain *explain) {
    for (uint32_t i = 0; i < compile_counters(explain->daemon.compiled); i++) {
        struct flow_counter daemon = {0}, linear = {0};

        flow_sum(&explain->daemon.counters, i, &daemon);
        flow_sum(&explain->linear.counters, i, &linear);
        if (daemon.packets != linear.packets || daemon.bytes != linear.bytes)
            return false;
    }
    return true;
}

static void add_verdict(struct explain_sums *sums, enum verdict verdict) {
    sums->packets++;
    if (verdict == VERDICT_ACCEPT)
        sums->accepted++;
    else if (verdict == VERDICT_REJECT)
        sums->rejected++;
    else
        sums->dropped++;
}

/// Returns true if the daemon would send a reply to the current packet.
static bool has_reply(const struct explain *explain, const struct packet *inspected) {
    uint8_t reply[REJECT_IPV6_MAX];

    return explain->outcome.verdict == VERDICT_REJECT && !packet_is_malformed(explain->status) &&
           reject_build(&explain->outcome.reject, inspected, reply) > 0;
}

/// Returns a packet's metadata for the name readers. All checksums count as valid, because a
/// capture does not show which checksums the sender had left to the network card.
static struct connection_input connection_input(const struct explain *explain) {
    return (struct connection_input){.checksum = CONNECTION_CHECKSUM_NOT_READY,
                                     .generation = GENERATION,
                                     .asks_requests =
                                         compile_requirement(explain->daemon.compiled)->requests,
                                     .now_ns = explain->now_ns};
}

/// Follows a packet's connection. Returns false if the policy reads no names.
static bool follow_names(struct explain *explain, const struct packet *parsed,
                         struct named *named) {
    const struct connection_input how = connection_input(explain);

    if (!explain->has_connections)
        return false;
    *named = named_follow(&explain->connections, explain->daemon.compiled, parsed, &how);
    return true;
}

/// Learns addresses from an accepted packet, if the policy learns. Both engines share the
/// addresses.
static void learn(struct explain *explain, const struct packet *parsed) {
    const struct connection_input how = connection_input(explain);
    struct teach_output output = {0}; // explain does not report it

    if (!explain->asked)
        return;
    teach_packet(explain->asked, explain->daemon.compiled, parsed, &how, &output);
}

/// Decides a packet by both engines. Returns 0, or -errno with failure filled in, also if their
/// decisions differ.
static int walk_both(struct explain *explain, const struct decide_settings *settings,
                     const struct decide_input *input, struct failure *failure) {
    const struct decide_recorder recorder = trace_recorder(&explain->trace);
    struct explain_engine *daemon = &explain->daemon, *linear = &explain->linear;
    struct decide_outcome walked;

    trace_clear(&explain->trace);
    decide_packet(settings, daemon->compiled, &daemon->flow, &daemon->counters, input,
                  &explain->outcome);
    decide_trace(settings, linear->compiled, &linear->flow, &linear->counters, input, &walked,
                 &recorder);
    if (explain->trace.failed) {
        failure_set_start(failure, "realloc", ENOMEM);
        return -ENOMEM;
    }
    return agree(explain, &explain->outcome, &walked) ? 0 : fail_disagreement(explain, failure);
}

/// Decides a packet by the policy. A packet with several DNS queries or HTTP requests is decided
/// once for each query or request, until one is not accepted. Stores the names of the last decision
/// in explain->shown. Returns 0, or -errno with failure filled in.
/// - named: in: names of the packet, or of its first query or request; out: those of the last
///   decision. NULL if the policy reads no names.
static int ask_policy(struct explain *explain, const struct decide_settings *settings,
                      struct decide_input *input, struct named *named, struct failure *failure) {
    struct connections *connections = &explain->connections;
    int result;

    do {
        if (named) {
            explain->shown = *connection_names(connections, &named->followed);
            named_tell(named, &explain->shown, input);
        }
        result = walk_both(explain, settings, input, failure);
    } while (result == 0 && named && explain->outcome.verdict == VERDICT_ACCEPT &&
             named_next(connections, explain->daemon.compiled, GENERATION, named));
    return result;
}

/// Decides a packet by both engines, and counts the result. Returns 0, or -errno with failure
/// filled in.
static int decide_both(struct explain *explain, const struct pcap_packet *packet,
                       struct failure *failure) {
    const struct options *options = &explain->options;
    const struct decide_settings settings = {
        .default_verdict = options->default_verdict,
        .malformed_open = options->fail_open[OPTIONS_MALFORMED],
        .truncated_open = options->fail_open[OPTIONS_TRUNCATED],
        .malformed_by_policy = options->malformed_by_policy,
        .undecided_verdict = options->undecided_verdict,
        .unknown_open = options->fail_open[OPTIONS_UNKNOWN],
    };
    struct packet parsed;
    struct decide_input input;
    struct named named;
    uint32_t expected;
    bool has_names;
    int result;

    packet_parse(packet->bytes, packet->captured, packet->original, &explain->packet);
    input = input_of(explain, packet, &parsed);
    has_names = follow_names(explain, &parsed, &named);
    explain->status = input.status;
    result = ask_policy(explain, &settings, &input, has_names ? &named : NULL, failure);
    if (result < 0)
        return result;
    if (has_names)
        named_reset(&explain->connections, &named, &parsed, &explain->outcome, &expected);
    if (has_names && named_refuses(&named, &explain->outcome))
        connection_deny(&explain->connections, &named.followed, GENERATION,
                        explain->outcome.verdict == VERDICT_REJECT);
    if (explain->outcome.verdict == VERDICT_ACCEPT)
        learn(explain, &parsed);
    explain->has_reply = has_reply(explain, &parsed);
    add_verdict(&explain->sums, explain->outcome.verdict);
    return 0;
}

/// Sets the metadata of the current packet from its comment, or from the options if it has no valid
/// comment. Also sets its recorded verdict.
static void set_metadata(struct explain *explain, const struct pcap_packet *packet) {
    struct comment comment = {0};
    const int result =
        packet->comment ? comment_parse(packet->comment, packet->comment_bytes, &comment) : 0;

    if (result < 0)
        explain->sums.damaged++;
    explain->facts =
        packet->comment && result == 0 ? comment.facts : explain->options.explain.facts;
    explain->has_recorded = comment.has_verdict;
    explain->recorded = comment.verdict;
}

static int explain_packet(struct explain *explain, const struct pcap_packet *packet,
                          struct failure *failure) {
    int result;

    explain->number = packet->number;
    if (explain->sums.packets == 0)
        explain->first_ns = explain->now_ns = packet->time_ns;
    if (packet->time_ns > explain->now_ns)
        explain->now_ns = packet->time_ns;
    explain->time_ns = (int64_t)(packet->time_ns - explain->first_ns);
    set_metadata(explain, packet);
    result = decide_both(explain, packet, failure);
    if (result < 0)
        return result;
    explain->sums.recorded += explain->has_recorded;
    explain->sums.different += explain_differs(explain);
    if (explain->options.json)
        explain_json_packet(stdout, explain);
    else
        explain_text_packet(stdout, explain);
    return 0;
}

static int explain_capture(struct explain *explain, struct failure *failure) {
    struct pcap_packet packet;
    struct pcap pcap;
    int result = pcap_open(&pcap, explain->options.explain.capture, failure);

    if (result < 0)
        return result;
    while ((result = pcap_next(&pcap, &packet, failure)) > 0) {
        result = explain_packet(explain, &packet, failure);
        if (result < 0)
            break;
        if (strcmp(explain->options.explain.capture, "-") == 0)
            fflush(stdout); // the capture may be a pipe that stays open for hours
    }
    explain->skipped = pcap.skipped;
    pcap_close(&pcap);
    if (result == 0 && !counters_agree(explain))
        result = fail_disagreement(explain, failure);
    if (result < 0)
        return result;
    if (explain->options.json)
        explain_json_end(stdout, explain);
    else
        explain_text_end(stdout, explain);
    return 0;
}

/// Creates the table of connections, if the policy reads names. Returns 0, or -errno with failure
/// filled in.
static int connections_make(struct explain *explain, struct failure *failure) {
    const struct connection_settings settings = options_connections(&explain->options);
    int result;

    if (!compile_requirement(explain->daemon.compiled)->names)
        return 0;
    result = connection_make(&explain->connections, &settings);
    explain->has_connections = result == 0;
    if (result < 0)
        failure_set_start(failure, "calloc", -result);
    return result;
}

/// Creates the table of learned addresses for both engines, and the table of pending DNS queries,
/// if the policy learns. Returns 0, or -errno with failure filled in.
static int learned_of(struct explain *explain, struct failure *failure) {
    struct compiled *daemon = explain->daemon.compiled;

    if (!compile_requirement(daemon)->learns)
        return 0;
    explain->asked = asked_make();
    daemon->learned = learned_make(explain->options.learned);
    explain->linear.compiled->learned = learned_share(daemon->learned);
    if (explain->asked && daemon->learned)
        return 0;
    failure_set_start(failure, "calloc", ENOMEM);
    return -ENOMEM;
}

/// Checks that all recorded verdicts equal the policy's verdicts. Also fails if the capture has no
/// recorded verdicts.
static int check_expected(const struct explain *explain, struct failure *failure) {
    const struct explain_sums *sums = &explain->sums;
    const char *capture = explain->options.explain.capture;

    if (sums->recorded == 0) {
        failure_set(failure, LOG_EXIT_USAGE,
                    "%s: no packet has a recorded verdict: record some with fwctl record", capture);
        return -EINVAL;
    }
    if (sums->different > 0) {
        failure_set(failure, LOG_EXIT_CALL,
                    "%s: %" PRIu64 " of %" PRIu64
                    " verdicts are not those that were recorded: change the policy, or record anew",
                    capture, sums->different, sums->recorded);
        return -EINVAL;
    }
    return 0;
}

static int explain_all(struct explain *explain, struct failure *failure) {
    struct options *options = &explain->options;
    int result = parse_file(options->policy, &explain->policy, failure);

    if (result < 0)
        return result;
    explain->hook = first_hook(&explain->policy);
    result = engine_make(&explain->daemon, explain, false, failure);
    if (result == 0) {
        options_provide(options, compile_requirement(explain->daemon.compiled));
        result = connections_make(explain, failure);
    }
    if (result == 0)
        result = engine_make(&explain->linear, explain, true, failure);
    if (result == 0)
        result = learned_of(explain, failure);
    if (result == 0)
        result = explain_capture(explain, failure);
    fflush(stdout); // the output comes before the error
    if (result == 0 && options->explain.expect)
        result = check_expected(explain, failure);
    return result;
}

int explain_run(const struct options *options) {
    struct explain explain = {.options = *options};
    struct failure failure;
    const int result = explain_all(&explain, &failure);

    trace_free(&explain.trace);
    if (explain.has_connections)
        connection_free(&explain.connections);
    free(explain.asked);
    engine_free(&explain.linear);
    engine_free(&explain.daemon);
    indexes_free(&explain.indexes);
    policy_free(&explain.policy);
    return result < 0 ? log_fail(&failure) : LOG_EXIT_STOPPED;
}
