// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: getpid kill
#include "handover.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "handover_state.h"
#include "state.h"
#include "wait.h"

#define TAKEN "{\"command\":\"taken\"}\n"
#define HEARD "{\"ok\":true}\n"
#define NS_PER_US UINT64_C(1000)

enum {
    FD_LINE_BYTES = 64, // {"fd":"queue:65535"} with its end
};

static int fail_classic(struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE,
                "the backend classic cannot take a queue over, as libnetfilter_queue opens sockets "
                "of its own only: start the new firewall with --backend raw or mnl");
    return -EINVAL;
}

static int fail_memory(struct failure *failure) {
    failure_set_start(failure, "calloc", ENOMEM);
    return -ENOMEM;
}

/// What a line says under a key. The object must outlive it.
static bool says(const char *line, const char *key, const char *value) {
    json_t *object = json_loads(line, 0, NULL);
    const json_t *said = json_object_get(object, key);
    const bool so = value ? json_is_string(said) && strcmp(json_string_value(said), value) == 0
                          : json_is_true(said);

    json_decref(object);
    return so;
}

static int fail_line(const char *whose, struct failure *failure) {
    failure_set(failure, LOG_EXIT_CALL,
                "the %s firewall says what no firewall would: is it one of this kind?", whose);
    return -EPROTO;
}

/// Stops the workers between two batches.
static void pause_workers(struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++)
        worker_stop(&workers->all[i], true);
    for (uint32_t i = 0; i < workers->count; i++)
        worker_join(&workers->all[i]);
}

/// Starts them again. What can't be started ends the process, as a worker does that fails.
static void start_workers(struct workers *workers) {
    struct failure failure;

    for (uint32_t i = 0; i < workers->count; i++) {
        if (worker_start(&workers->all[i], &failure) == 0)
            continue;
        log_error("%s", failure.text);
        kill(getpid(), SIGTERM);
    }
}

static void release_queues(struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++)
        queue_release(&workers->all[i].queue);
}

/// Fills in what was counted, now that the workers have stopped.
static int describe(struct state *state, struct tally *tally, struct handover *given,
                    struct failure *failure) {
    const struct workers *workers = &state->workers;

    for (int i = 0; i < COUNT_COUNT; i++)
        given->counts[i] = counts_get((enum count)i);
    for (uint32_t i = 0; i < workers->count; i++) {
        struct handover_queue *const queue = &given->queues[i];

        if (workers->all[i].error != 0) {
            failure_set_running(failure, workers->all[i].failed_call, workers->all[i].error);
            return -workers->all[i].error;
        }
        queue->number = workers->all[i].settings.number;
        queue->stalled = workers->all[i].stalled;
        stats_snapshot(&workers->all[i].stats, &queue->stats);
        queue_give(&workers->all[i].queue, &queue->given);
    }
    if (!state->loaded->compiled)
        return 0;
    if (state_tally(state, tally) < 0)
        return fail_memory(failure);
    given->side.counters = tally->counters;
    given->side.logged = tally->logged;
    return 0;
}

static int send_fd(struct handover_channel *channel, const char *name, int fd,
                   struct failure *failure) {
    char line[FD_LINE_BYTES];
    const int length = snprintf(line, sizeof line, "{\"fd\":\"%s\"}\n", name);

    return handover_channel_send(channel, line, (size_t)length, fd, failure);
}

static int send_fds(struct handover *given, const int fds[HANDOVER_FD_COUNT],
                    struct failure *failure) {
    static const char end[] = "{\"fd\":null}\n";
    char name[FD_LINE_BYTES];
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < given->queue_count; i++) {
        snprintf(name, sizeof name, "queue:%u", given->queues[i].number);
        result = send_fd(&given->channel, name, given->queues[i].given.fd, failure);
    }
    for (int i = 0; result == 0 && i < HANDOVER_FD_COUNT; i++)
        if (fds[i] >= 0)
            result = send_fd(&given->channel, handover_state_fd_name((enum handover_fd)i), fds[i],
                             failure);
    if (result == 0)
        result = handover_channel_send(&given->channel, end, sizeof end - 1, -1, failure);
    return result;
}

/// Tells all, and waits until the new one has taken it.
static int tell(struct handover *given, const int fds[HANDOVER_FD_COUNT], struct failure *failure) {
    char *line = handover_state_print(given);
    int result = line ? 0 : fail_memory(failure);

    if (result == 0)
        result = handover_channel_send(&given->channel, line, strlen(line), -1, failure);
    free(line);
    if (result == 0)
        result = send_fds(given, fds, failure);
    if (result == 0)
        result = handover_channel_line(&given->channel, &line, failure);
    if (result == 0 && !says(line, "command", "taken"))
        result = fail_line("new", failure);
    // The last that can fail: from here on the new one alone filters.
    if (result == 0)
        result = handover_channel_send(&given->channel, HEARD, sizeof HEARD - 1, -1, failure);
    return result;
}

int handover_give(struct state *state, int client_fd, enum queue_kind kind,
                  const int fds[HANDOVER_FD_COUNT], bool *taken, struct failure *failure) {
    struct handover given = {.pid = getpid(), .generation = state->loaded->generation};
    struct tally tally = {0};
    int result;

    *taken = false;
    if (!queue_can_adopt(kind))
        return fail_classic(failure);
    given.options[HANDOVER_CONTROL] = (char *)state->options->control;
    given.options[HANDOVER_METRICS] = (char *)state->options->metrics;
    given.options[HANDOVER_EVENTS] = (char *)state->options->events;
    result = handover_state_make_queues(&given, state->workers.count);
    if (result == 0 && state->loaded->compiled)
        result = carry_side_make(&given.side, state->loaded);
    if (result < 0) {
        free(given.queues);
        return fail_memory(failure);
    }
    handover_channel_open(&given.channel, client_fd, "new", HANDOVER_GIVE_MS);
    state_lock(state);
    pause_workers(&state->workers);
    result = describe(state, &tally, &given, failure);
    if (result == 0)
        result = tell(&given, fds, failure);
    if (result == 0) {
        release_queues(&state->workers);
        *taken = true;
        log_info("upgrade: the new firewall filters, this one ends");
    } else {
        start_workers(&state->workers);
        counts_add(COUNT_UPGRADES_FAILED, 1);
        log_warn("upgrade: this firewall goes on: %s", failure->text);
    }
    state_unlock(state);
    handover_channel_close(&given.channel);
    tally_free(&tally);
    carry_side_free(&given.side);
    free(given.queues);
    return 0;
}

/// Connects to the old process. Returns the descriptor, or -errno with failure filled in.
static int connect_to(const char *path, struct failure *failure) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    // It fits: options has seen to that.
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        failure_set_start(failure, "socket", errno);
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        const int error = errno;

        failure_set(failure, LOG_EXIT_CALL,
                    "no firewall can be asked at %s: %s: start without --take-over, or give it the "
                    "path of a running firewall's --control",
                    path, strerror(error));
        close(fd);
        return -error;
    }
    return fd;
}

/// Puts a descriptor to where it belongs by its name. One that is not known is closed.
static void place_fd(struct handover *taken, const char *name, int fd) {
    int *place = NULL;
    char queue[FD_LINE_BYTES];

    for (uint32_t i = 0; !place && i < taken->queue_count; i++) {
        snprintf(queue, sizeof queue, "queue:%u", taken->queues[i].number);
        if (strcmp(name, queue) == 0)
            place = &taken->queues[i].given.fd;
    }
    for (int i = 0; !place && i < HANDOVER_FD_COUNT; i++)
        if (strcmp(name, handover_state_fd_name((enum handover_fd)i)) == 0)
            place = &taken->fds[i];
    if (place && *place < 0)
        *place = fd;
    else
        close(fd);
}

/// Receives descriptors until there are no more.
static int receive_fds(struct handover *taken, struct failure *failure) {
    for (;;) {
        json_t *object;
        const char *name;
        char *line;
        int result = handover_channel_line(&taken->channel, &line, failure);
        int fd;

        if (result < 0)
            return result;
        object = json_loads(line, 0, NULL);
        if (json_is_null(json_object_get(object, "fd"))) {
            json_decref(object);
            return 0;
        }
        name = json_string_value(json_object_get(object, "fd"));
        fd = name ? handover_channel_claim(&taken->channel) : -1;
        if (fd >= 0)
            place_fd(taken, name, fd);
        else
            result = fail_line("old", failure);
        json_decref(object);
        if (result < 0)
            return result;
    }
}

/// Looks whether the queues are those of our options, and whether their sockets came.
static int check_queues(const struct options *options, const struct handover *taken,
                        struct failure *failure) {
    const uint32_t count = options->queue_last - options->queue_first + 1U;
    const uint16_t first = taken->queues[0].number;
    const uint16_t last = taken->queues[taken->queue_count - 1].number;

    for (uint32_t i = 0; i < taken->queue_count; i++)
        if (taken->queue_count != count || taken->queues[i].number != options->queue_first + i) {
            failure_set(failure, LOG_EXIT_USAGE,
                        "the old firewall has the queues %u:%u and not %u:%u: start with --queue "
                        "%u:%u",
                        first, last, options->queue_first, options->queue_last, first, last);
            return -EINVAL;
        }
    for (uint32_t i = 0; i < taken->queue_count; i++)
        if (taken->queues[i].given.fd < 0)
            return fail_line("old", failure);
    return 0;
}

static bool is_same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/// Closes what another option of ours makes useless.
static void drop_others(const struct options *options, struct handover *taken) {
    const char *const ours[] = {
        [HANDOVER_CONTROL] = options->control,
        [HANDOVER_METRICS] = options->metrics,
        [HANDOVER_EVENTS] = options->events,
    };

    for (int i = 0; i < HANDOVER_FD_COUNT; i++) {
        if (taken->fds[i] < 0 || is_same(ours[i], taken->options[i]))
            continue;
        close(taken->fds[i]);
        taken->fds[i] = -1;
    }
}

/// Asks, and receives all.
static int ask(const struct options *options, struct handover *taken, struct failure *failure) {
    char request[128];
    char *line;
    const int length = snprintf(request, sizeof request,
                                "{\"command\":\"upgrade\",\"version\":%d,\"backend\":\"%s\"}\n",
                                HANDOVER_VERSION, options_backend_name(options->backend));
    int result;

    taken->asked_ns = wait_clock();
    result = handover_channel_send(&taken->channel, request, (size_t)length, -1, failure);

    if (result == 0)
        result = handover_channel_line(&taken->channel, &line, failure);
    if (result == 0)
        result = handover_state_parse(line, taken, failure);
    if (result == 0)
        result = receive_fds(taken, failure);
    if (result == 0)
        result = check_queues(options, taken, failure);
    return result;
}

int handover_take(const struct options *options, struct handover *taken, struct failure *failure) {
    int fd, result;

    *taken = (struct handover){.channel = {.fd = -1}};
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        taken->fds[i] = -1;
    if (!queue_can_adopt(options->backend))
        return fail_classic(failure);
    fd = connect_to(options->take_over, failure);
    if (fd < 0)
        return fd;
    handover_channel_open(&taken->channel, fd, "old", HANDOVER_TAKE_MS);
    result = ask(options, taken, failure);
    if (result == 0)
        drop_others(options, taken);
    else
        handover_free(taken);
    return result;
}

int handover_taken(struct handover *taken, struct failure *failure) {
    const uint64_t waited_ns = wait_clock() - taken->asked_ns;
    char *line;
    int result = handover_channel_send(&taken->channel, TAKEN, sizeof TAKEN - 1, -1, failure);

    if (result == 0)
        result = handover_channel_line(&taken->channel, &line, failure);
    if (result == 0 && !says(line, "ok", NULL))
        result = fail_line("old", failure);
    if (result < 0)
        return result;
    for (int i = 0; i < COUNT_COUNT; i++)
        counts_add((enum count)i, taken->counts[i]);
    counts_add(COUNT_UPGRADES, 1);
    log_info("upgrade: took over from pid %" PRId64 ", packets waited for %" PRIu64
             " microseconds at most",
             taken->pid, waited_ns / NS_PER_US);
    return 0;
}

void handover_free(struct handover *taken) {
    for (uint32_t i = 0; i < taken->queue_count; i++)
        if (taken->queues[i].given.fd >= 0)
            close(taken->queues[i].given.fd);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++) {
        if (taken->fds[i] >= 0)
            close(taken->fds[i]);
        free(taken->options[i]);
    }
    handover_channel_close(&taken->channel);
    carry_side_free(&taken->side);
    flow_free(&taken->flow);
    free(taken->counters);
    free(taken->logged);
    free(taken->limits);
    free(taken->queues);
    *taken = (struct handover){.channel = {.fd = -1}};
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        taken->fds[i] = -1;
}
