// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close eventfd2 futex poll read write
#include "events.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"
#include "event_text.h"
#include "events_sink.h"
#include "interface.h"
#include "wait.h"

enum {
    BUSY_MS = 5,     // between looks into the rings while records come
    WAIT_MS = 1000,  // while something is to be told or to be tried again
    POLICIES = 2,    // that records can be about: the one at hand, and the one before
    SINK_POLLED = 1, // places in what is polled: behind the bell the sink, then clients
    TAILS_POLLED = 2,
};

#define NS_PER_SECOND UINT64_C(1000000000)
#define STOP_NS NS_PER_SECOND // for writing what is left

/// Of a generation.
struct known {
    uint32_t generation;
    const struct policy *policy;
    const struct compiled *compiled;
};

/// A client that follows.
struct tail {
    struct events_sink sink;
    uint32_t verdicts; // bits 1 << enum verdict
    bool packets;
};

struct events {
    struct event_bell bell;
    bool can_be_wanted; // there is a sink, or a way for clients to come
    uint32_t ring_count;
    struct event_ring *rings;
    pthread_mutex_t lock; // of all that follows, but for what is the thread's own
    struct events_sink sink;
    int file; // of the sink, if it is one; -1 = none
    struct tail tails[EVENTS_TAILS_MAX];
    struct known known[POLICIES];
    struct interfaces interfaces;
    uint32_t rate;
    uint64_t tokens; // of --events-rate, in billionths of a line
    uint64_t refilled_ns;
    uint64_t left_out;  // since it was told
    uint64_t lost_told; // of bell.lost
    uint64_t told_ns;
    bool rotate;
    bool stop;
    bool started;
    pthread_t thread;
};

static uint64_t unix_time(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void wake(const struct events *events) { eventfd_write(events->bell.fd, 1); }

static bool has_sink(const struct events *events) { return events->sink.kind != EVENTS_SINK_NONE; }

static bool is_tail(const struct tail *tail) { return tail->sink.kind != EVENTS_SINK_NONE; }

/// Tells the workers what is wanted.
static void want(struct events *events) {
    unsigned wanted =
        has_sink(events) ? EVENT_DROP | EVENT_REJECT | EVENT_LOGGED | EVENT_ANOMALY : 0;

    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (is_tail(&events->tails[i]))
            wanted |= events->tails[i].verdicts;
    for (uint32_t i = 0; i < events->ring_count; i++)
        if (events->rings[i].records)
            atomic_store_explicit(&events->rings[i].wanted, wanted, memory_order_relaxed);
}

static int make_rings(struct events *events, const struct options *options) {
    const uint32_t count = options->queue_last - options->queue_first + 1U;
    struct event_bell *bell = events->can_be_wanted ? &events->bell : NULL;
    int result = 0;

    events->rings = aligned_alloc(STATS_ALIGN, count * sizeof *events->rings);
    if (!events->rings)
        return -ENOMEM;
    while (result == 0 && events->ring_count < count) {
        const uint16_t queue = (uint16_t)(options->queue_first + events->ring_count);

        result = event_ring_make(&events->rings[events->ring_count], queue, bell);
        events->ring_count += result == 0;
    }
    return result;
}

int events_open(struct events **events, const struct options *options, int inherited,
                struct failure *failure) {
    struct events *made = calloc(1, sizeof *made);
    int result = made ? 0 : -ENOMEM;

    if (result == 0) {
        pthread_mutex_init(&made->lock, NULL);
        made->can_be_wanted = options->events || options->control;
        made->rate = options->events_rate;
        made->tokens = made->rate * NS_PER_SECOND;
        made->refilled_ns = wait_clock();
        made->bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        result = made->bell.fd < 0 ? -errno : make_rings(made, options);
    }
    if (result < 0)
        failure_set_start(failure, result == -ENOMEM ? "malloc" : "eventfd", -result);
    else if (options->events)
        result = events_sink_open(&made->sink, options, inherited, failure);
    if (result < 0) {
        events_close(made);
        return result;
    }
    made->file = events_sink_file(&made->sink);
    want(made);
    *events = made;
    return 0;
}

struct event_ring *events_ring(struct events *events, uint32_t index) {
    return &events->rings[index];
}

int events_fd(struct events *events) {
    int fd;

    pthread_mutex_lock(&events->lock);
    fd = events->file;
    pthread_mutex_unlock(&events->lock);
    return fd;
}

void events_policy(struct events *events, uint32_t generation, const struct policy *policy,
                   const struct compiled *compiled) {
    pthread_mutex_lock(&events->lock);
    events->known[1] = events->known[0];
    events->known[0] = (struct known){generation, policy, compiled};
    pthread_mutex_unlock(&events->lock);
}

/// What the numbers of a record stand for.
static struct known known_of(const struct events *events, uint32_t generation) {
    for (int i = 0; i < POLICIES; i++)
        if (events->known[i].policy && events->known[i].generation == generation)
            return events->known[i];
    return (struct known){0};
}

/// The name of an interface; "" = none.
static const char *name_of(struct events *events, uint32_t index,
                           char name[static IF_NAMESIZE + 1]) {
    policy_value value = interface_name(&events->interfaces, index, wait_clock());

    for (int i = IF_NAMESIZE - 1; i >= 0; i--, value >>= 8)
        name[i] = (char)value;
    name[IF_NAMESIZE] = '\0';
    return name;
}

/// Takes a token of --events-rate, or counts a line that is left out.
static bool take_token(struct events *events) {
    const uint64_t now_ns = wait_clock(), passed_ns = now_ns - events->refilled_ns;
    const uint64_t full = events->rate * NS_PER_SECOND;

    events->refilled_ns = now_ns;
    events->tokens += passed_ns < NS_PER_SECOND ? passed_ns * events->rate : full;
    if (events->tokens > full)
        events->tokens = full;
    if (events->tokens < NS_PER_SECOND) {
        counts_add(COUNT_EVENTS_LEFT_OUT, 1);
        events->left_out++;
        return false;
    }
    events->tokens -= NS_PER_SECOND;
    return true;
}

/// line: NULL = there was no memory for it.
static void put(struct events_sink *sink, const char *line) {
    if (!line)
        sink->lost++;
    else if (events_sink_put(sink, line, strlen(line)))
        return;
    counts_add(sink->kind == EVENTS_SINK_TAIL ? COUNT_TAIL_LOST : COUNT_EVENTS_FAILED, 1);
}

/// A line to all who want it, made when the first does.
struct shared_line {
    char *text;
    bool made;
};

/// The log-th log statement's line, or the packet's for log == log_count.
static const char *line_of(struct shared_line *line, const struct event_text *text, uint32_t log,
                           uint32_t log_count, bool packet) {
    if (!line->made)
        line->text = log < log_count ? event_text_log(text, log) : event_text_packet(text, packet);
    line->made = true;
    return line->text;
}

/// Sends a line of a record to all who want it. Only a packet's own line has its bytes.
static void send_line(struct events *events, const struct event_text *text, uint32_t log,
                      uint32_t log_count) {
    const struct event *event = text->event;
    const unsigned classes = event_classes(event->status, event->truncated, &event->outcome);
    const bool is_packet = log == log_count;
    struct shared_line plain = {0}, full = {0};

    // What only passed is for those who follow.
    if (has_sink(events) &&
        (!is_packet || (classes & (EVENT_DROP | EVENT_REJECT | EVENT_ANOMALY))) &&
        take_token(events))
        put(&events->sink, line_of(&plain, text, log, log_count, false));
    for (int i = 0; i < EVENTS_TAILS_MAX; i++) {
        struct tail *tail = &events->tails[i];
        const bool packet = tail->packets && is_packet;

        if (is_tail(tail) && (tail->verdicts & classes))
            put(&tail->sink, line_of(packet ? &full : &plain, text, log, log_count, packet));
    }
    free(plain.text);
    free(full.text);
}

/// Makes lines of a record: one for each log statement, then the packet's.
static void take_event(struct events *events, const struct event *event) {
    const struct known known = known_of(events, event->generation);
    const uint32_t noted = event->outcome.log_count;
    uint32_t log_count = noted < DECIDE_LOGS_MAX ? noted : DECIDE_LOGS_MAX;
    char iifname[IF_NAMESIZE + 1], oifname[IF_NAMESIZE + 1];
    const struct event_text text = {
        .event = event,
        .policy = known.policy,
        .compiled = known.compiled,
        .iifname = name_of(events, event->iif, iifname),
        .oifname = name_of(events, event->oif, oifname),
    };

    if (!known.policy)
        log_count = 0;
    if (noted > log_count)
        event_lose(&events->bell, noted - log_count);
    for (uint32_t log = 0; log <= log_count; log++)
        send_line(events, &text, log, log_count);
}

/// Takes what is in the rings. Returns whether there was anything.
static bool take_rings(struct events *events) {
    bool found = false;

    for (uint32_t i = 0; i < events->ring_count; i++) {
        const struct event *event;

        for (uint32_t taken = 0;
             taken < EVENT_RING_RECORDS && (event = event_peek(&events->rings[i])); taken++) {
            take_event(events, event);
            event_drop(&events->rings[i]);
            found = true;
        }
    }
    return found;
}

/// Tells a sink how many events it missed, if there is room again. Returns whether it has been
/// told.
static bool tell_missed(struct events_sink *sink, enum events_kind kind, const char *where,
                        uint64_t missed) {
    const struct events_facts facts = {.text = where, .count = 1, .figures = {{"events", missed}}};
    char *line = event_text_own(unix_time(), kind, &facts);
    bool told = line && strlen(line) <= sink->room - sink->pending.length;

    if (told)
        events_sink_put(sink, line, strlen(line));
    free(line);
    return told;
}

/// Tells a sink what it lost for want of room there.
static void tell_lost(struct events_sink *sink, const char *where) {
    if (sink->lost > sink->lost_told &&
        tell_missed(sink, EVENTS_LOST, where, sink->lost - sink->lost_told))
        sink->lost_told = sink->lost;
}

/// Tells what was missed, at most once a second. Returns whether something is still to be told.
static bool tell_all(struct events *events, uint64_t now_ns) {
    const uint64_t ring = atomic_load(&events->bell.lost) - events->lost_told;
    bool waits = ring > 0 || events->left_out > 0;

    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        waits |= events->tails[i].sink.lost > events->tails[i].sink.lost_told;
    waits |= events->sink.lost > events->sink.lost_told;
    if (!waits || now_ns - events->told_ns < NS_PER_SECOND)
        return waits;
    events->told_ns = now_ns;
    events->lost_told += ring;
    if (has_sink(events)) {
        if (events->left_out > 0 &&
            tell_missed(&events->sink, EVENTS_LEFT_OUT, NULL, events->left_out))
            events->left_out = 0;
        if (ring > 0)
            tell_missed(&events->sink, EVENTS_LOST, "ring", ring);
        tell_lost(&events->sink, "sink");
    }
    for (int i = 0; i < EVENTS_TAILS_MAX; i++) {
        if (!is_tail(&events->tails[i]))
            continue;
        if (ring > 0)
            tell_missed(&events->tails[i].sink, EVENTS_LOST, "ring", ring);
        tell_lost(&events->tails[i].sink, "tail");
    }
    return true;
}

void events_tell(struct events *events, enum events_kind kind, const struct events_facts *facts) {
    char *line = event_text_own(unix_time(), kind, facts);

    pthread_mutex_lock(&events->lock);
    if (has_sink(events))
        put(&events->sink, line);
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (is_tail(&events->tails[i]))
            put(&events->tails[i].sink, line);
    pthread_mutex_unlock(&events->lock);
    free(line);
    wake(events);
}

void events_drain(struct events *events) {
    pthread_mutex_lock(&events->lock);
    take_rings(events);
    events->known[1] = (struct known){0};
    pthread_mutex_unlock(&events->lock);
    wake(events);
}

void events_rotate(struct events *events) {
    pthread_mutex_lock(&events->lock);
    events->rotate = true;
    pthread_mutex_unlock(&events->lock);
    wake(events);
}

int events_tail(struct events *events, int fd, uint32_t verdicts, bool packets) {
    static const char answer[] = "{\"ok\":true}\n";
    int result = -EBUSY;

    pthread_mutex_lock(&events->lock);
    for (int i = 0; result == -EBUSY && i < EVENTS_TAILS_MAX; i++) {
        struct tail *tail = &events->tails[i];

        if (is_tail(tail))
            continue;
        result = events_sink_client(&tail->sink, fd);
        if (result < 0)
            break;
        tail->verdicts = verdicts;
        tail->packets = packets;
        events_sink_put(&tail->sink, answer, sizeof answer - 1);
        counts_add(COUNT_TAIL_CLIENTS, 1);
    }
    want(events);
    pthread_mutex_unlock(&events->lock);
    wake(events);
    return result;
}

/// Writes to a client, and forgets it if it has gone.
static void flush_tail(struct events *events, struct tail *tail, uint64_t now_ns) {
    events_sink_look(&tail->sink, now_ns);
    events_sink_flush(&tail->sink, &events->lock, now_ns);
    if (tail->sink.fd >= 0)
        return;
    pthread_mutex_lock(&events->lock);
    events_sink_close(&tail->sink);
    want(events);
    pthread_mutex_unlock(&events->lock);
}

/// Writes what can be written. Only the thread opens and closes sinks, once it runs.
static void flush(struct events *events, uint64_t now_ns) {
    bool tails[EVENTS_TAILS_MAX];
    bool rotate;

    pthread_mutex_lock(&events->lock);
    rotate = events->rotate;
    events->rotate = false;
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        tails[i] = is_tail(&events->tails[i]);
    pthread_mutex_unlock(&events->lock);
    if (rotate)
        events_sink_rotate(&events->sink);
    if (has_sink(events)) {
        events_sink_look(&events->sink, now_ns);
        events_sink_flush(&events->sink, &events->lock, now_ns);
        pthread_mutex_lock(&events->lock);
        events->file = events_sink_file(&events->sink);
        pthread_mutex_unlock(&events->lock);
    }
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (tails[i])
            flush_tail(events, &events->tails[i], now_ns);
}

/// Lines that are still to be written.
static uint64_t left(struct events *events) {
    uint64_t lines;

    pthread_mutex_lock(&events->lock);
    lines = has_sink(events) ? events_sink_left(&events->sink) : 0;
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        if (is_tail(&events->tails[i]))
            lines += events_sink_left(&events->tails[i].sink);
    pthread_mutex_unlock(&events->lock);
    return lines;
}

/// Says that the thread sleeps, and looks once more. Returns whether there is something after all.
static bool fall_asleep(struct events *events) {
    bool found = false;

    atomic_store_explicit(&events->bell.asleep, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); // see event_ring_wake
    for (uint32_t i = 0; i < events->ring_count; i++)
        found |= event_peek(&events->rings[i]) != NULL;
    if (found)
        atomic_store_explicit(&events->bell.asleep, false, memory_order_relaxed);
    return found;
}

/// Waits for records, for somebody who wakes, for sinks, or for timeout_ms.
static void rest(struct events *events, int timeout_ms) {
    struct pollfd polled[TAILS_POLLED + EVENTS_TAILS_MAX] = {{events->bell.fd, POLLIN, 0}};
    eventfd_t woken;

    pthread_mutex_lock(&events->lock);
    polled[SINK_POLLED] = (struct pollfd){has_sink(events) ? events->sink.fd : -1,
                                          events_sink_events(&events->sink), 0};
    for (int i = 0; i < EVENTS_TAILS_MAX; i++) {
        const struct tail *tail = &events->tails[i];

        polled[TAILS_POLLED + i] =
            (struct pollfd){is_tail(tail) ? tail->sink.fd : -1, events_sink_events(&tail->sink), 0};
    }
    pthread_mutex_unlock(&events->lock);
    // A sink that is watched for nothing would be told of all the same, if its other end is gone.
    if (polled[SINK_POLLED].events == 0)
        polled[SINK_POLLED].fd = -1;
    poll(polled, sizeof polled / sizeof *polled, timeout_ms);
    atomic_store_explicit(&events->bell.asleep, false, memory_order_relaxed);
    eventfd_read(events->bell.fd, &woken);
}

/// One round. Returns for how many milliseconds to rest.
static int work(struct events *events) {
    const uint64_t now_ns = wait_clock();
    bool found, waits;

    pthread_mutex_lock(&events->lock);
    found = take_rings(events);
    waits = tell_all(events, now_ns);
    pthread_mutex_unlock(&events->lock);
    flush(events, now_ns);
    if (found || fall_asleep(events))
        return BUSY_MS;
    return waits || left(events) > 0 ? WAIT_MS : -1;
}

static bool is_stopped(struct events *events) {
    bool stop;

    pthread_mutex_lock(&events->lock);
    stop = events->stop;
    pthread_mutex_unlock(&events->lock);
    return stop;
}

static void *run(void *argument) {
    struct events *events = argument;
    uint64_t until_ns;

    while (!is_stopped(events))
        rest(events, work(events));
    until_ns = wait_clock() + STOP_NS;
    events->told_ns = 0; // what is still to be told is told now
    do {
        work(events);
        if (left(events) == 0)
            break;
        rest(events, BUSY_MS);
    } while (wait_clock() < until_ns);
    return NULL;
}

int events_start(struct events *events, struct failure *failure) {
    int error;

    if (!events->can_be_wanted)
        return 0;
    events->stop = false;
    error = pthread_create(&events->thread, NULL, run, events);
    if (error != 0) {
        failure_set_start(failure, "pthread_create", error);
        return -error;
    }
    events->started = true;
    return 0;
}

void events_stop(struct events *events) {
    uint64_t lines;

    if (!events->started)
        return;
    pthread_mutex_lock(&events->lock);
    events->stop = true;
    pthread_mutex_unlock(&events->lock);
    wake(events);
    pthread_join(events->thread, NULL);
    events->started = false;
    lines = has_sink(events) ? events_sink_left(&events->sink) : 0;
    if (lines > 0) {
        counts_add(COUNT_EVENTS_FAILED, lines);
        log_warn("events: %" PRIu64 " could not be written to %s", lines, events->sink.path);
    }
}

void events_close(struct events *events) {
    if (!events)
        return;
    events_sink_close(&events->sink);
    for (int i = 0; i < EVENTS_TAILS_MAX; i++)
        events_sink_close(&events->tails[i].sink);
    for (uint32_t i = 0; i < events->ring_count; i++)
        event_ring_free(&events->rings[i]);
    free(events->rings);
    if (events->bell.fd >= 0)
        close(events->bell.fd);
    pthread_mutex_destroy(&events->lock);
    free(events);
}
