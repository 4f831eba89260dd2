// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/evaluate.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <stdlib.h>
#include <string.h>

#include "connection/asked.h"
#include "connection/follow.h"
#include "engine/fields.h"
#include "engine/teach.h"
#include "worker/pending.h"
#include "worker/stage.h"

enum {
    // Position and mask of the connection state in the packet mark, where rules/queue/conntrack-*
    // store it: NF_CT_STATE_INVALID_BIT, NF_CT_STATE_BIT and NF_CT_STATE_UNTRACKED_BIT, shifted
    // left.
    ASK_CT_STATE_SHIFT = 24,
    ASK_CT_STATES = 0x4f,
    // Interface index of the loopback device in every network namespace (LOOPBACK_IFINDEX,
    // drivers/net/loopback.c).
    LOOPBACK = 1,
    NS_PER_MS = 1000000,
};

struct evaluation_source *evaluate_source_make(struct loaded *loaded) {
    struct evaluation_source *source = calloc(1, sizeof *source);

    if (!source)
        return NULL;
    source->loaded = loaded;
    if (!loaded->compiled)
        return source;
    source->requirement = *load_requirement(loaded);
    if (flow_counters_make(&source->counters, loaded->compiled) < 0) {
        free(source);
        return NULL;
    }
    return source;
}

void evaluate_source_free(struct evaluation_source *source) {
    if (source)
        flow_counters_free(&source->counters);
    free(source);
}

/// Creates the table of a worker's connections.
static int make_connections(struct evaluation *evaluation, const struct options *options) {
    const struct connection_settings settings = options_connections(options);
    int result = 0;

    evaluation->connections = calloc(1, sizeof *evaluation->connections);
    if (!evaluation->connections)
        return -ENOMEM;
    result = connection_make(evaluation->connections, &settings);
    if (result < 0) {
        free(evaluation->connections);
        evaluation->connections = NULL;
    }
    return result;
}

int evaluate_init(struct evaluation *evaluation, const struct options *options,
                  struct evaluation_source *source, const struct reject *reject,
                  struct elements elements, struct event_ring *ring) {
    *evaluation = (struct evaluation){
        .source = source,
        .reject = reject,
        .ring = ring,
        .decide = {.default_verdict = options->default_verdict,
                   .malformed_open = options->fail_open[OPTIONS_MALFORMED],
                   .truncated_open = options->fail_open[OPTIONS_TRUNCATED],
                   .malformed_by_policy = options->malformed_by_policy,
                   .undecided_verdict = options->undecided_verdict,
                   .unknown_open = options->fail_open[OPTIONS_UNKNOWN]},
        .stage = options->stage,
        .elements = elements,
        .settled = options->settled,
        .ct_state_by_mark = options->conntrack == OPTIONS_CONNTRACK_MARK,
    };
    // Both tables are created, even if this policy needs only one table: a later policy may need
    // the other table.
    if (!requirement_reads_names(&source->requirement))
        return 0;
    evaluation->asked = asked_make();
    if (evaluation->asked && make_connections(evaluation, options) == 0)
        return 0;
    evaluate_free(evaluation);
    return -ENOMEM;
}

void evaluate_free(struct evaluation *evaluation) {
    if (evaluation->connections)
        connection_free(evaluation->connections);
    free(evaluation->connections);
    free(evaluation->asked);
    elements_close(&evaluation->elements);
    evaluation->connections = NULL;
    evaluation->asked = NULL;
}

bool evaluate_has_policy(const struct evaluation *evaluation) {
    return evaluation->source->loaded->compiled;
}

/// Fills in the connection state from the bits of the packet mark in which rules/queue/conntrack-*
/// store it. Clears these bits in the policy's input.
static void take_ct_state_of_mark(struct decide_input *input) {
    const uint32_t state = input->mark >> ASK_CT_STATE_SHIFT & ASK_CT_STATES;

    input->mark &= ~(uint32_t)(ASK_CT_STATES << ASK_CT_STATE_SHIFT);
    input->has_ct_state = state != 0;
    input->ct_state = state;
}

/// Fills in the connection state from the kernel's attribute NFQA_CT_INFO. A packet without a
/// connection (invalid or untracked) has no state.
static void take_ct_info(uint32_t ct_info, struct decide_input *input) {
    input->has_ct_state = ct_info < IP_CT_NUMBER;
    if (input->has_ct_state)
        input->ct_state = NF_CT_STATE_BIT(ct_info);
}

static uint8_t nfproto_of(uint16_t ethertype) {
    if (ethertype == ETH_P_IP)
        return FIELDS_IPV4;
    return ethertype == ETH_P_IPV6 ? FIELDS_IPV6 : 0;
}

/// Returns the policy's input for a packet, without the names of its connection.
static struct decide_input input_of(struct evaluation *evaluation,
                                    const struct queue_packet *packet, const struct packet *parsed,
                                    enum packet_status status) {
    struct decide_input input = {
        .packet = parsed,
        .status = status,
        .truncated = packet->truncated,
        .hook = packet->hook,
        .nfproto = nfproto_of(packet->ethertype),
        .length = packet->original_bytes,
        .mark = packet->mark,
        .iif = packet->indev,
        .oif = packet->outdev,
        .has_uid = packet->uid != QUEUE_UNKNOWN,
        .has_gid = packet->gid != QUEUE_UNKNOWN,
        .uid = packet->uid,
        .gid = packet->gid,
        .has_ct_mark = packet->has_ct_mark,
        .ct_mark = packet->ct_mark,
        .now_ns = evaluation->now_ns,
    };

    if (evaluation->ct_state_by_mark)
        take_ct_state_of_mark(&input);
    else
        take_ct_info(packet->ct_info, &input);
    if (evaluation->source->requirement.interface_names) {
        input.iifname = interface_name(&evaluation->interfaces, packet->indev, evaluation->now_ns);
        input.oifname = interface_name(&evaluation->interfaces, packet->outdev, evaluation->now_ns);
    }
    return input;
}

/// Returns the index of the first interface, or of the second interface if the first index is 0.
static uint32_t either(uint32_t first, uint32_t second) { return first != 0 ? first : second; }

static void count_reply(struct stats *stats, enum reject_result result) {
    stats_add(&stats->replies[result], 1);
}

/// Sends the replies to a rejected packet, and counts the results. A packet may get no reply
/// (REJECT_NOT_DUE).
/// - expected: sequence number of a RST to the packet's destination; NULL = only the packet's
///   source gets a reply.
static void send_replies(const struct reject *reject, struct stats *stats,
                         const struct queue_packet *packet, const struct packet *parsed,
                         enum packet_status status, const struct policy_reject *how,
                         const uint32_t *expected) {
    if (packet_is_malformed(status)) {
        count_reply(stats, REJECT_NOT_DUE);
        return;
    }
    count_reply(stats, reject_reply(reject, how, parsed, either(packet->indev, packet->outdev)));
    if (expected)
        count_reply(stats, reject_reset_receiver(reject, parsed, *expected,
                                                 either(packet->outdev, packet->indev)));
}

/// Returns the index of the interface at which a packet arrived; CONNECTION_INTERFACE_HOST if this
/// host sent it. In the postrouting hook, without an index, returns CONNECTION_INTERFACE_UNKNOWN:
/// kernels before Linux 5.6 never report it there.
static uint32_t source_of(const struct queue_packet *packet) {
    if (packet->indev == 0 && packet->hook == NF_INET_POST_ROUTING)
        return CONNECTION_INTERFACE_UNKNOWN;
    return packet->indev == LOOPBACK ? CONNECTION_INTERFACE_HOST : packet->indev;
}

/// Returns the index of a packet's output interface, CONNECTION_INTERFACE_HOST if this host is the
/// destination, or CONNECTION_INTERFACE_UNKNOWN before routing.
static uint32_t sink_of(const struct queue_packet *packet) {
    if (packet->hook == NF_INET_PRE_ROUTING)
        return CONNECTION_INTERFACE_UNKNOWN;
    return packet->outdev == LOOPBACK ? CONNECTION_INTERFACE_HOST : packet->outdev;
}

/// Returns the metadata of a packet that the parsers of names need.
static struct connection_input connection_input(const struct evaluation_source *source,
                                                const struct queue_packet *packet,
                                                uint64_t now_ns) {
    return (struct connection_input){.checksum = pending_state(packet->skb_info),
                                     .segmented = packet->skb_info & NFQA_SKB_GSO,
                                     .source_interface = source_of(packet),
                                     .sink_interface = sink_of(packet),
                                     .generation = source->loaded->generation,
                                     .asks_requests = source->requirement.requests,
                                     .now_ns = now_ns};
}

/// Updates the state of a packet's connection, and reads the connection's names. Returns false if
/// the policy reads no names.
static bool follow_names(const struct evaluation *evaluation, const struct queue_packet *packet,
                         const struct packet *parsed, uint64_t now_ns, struct named *named) {
    const struct evaluation_source *source = evaluation->source;
    struct connection_input how;

    if (!source->requirement.names || !evaluation->connections)
        return false;
    how = connection_input(source, packet, now_ns);
    *named = named_follow(evaluation->connections, source->loaded->compiled, parsed, &how);
    return true;
}

/// Context for learning addresses from one packet.
struct lesson {
    const struct evaluation *evaluation;
    struct stats *stats;
    bool is_added; // false if an address of the packet was not added to the kernel's set
};

/// Adds learned addresses to the kernel's set, and counts the result.
/// - end_ns: time at which the addresses may expire.
static void add_elements(void *context, const struct compile_kernel_set *set,
                         const policy_value *addresses, uint32_t count, uint64_t end_ns) {
    struct lesson *lesson = context;
    const struct evaluation *evaluation = lesson->evaluation;
    const uint64_t left_ms = (end_ns - evaluation->now_ns) / NS_PER_MS;
    enum elements_result result = ELEMENTS_ADDED;
    uint32_t short_count;

    if (elements_add(&evaluation->elements, set, addresses, count, left_ms, evaluation->now_ns,
                     &short_count) < 0)
        result = ELEMENTS_FAILED;
    stats_add(&lesson->stats->elements[result], short_count);
    lesson->is_added &= result == ELEMENTS_ADDED;
}

/// Learns from an accepted DNS packet, if the policy learns: stores the question of a query, or the
/// addresses of an answer. Returns false if an address was not added to the kernel's set (--stage).
static bool learn(const struct evaluation *evaluation, struct stats *stats,
                  const struct queue_packet *packet, const struct packet *parsed) {
    const struct evaluation_source *source = evaluation->source;
    struct lesson lesson = {.evaluation = evaluation, .stats = stats, .is_added = true};
    struct teach_output output = {.context = &lesson};
    struct connection_input how;

    if (!evaluation->asked)
        return true;
    if (evaluation->elements.socket >= 0)
        output.listener = add_elements;
    how = connection_input(source, packet, evaluation->now_ns);
    how.is_directed = evaluation->stage != 0;
    teach_packet(evaluation->asked, source->loaded->compiled, parsed, &how, &output);
    for (int i = 0; i < TEACH_RESULT_COUNT; i++)
        if (output.results[i] > 0)
            stats_add(&stats->answers[i], output.results[i]);
    return lesson.is_added;
}

/// Returns true if the policy learns addresses from DNS answers.
static bool learns(const struct evaluation *evaluation) {
    return evaluation->source->requirement.learns;
}

/// Learns addresses from a packet that the kernel's rules have accepted (--stage). Accepts the
/// packet with its mark unchanged. Drops it if an address was not added to the kernel's set:
/// otherwise a client would get an address that is not in the set.
static void learn_only(const struct evaluation *evaluation, struct stats *stats,
                       const struct queue_packet *packet, const struct packet *parsed,
                       struct decide_outcome *outcome) {
    const bool is_learned = !learns(evaluation) || learn(evaluation, stats, packet, parsed);

    *outcome = (struct decide_outcome){
        .verdict = is_learned ? VERDICT_ACCEPT : VERDICT_DROP,
        .by = DECIDE_BY_DEFAULT,
        .mark = packet->mark,
    };
}

/// Increments the counters that apply to a packet: without_ct_state (the policy reads the
/// connection state, the packet has none), undecidable (the rules gave no verdict, and a rule reads
/// bytes that were not copied), undecided (the rules gave no verdict, and a rule reads a name that
/// is not known yet or unreadable). Does not count the verdict.
static void count(struct stats *stats, const struct evaluation_source *source,
                  const struct decide_input *input, const struct decide_outcome *outcome) {
    if (source->requirement.conntrack_state && !input->has_ct_state)
        stats_add(&stats->without_ct_state, 1);
    if (outcome->undecidable)
        stats_add(&stats->undecidable, 1);
    if (outcome->undecided)
        stats_add(&stats->undecided, 1);
}

/// Returns true if the names of a packet's TCP connection are final, and the server has
/// acknowledged the bytes that they were read from. Always false for UDP, DNS and HTTP.
static bool is_settled(const struct named *named, const struct connections *connections) {
    return named && connections && connection_is_settled(connections, &named->followed);
}

/// Returns true if the packet comes from a QUIC server that has received the complete ClientHello.
/// Returns false for TCP, where is_settled is used instead.
static bool is_answer(const struct named *named, const struct connections *connections) {
    return named && connections && connection_is_answer(connections, &named->followed);
}

/// Decides a packet by the policy, or without a policy by --default and --fail. A packet with
/// several DNS queries or HTTP requests is decided once per query or request, until one of these is
/// not accepted.
/// - named: NULL if the policy reads no names.
static void ask_policy(struct evaluation *evaluation, struct decide_input *input,
                       struct named *named, struct decide_outcome *outcome) {
    struct evaluation_source *source = evaluation->source;
    struct loaded *loaded = source->loaded;
    struct connections *connections = evaluation->connections;
    bool is_first = true;
    uint32_t before = 0; // mark after the packet's previous query or request

    do {
        const bool is_asked = evaluation->stage != 0 || evaluation->settled != 0;
        bool settled;

        if (named)
            named_tell(named, connection_names(connections, &named->followed), input);
        decide_packet(&evaluation->decide, loaded->compiled, &loaded->flow, &source->counters,
                      input, outcome);
        settled = is_asked && is_settled(named, connections);
        stage_withhold(evaluation->settled, settled, outcome);
        if (evaluation->stage != 0) {
            stage_tell(evaluation->stage, input, settled || is_answer(named, connections),
                       is_first ? NULL : &before, outcome);
            before = outcome->mark;
            is_first = false;
        }
    } while (named && outcome->verdict == VERDICT_ACCEPT &&
             named_next(connections, loaded->compiled, loaded->generation, named));
}

/// Handles the kernel's RST to the sender of a packet that the kernel's rules have refused: accepts
/// this RST, and sends another RST to the destination of the refused packet, if its connection is
/// followed.
static void refuse(struct evaluation *evaluation, struct stats *stats,
                   const struct queue_packet *packet, const struct decide_input *input,
                   struct decide_outcome *outcome) {
    uint32_t expected;

    if (evaluation->connections &&
        connection_refuse(evaluation->connections, input->packet,
                          evaluation->source->loaded->generation, &expected))
        count_reply(stats, reject_reset_sender(evaluation->reject, input->packet, expected,
                                               either(packet->indev, packet->outdev)));
    stage_pass(evaluation->stage, input, outcome);
}

void evaluate_packet(struct evaluation *evaluation, struct stats *stats,
                     const struct queue_packet *packet, const struct packet *parsed,
                     enum packet_status status, struct decide_outcome *outcome) {
    struct evaluation_source *source = evaluation->source;
    const struct loaded *loaded = source->loaded;
    struct decide_input input;
    struct named named;
    bool has_names, is_expected = false;
    uint32_t expected;

    if (stage_teaches(evaluation->stage, packet->mark)) {
        learn_only(evaluation, stats, packet, parsed, outcome);
        return;
    }
    input = input_of(evaluation, packet, parsed, status);
    has_names = follow_names(evaluation, packet, parsed, input.now_ns, &named);
    ask_policy(evaluation, &input, has_names ? &named : NULL, outcome);
    if (stage_is_refused(evaluation->stage, outcome))
        refuse(evaluation, stats, packet, &input, outcome);
    count(stats, source, &input, outcome);
    if (has_names) {
        is_expected = named_reset(evaluation->connections, &named, parsed, outcome, &expected);
        evaluation->is_restated = outcome->verdict == VERDICT_ACCEPT &&
                                  pending_restated(evaluation->connections, &named.followed, packet,
                                                   parsed, &evaluation->restated);
    }
    if (outcome->verdict == VERDICT_REJECT)
        send_replies(evaluation->reject, stats, packet, parsed, status, &outcome->reject,
                     is_expected ? &expected : NULL);
    if (event_wanted(evaluation->ring, status, packet->truncated, outcome))
        event_note(evaluation->ring, loaded->generation, packet->ethertype, &input, outcome);
    if (has_names && named_refuses(&named, outcome))
        connection_deny(evaluation->connections, &named.followed, loaded->generation,
                        outcome->verdict == VERDICT_REJECT);
    // With --stage the kernel's rules may still drop the packet.
    if (evaluation->stage == 0 && learns(evaluation) && outcome->verdict == VERDICT_ACCEPT)
        learn(evaluation, stats, packet, parsed);
}

void evaluate_list(const struct evaluation *evaluation, uint64_t now_ns,
                   struct listing_page *page) {
    if (evaluation->connections)
        listing_fill(evaluation->connections, evaluation->source->loaded->generation, now_ns, page);
}

uint32_t evaluate_count_connections(struct evaluation *evaluation, struct stats *stats) {
    uint64_t now[NAMED_RESULT_COUNT];

    if (!evaluation->connections)
        return 0;
    named_results(evaluation->connections, now);
    for (int i = 0; i < NAMED_RESULT_COUNT; i++)
        if (now[i] > evaluation->counted[i])
            stats_add(&stats->connections[i], now[i] - evaluation->counted[i]);
    memcpy(evaluation->counted, now, sizeof now);
    return connection_count(evaluation->connections);
}
