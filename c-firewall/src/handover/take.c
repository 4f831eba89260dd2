// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/take.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "connection/lifetime.h"
#include "connection/table.h"
#include "control/request.h"
#include "handover/connections.h"
#include "handover/counted.h"
#include "handover/learned.h"
#include "handover/memory.h"
#include "handover/proof.h"
#include "handover/rules.h"
#include "handover/state.h"
#include "worker/wait.h"

#define NS_PER_US UINT64_C(1000)

enum {
    NAME_BYTES = 64, // maximum length of a descriptor's name with its NUL
    // Divisor for the additional connections for which a table's memory is touched: 1/SPARE of the
    // old connections. These may begin before the old firewall stops.
    SPARE = 8,
};

static int fail_memory(struct failure *failure) {
    failure_set_start(failure, "calloc", ENOMEM);
    return -ENOMEM;
}

/// Returns the inherited connection to the old process, if there is one. Otherwise connects to
/// `path`. Returns the descriptor, or -errno with failure filled in.
static int connect_to(const char *path, struct failure *failure) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = handover_channel_inherited();

    if (fd >= 0)
        return fd;
    // The path fits: options has checked its length.
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        failure_set_start(failure, "socket", errno);
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        const int error = errno;

        failure_set(failure, LOG_EXIT_CALL,
                    "no firewall can be reached at %s: %s: start without --take-over, or give it "
                    "the path of a running firewall's --control",
                    path, strerror(error));
        close(fd);
        return -error;
    }
    return fd;
}

/// Stores a received descriptor in the field for its name. A descriptor with an unknown name, or a
/// second descriptor with the same name, is closed.
static void place_fd(struct handover *taken, const char *name, int fd) {
    int *place = NULL;
    char queue[NAME_BYTES];

    for (uint32_t i = 0; !place && i < taken->queue_count; i++) {
        snprintf(queue, sizeof queue, "queue:%u", taken->queues[i].number);
        if (strcmp(name, queue) == 0)
            place = &taken->queues[i].handover.fd;
    }
    for (int i = 0; !place && i < HANDOVER_FD_COUNT; i++)
        if (strcmp(name, handover_state_fd_name((enum handover_fd)i)) == 0)
            place = &taken->fds[i];
    if (!place && strcmp(name, HANDOVER_RULES) == 0)
        place = &taken->rules;
    if (place && *place < 0)
        *place = fd;
    else
        close(fd);
}

/// Receives a line with the name of a descriptor, and the descriptor.
/// - name: out: the name, cut if it is too long.
/// - fd: out: the descriptor; -1 if the line has no name: it is the last line about descriptors.
/// - Returns 0, or -errno with failure filled in.
static int receive_fd(struct handover_channel *channel, char name[static NAME_BYTES], int *fd,
                      struct failure *failure) {
    json_t *object;
    const json_t *said;
    char *line;
    int result = handover_channel_line(channel, &line, failure);

    if (result < 0)
        return result;
    object = json_loads(line, 0, NULL);
    said = json_object_get(object, "fd");
    *fd = json_is_string(said) ? handover_channel_claim(channel) : -1;
    if (*fd >= 0)
        snprintf(name, NAME_BYTES, "%s", json_string_value(said));
    else if (!json_is_null(said))
        result = handover_fail_line("old", failure);
    json_decref(object);
    return result;
}

/// Receives and stores descriptors until the last line about descriptors.
static int receive_fds(struct handover *taken, struct failure *failure) {
    char name[NAME_BYTES];
    int result, fd;

    do {
        result = receive_fd(&taken->channel, name, &fd, failure);
        if (result == 0 && fd >= 0)
            place_fd(taken, name, fd);
    } while (result == 0 && fd >= 0);
    return result;
}

/// Checks that the old firewall's queues are those of the options, and that a socket was received
/// for each queue.
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
        if (taken->queues[i].handover.fd < 0)
            return handover_fail_line("old", failure);
    return 0;
}

/// Reads the old policy's rules from the received memory file.
static int decode_rules(struct handover *taken, struct failure *failure) {
    struct handover_sealed sealed;
    uint8_t *bytes = NULL;
    int result;

    if (taken->rules < 0)
        return handover_fail_line("old", failure);
    result = handover_sealed_open(&sealed, taken->rules, HANDOVER_RULES_BYTES_MAX);
    taken->rules = -1;
    if (result == 0)
        result = handover_sealed_read(&sealed, &bytes);
    if (result == 0)
        result = handover_rules_parse(bytes, sealed.size, &taken->side);
    handover_sealed_close(&sealed);
    free(bytes);
    if (result == -ENOMEM)
        return fail_memory(failure);
    return result < 0 ? handover_state_fail_part(HANDOVER_RULES, failure) : 0;
}

static bool is_same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/// Closes the received descriptors whose option has another value in this process. Returns 0, or
/// -ENOMEM with failure filled in.
static int drop_others(const struct options *options, struct handover *taken,
                       struct failure *failure) {
    char *ours[HANDOVER_FD_COUNT] = {NULL};

    if (handover_values(options, ours) < 0)
        return fail_memory(failure);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++) {
        if (taken->fds[i] >= 0 && !is_same(ours[i], taken->options[i])) {
            close(taken->fds[i]);
            taken->fds[i] = -1;
        }
        free(ours[i]);
    }
    return 0;
}

/// Proves that this process may take over, requests the upgrade, and receives and checks the old
/// process's state, descriptors and rules.
static int ask(const struct options *options, struct handover *taken, struct failure *failure) {
    char request[128];
    char *line;
    const int length = snprintf(request, sizeof request,
                                "{\"command\":\"upgrade\",\"version\":%d,\"backend\":\"%s\"}\n",
                                CONTROL_VERSION, options_backend_name(options->backend));
    int result = handover_proof_give(&taken->channel, failure);

    if (result == 0)
        result = handover_channel_send(&taken->channel, request, (size_t)length, -1, failure);
    if (result == 0)
        result = handover_channel_line(&taken->channel, &line, failure);
    if (result == 0)
        result = handover_state_parse(line, taken, failure);
    if (result == 0)
        result = receive_fds(taken, failure);
    if (result == 0)
        result = check_queues(options, taken, failure);
    if (result == 0)
        result = decode_rules(taken, failure);
    return result;
}

int handover_take(const struct options *options, struct handover *taken, struct failure *failure) {
    int fd, result;

    if (!queue_can_adopt(options->backend))
        return handover_fail_classic(failure);
    fd = connect_to(options->take_over, failure);
    if (fd < 0)
        return fd;
    handover_channel_open(&taken->channel, fd, "old", HANDOVER_PREPARE_MS);
    result = ask(options, taken, failure);
    if (result == 0)
        result = drop_others(options, taken, failure);
    return result;
}

int handover_take_prepare(struct handover *taken, const struct loaded *loaded,
                          struct failure *failure) {
    struct migration_side ours = {0};
    int result = 0;

    if (loaded->compiled)
        result = migration_side_make(&ours, loaded);
    if (result == 0 && loaded->compiled)
        result = migration_pair(&taken->migration, &taken->side, &ours);
    migration_side_free(&ours);
    if (result == 0)
        result = handover_counted_make_states(taken);
    return result < 0 ? fail_memory(failure) : 0;
}

/// Receives the descriptor of the memory with the name `expected`. Returns 0, or -errno with
/// failure filled in.
static int receive_named(struct handover_channel *channel, const char *expected, int *fd,
                         struct failure *failure) {
    char name[NAME_BYTES];
    const int result = receive_fd(channel, name, fd, failure);

    if (result < 0)
        return result;
    if (*fd < 0 || strcmp(name, expected) != 0) {
        if (*fd >= 0)
            close(*fd);
        return handover_fail_line("old", failure);
    }
    return 0;
}

/// Receives the memory with the name `expected` and reads it; its size must be `bytes`. The caller
/// frees *read.
/// - Returns 0, or -errno with failure filled in.
static int receive_memory(struct handover_channel *channel, const char *expected, uint64_t bytes,
                          uint8_t **read, struct failure *failure) {
    struct handover_sealed sealed;
    int fd;
    int result = receive_named(channel, expected, &fd, failure);

    if (result < 0)
        return result;
    result = handover_sealed_open(&sealed, fd, bytes);
    if (result == 0 && sealed.size != bytes)
        result = -EPROTO;
    if (result == 0)
        result = handover_sealed_read(&sealed, read);
    handover_sealed_close(&sealed);
    return result < 0 ? handover_state_fail_part(expected, failure) : 0;
}

/// Reads the connections of an old worker into a new worker's table.
/// - fd: descriptor of the memory; this function closes it.
/// - Returns NULL, or the name of the invalid part.
static const char *decode_connections(int fd, struct worker *worker,
                                      struct handover_connections_taken *followed) {
    struct connections *ours = worker_connections(worker);
    struct handover_sealed sealed;
    const char *wrong = "memory";
    uint8_t *bytes = NULL;
    int result = handover_sealed_open(&sealed, fd, HANDOVER_CONNECTIONS_BYTES_MAX);

    if (result == 0)
        result = handover_sealed_read(&sealed, &bytes);
    *followed = (struct handover_connections_taken){0};
    if (result == 0 && ours)
        wrong = handover_connections_parse(bytes, sealed.size, ours, wait_clock(), followed);
    handover_sealed_close(&sealed);
    free(bytes);
    return wrong;
}

/// Touches the memory of each worker's connection table, so that no page faults occur while packets
/// wait: for `connections` connections, and for 1/SPARE more, which may begin before the old
/// firewall stops.
static void warm(struct workers *workers, uint32_t connections) {
    const uint64_t all = (uint64_t)connections + connections / SPARE;

    for (uint32_t i = 0; i < workers->count; i++) {
        struct connections *ours = worker_connections(&workers->all[i]);

        if (ours)
            connection_table_warm(&ours->table, all < UINT32_MAX ? (uint32_t)all : UINT32_MAX);
    }
}

/// Receives the old workers' connections into the tables of the new workers. If any connection is
/// invalid, all tables are emptied: existing connections are then unknown, as if they had begun
/// before the firewall. Returns 0, or -errno with failure filled in.
static int receive_connections(struct handover *taken, struct workers *workers,
                               struct failure *failure) {
    struct handover_connections_taken followed;

    for (uint32_t i = 0; i < workers->count; i++) {
        int fd;
        const int result = receive_named(&taken->channel, HANDOVER_CONNECTIONS, &fd, failure);

        if (result < 0)
            return result;
        if (taken->refused) {
            close(fd);
            continue;
        }
        taken->refused = decode_connections(fd, &workers->all[i], &followed);
        taken->followed.taken += followed.taken;
        taken->followed.left_out += followed.left_out;
    }
    for (uint32_t i = 0; taken->refused && i < workers->count; i++)
        lifetime_forget_all(worker_connections(&workers->all[i]));
    return 0;
}

/// Receives the addresses that the old policy's sets have learned into the new policy's sets. If
/// any address is invalid, the sets are emptied and learn anew. Returns 0, or -errno with failure
/// filled in.
static int receive_learned(struct handover *taken, const struct compiled *compiled,
                           struct failure *failure) {
    struct handover_sealed sealed;
    uint8_t *bytes = NULL;
    int fd;
    int result = receive_named(&taken->channel, HANDOVER_LEARNED, &fd, failure);

    if (result < 0)
        return result;
    taken->unlearned = "memory";
    result = handover_sealed_open(&sealed, fd, HANDOVER_LEARNED_BYTES_MAX);
    if (result == 0)
        result = handover_sealed_read(&sealed, &bytes);
    if (result == 0)
        taken->unlearned =
            handover_learned_parse(bytes, sealed.size, compiled, wait_clock(), &taken->learned);
    counts_add(COUNT_LEARNED_EVICTED, taken->learned.left_out);
    handover_sealed_close(&sealed);
    free(bytes);
    return 0;
}

int handover_take_commit(struct handover *taken, struct state *state, struct failure *failure) {
    const struct requirement *requirement = load_requirement(state->loaded);
    const uint64_t bytes = handover_counted_states_bytes(taken);
    const char *part = NULL;
    uint8_t *read = NULL;
    char commit[128];
    int result, length;

    taken->connections = taken->connections && requirement && requirement->names;
    taken->learns = taken->learns && requirement && requirement->learns;
    if (taken->connections)
        warm(&state->workers, taken->followed_most);
    length = snprintf(commit, sizeof commit, "{\"command\":\"" HANDOVER_COMMIT "\"%s%s}\n",
                      taken->connections ? ",\"connections\":true" : "",
                      taken->learns ? ",\"learned\":true" : "");
    taken->committed_ns = wait_clock();
    // The timeout is twice that of the old process, because the old process may itself wait for a
    // third process that hangs.
    handover_channel_extend(&taken->channel, 2 * HANDOVER_PAUSE_MS);
    result = handover_channel_send(&taken->channel, commit, (size_t)length, -1, failure);
    if (result == 0)
        result = receive_memory(&taken->channel, HANDOVER_STATES, bytes, &read, failure);
    if (result == 0)
        part = handover_counted_parse_states(read, taken);
    free(read);
    if (part)
        result = handover_state_fail_part(part, failure);
    if (result == 0 && taken->connections)
        result = receive_connections(taken, &state->workers, failure);
    if (result == 0 && taken->learns)
        result = receive_learned(taken, state->loaded->compiled, failure);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < taken->queue_count; i++)
        worker_go_on(&state->workers.all[i], &taken->queues[i].stats, taken->queues[i].stalled);
    if (state->loaded->compiled)
        migration_refill(&taken->migration, taken->side.limit_sizes, &taken->states, state->loaded,
                         wait_clock());
    return 0;
}

int handover_take_running(struct handover *taken, struct state *state, struct failure *failure) {
    const uint32_t *totals = taken->side.totals;
    // One element more than needed, so that the result is not NULL for 0 elements.
    struct flow_counter *counters = calloc(totals[MIGRATION_COUNTERS] + 1U, sizeof *counters);
    uint64_t *logged = calloc(totals[MIGRATION_LOGS] + 1U, sizeof *logged);
    const uint64_t bytes = handover_counted_sums_bytes(taken);
    uint8_t *read = NULL;
    int result = counters && logged ? 0 : fail_memory(failure);

    taken->waited_ns = wait_clock() - taken->committed_ns;
    if (result == 0)
        result = receive_memory(&taken->channel, HANDOVER_SUMS, bytes, &read, failure);
    if (result == 0) {
        handover_counted_parse_sums(read, taken, counters, logged);
        state_lock(state);
        if (state->loaded->compiled)
            migration_end(&taken->migration, counters, logged, state->loaded);
        state_unlock(state);
    }
    free(read);
    free(counters);
    free(logged);
    return result;
}

/// Logs the number of transferred connections, or why they were refused.
static void tell_connections(const struct handover *taken) {
    if (taken->refused)
        log_warn("upgrade: the old firewall's connections have an invalid \"%s\": existing "
                 "connections are unknown to this firewall",
                 taken->refused);
    else
        log_info("upgrade: %" PRIu64 " connections were transferred, %" PRIu64 " had no room",
                 taken->followed.taken, taken->followed.left_out);
}

/// Logs the number of transferred addresses, or why they were refused.
static void tell_learned(const struct handover *taken) {
    if (taken->unlearned)
        log_warn("upgrade: the old firewall's learned addresses have an invalid \"%s\": this "
                 "firewall learns them anew",
                 taken->unlearned);
    else
        log_info("upgrade: %" PRIu64 " learned addresses were transferred, %" PRIu64
                 " had no room, %" PRIu64 " belong to sets that this policy does not have",
                 taken->learned.taken, taken->learned.left_out, taken->learned.other);
}

int handover_taken(struct handover *taken, struct failure *failure) {
    static const char said[] = "{\"command\":\"" HANDOVER_TAKEN "\"}\n";
    char *line;
    int result = handover_channel_send(&taken->channel, said, sizeof said - 1, -1, failure);

    if (result == 0)
        result = handover_channel_last_line(&taken->channel, &line, failure);
    if (result == 0 && !handover_says(line, "ok", NULL))
        result = handover_fail_line("old", failure);
    if (result < 0)
        return result;
    for (int i = 0; i < COUNT_COUNT; i++)
        counts_add((enum count)i, taken->counts[i]);
    counts_add(COUNT_UPGRADES, 1);
    log_info("upgrade: took over from pid %" PRId64 ", packets waited for %" PRIu64
             " microseconds at most",
             taken->pid, taken->waited_ns / NS_PER_US);
    if (taken->connections)
        tell_connections(taken);
    if (taken->learns)
        tell_learned(taken);
    return 0;
}
