// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
#include "events/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/counts.h"
#include "events/text.h"
#include "worker/wait.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t unix_time(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

void events_gather_want(struct events_gather *gather) {
    unsigned wanted = events_gather_has_sink(gather)
                          ? EVENT_DROP | EVENT_REJECT | EVENT_LOGGED | EVENT_ANOMALY
                          : 0;

    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (events_gather_is_tail(&gather->tails[i]))
            wanted |= gather->tails[i].verdicts;
    for (uint32_t i = 0; i < gather->ring_count; i++)
        if (gather->rings[i].records)
            atomic_store_explicit(&gather->rings[i].wanted, wanted, memory_order_relaxed);
}

static int make_rings(struct events_gather *gather, const struct options *options) {
    const uint32_t count = options->queue_last - options->queue_first + 1U;
    struct event_bell *bell = gather->can_be_wanted ? &gather->bell : NULL;
    int result = 0;

    gather->rings = aligned_alloc(STATS_ALIGN, count * sizeof *gather->rings);
    if (!gather->rings)
        return -ENOMEM;
    while (result == 0 && gather->ring_count < count) {
        const uint16_t queue = (uint16_t)(options->queue_first + gather->ring_count);

        result = event_ring_make(&gather->rings[gather->ring_count], queue, bell);
        gather->ring_count += result == 0;
    }
    return result;
}

int events_gather_make(struct events_gather *gather, const struct options *options) {
    gather->can_be_wanted = options->events || options->control;
    gather->rate = options->events_rate;
    gather->tokens = gather->rate * NS_PER_SECOND;
    gather->refilled_ns = wait_clock();
    gather->bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return gather->bell.fd < 0 ? -errno : make_rings(gather, options);
}

void events_gather_free(struct events_gather *gather) {
    events_sink_close(&gather->sink);
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        events_sink_close(&gather->tails[i].sink);
    for (uint32_t i = 0; i < gather->ring_count; i++)
        event_ring_free(&gather->rings[i]);
    free(gather->rings);
    if (gather->bell.fd >= 0)
        close(gather->bell.fd);
}

void events_gather_know(struct events_gather *gather, uint32_t generation,
                        const struct policy *policy, const struct compiled *compiled) {
    gather->known[1] = gather->known[0];
    gather->known[0] = (struct events_known){generation, policy, compiled};
}

void events_gather_forget(struct events_gather *gather) {
    gather->known[1] = (struct events_known){0};
}

/// Returns the policy of a generation; a zeroed struct if there was none, or it has been removed.
static struct events_known known_of(const struct events_gather *gather, uint32_t generation) {
    for (int i = 0; i < EVENTS_POLICIES; i++)
        if (gather->known[i].policy && gather->known[i].generation == generation)
            return gather->known[i];
    return (struct events_known){0};
}

/// Returns the name of an interface; "" = none.
static const char *name_of(struct events_gather *gather, uint32_t index,
                           char name[static IF_NAMESIZE + 1]) {
    policy_value value = interface_name(&gather->interfaces, index, wait_clock());

    for (int i = IF_NAMESIZE - 1; i >= 0; i--, value >>= 8)
        name[i] = (char)value;
    name[IF_NAMESIZE] = '\0';
    return name;
}

/// Uses a token of --events-rate, or counts a line over the rate. Returns true if there was a
/// token.
static bool take_token(struct events_gather *gather) {
    const uint64_t now_ns = wait_clock(), passed_ns = now_ns - gather->refilled_ns;
    const uint64_t full = gather->rate * NS_PER_SECOND;

    gather->refilled_ns = now_ns;
    gather->tokens += passed_ns < NS_PER_SECOND ? passed_ns * gather->rate : full;
    if (gather->tokens > full)
        gather->tokens = full;
    if (gather->tokens < NS_PER_SECOND) {
        counts_add(COUNT_EVENTS_LEFT_OUT, 1);
        gather->left_out++;
        return false;
    }
    gather->tokens -= NS_PER_SECOND;
    return true;
}

/// Adds a line to a sink.
/// - line: NULL = there was no memory for it, which counts as lost.
static void append(struct events_sink *sink, const char *line) {
    if (!line)
        sink->lost++;
    else if (events_sink_append(sink, line, strlen(line)))
        return;
    counts_add(sink->kind == EVENTS_SINK_TAIL ? COUNT_TAIL_LOST : COUNT_EVENTS_FAILED, 1);
}

/// A line for several sinks, which is created for the first sink that needs it.
struct shared_line {
    char *text;
    bool made;
};

/// Returns a record's line: the line of a log statement, or of the packet.
/// - log: index of the log statement; log_count for the packet's line.
/// - packet: true to include the packet's bytes and the policy's input in the packet's line.
static const char *line_of(struct shared_line *line, const struct event_text *text, uint32_t log,
                           uint32_t log_count, bool packet) {
    if (!line->made)
        line->text =
            log < log_count ? events_text_log(text, log) : events_text_packet(text, packet);
    line->made = true;
    return line->text;
}

/// Adds a line of a record to the destination of --events and to the tail clients, if they request
/// it. Only a packet's own line can include the packet's bytes, and only for tail clients.
/// - log: index of the log statement; log_count for the packet's line.
static void send_line(struct events_gather *gather, const struct event_text *text, uint32_t log,
                      uint32_t log_count) {
    const struct event *event = text->event;
    const unsigned classes = event_classes(event->status, event->truncated, &event->outcome);
    const bool is_packet = log == log_count;
    struct shared_line plain = {0}, full = {0};

    // The destination of --events gets a packet's own line only if the packet is dropped, rejected
    // or anomalous.
    if (events_gather_has_sink(gather) &&
        (!is_packet || (classes & (EVENT_DROP | EVENT_REJECT | EVENT_ANOMALY))) &&
        take_token(gather))
        append(&gather->sink, line_of(&plain, text, log, log_count, false));
    for (int i = 0; i < EVENTS_TAILS_MAX; i++) {
        struct events_tail *tail = &gather->tails[i];
        const bool packet = tail->packets && is_packet;

        if (events_gather_is_tail(tail) && (tail->verdicts & classes))
            append(&tail->sink, line_of(packet ? &full : &plain, text, log, log_count, packet));
    }
    free(plain.text);
    free(full.text);
}

/// Converts a record to lines: a line for each log statement, then the packet's line.
static void convert_event(struct events_gather *gather, const struct event *event) {
    const struct events_known known = known_of(gather, event->generation);
    const uint32_t noted = event->outcome.log_count;
    uint32_t log_count = noted < DECIDE_LOGS_MAX ? noted : DECIDE_LOGS_MAX;
    char iifname[IF_NAMESIZE + 1], oifname[IF_NAMESIZE + 1];
    const struct event_text text = {
        .event = event,
        .policy = known.policy,
        .compiled = known.compiled,
        .iifname = name_of(gather, event->iif, iifname),
        .oifname = name_of(gather, event->oif, oifname),
    };

    if (!known.policy)
        log_count = 0;
    if (noted > log_count)
        event_lose(&gather->bell, noted - log_count);
    for (uint32_t log = 0; log <= log_count; log++)
        send_line(gather, &text, log, log_count);
}

bool events_gather_convert(struct events_gather *gather) {
    bool found = false;

    for (uint32_t i = 0; i < gather->ring_count; i++) {
        const struct event *event;

        for (uint32_t taken = 0;
             taken < EVENT_RING_RECORDS && (event = event_peek(&gather->rings[i])); taken++) {
            convert_event(gather, event);
            event_drop(&gather->rings[i]);
            found = true;
        }
    }
    return found;
}

/// Reports to a sink the number of events that it missed, if it has room. Returns true if it was
/// reported.
static bool tell_one(struct events_sink *sink, enum events_kind kind, const char *where,
                     uint64_t missed) {
    const struct events_facts facts = {.text = where, .figures = {missed}};
    char *line = events_text_own_line(unix_time(), kind, &facts);
    bool told = line && strlen(line) <= sink->room - sink->pending.length;

    if (told)
        events_sink_append(sink, line, strlen(line));
    free(line);
    return told;
}

/// Reports to a sink the events that it lost because it had no room.
static void tell_lost(struct events_sink *sink, const char *where) {
    if (sink->lost > sink->lost_told &&
        tell_one(sink, EVENTS_LOST, where, sink->lost - sink->lost_told))
        sink->lost_told = sink->lost;
}

/// Reports to a sink the number of events that the rings lost. If the sink has no room, the number
/// is added to the sink's own lost events, which are reported later.
static void tell_ring(struct events_sink *sink, uint64_t ring) {
    if (ring > 0 && !tell_one(sink, EVENTS_LOST, "ring", ring))
        sink->lost += ring;
}

bool events_gather_tell_missed(struct events_gather *gather, uint64_t now_ns) {
    const uint64_t ring = atomic_load(&gather->bell.lost) - gather->lost_told;
    bool waits = ring > 0 || gather->left_out > 0;

    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        waits |= gather->tails[i].sink.lost > gather->tails[i].sink.lost_told;
    waits |= gather->sink.lost > gather->sink.lost_told;
    if (!waits || now_ns - gather->told_ns < NS_PER_SECOND)
        return waits;
    gather->told_ns = now_ns;
    gather->lost_told += ring;
    if (events_gather_has_sink(gather)) {
        if (gather->left_out > 0 &&
            tell_one(&gather->sink, EVENTS_LEFT_OUT, NULL, gather->left_out))
            gather->left_out = 0;
        tell_ring(&gather->sink, ring);
        tell_lost(&gather->sink, "sink");
    }
    for (int i = 0; i < EVENTS_TAILS_MAX; i++) {
        if (!events_gather_is_tail(&gather->tails[i]))
            continue;
        tell_ring(&gather->tails[i].sink, ring);
        tell_lost(&gather->tails[i].sink, "tail");
    }
    return true;
}

void events_gather_tell(struct events_gather *gather, enum events_kind kind,
                        const struct events_facts *facts) {
    char *line = events_text_own_line(unix_time(), kind, facts);

    if (events_gather_has_sink(gather))
        append(&gather->sink, line);
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (events_gather_is_tail(&gather->tails[i]))
            append(&gather->tails[i].sink, line);
    free(line);
}
