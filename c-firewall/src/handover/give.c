// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: getpid kill
#include "handover/give.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/socket.h"
#include "handover/connections.h"
#include "handover/counted.h"
#include "handover/learned.h"
#include "handover/rules.h"
#include "handover/state.h"
#include "worker/wait.h"

enum {
    // Buffer size for a line that names a descriptor, such as {"fd":"queue:65535"}, with its line
    // end and NUL.
    FD_LINE_BYTES = 64,
};

/// Returns true if a commit command requests connections.
static bool wants_connections(const char *line) {
    return handover_says(line, HANDOVER_CONNECTIONS, NULL);
}

/// Returns true if a commit command requests the learned addresses.
static bool wants_learned(const char *line) { return handover_says(line, HANDOVER_LEARNED, NULL); }

/// Fills in the failure to create or write the memory.
/// - error: -errno, which is returned.
static int fail_memory(int error, struct failure *failure) {
    failure_set_running(failure, "memfd_create", -error);
    return error;
}

void handover_give_stay(const struct failure *failure, int listener) {
    if (listener >= 0)
        control_socket_listen_again(listener);
    counts_add(COUNT_UPGRADES_FAILED, 1);
    log_warn("upgrade: this firewall goes on: %s", failure->text);
}

/// Stores the numbers of counters, logs, limits and quotas in a policy, indexed by enum
/// migration_kind.
static void count_totals(const struct compiled *compiled, uint32_t totals[MIGRATION_KIND_COUNT]) {
    totals[MIGRATION_COUNTERS] = compile_counters(compiled);
    totals[MIGRATION_LOGS] = compile_logs(compiled);
    totals[MIGRATION_LIMITS] = compiled->limit_count;
    totals[MIGRATION_QUOTAS] = compiled->quota_count;
}

/// Returns the largest number of connections that a worker follows.
static uint32_t most_followed(const struct workers *workers) {
    uint32_t most = 0;

    for (uint32_t i = 0; i < workers->count; i++) {
        const uint32_t followed = __atomic_load_n(&workers->all[i].followed, __ATOMIC_RELAXED);

        most = followed > most ? followed : most;
    }
    return most;
}

/// Fills in the part of the state that is sent before the workers stop. Returns 0 or -ENOMEM.
static int describe(const struct state *state, struct handover *described) {
    const struct requirement *requirement = load_requirement(state->loaded);
    const struct workers *workers = &state->workers;
    int result;

    described->pid = getpid();
    described->generation = state->loaded->generation;
    described->connections = requirement && requirement->names;
    described->learns = requirement && requirement->learns;
    described->followed_most = most_followed(workers);
    if (state->loaded->compiled)
        count_totals(state->loaded->compiled, described->side.totals);
    result = handover_state_make(described, workers->count);
    for (uint32_t i = 0; result == 0 && i < workers->count; i++) {
        described->queues[i].number = workers->all[i].settings.number;
        described->queues[i].handover = workers->all[i].handover;
    }
    return result;
}

/// Frees the parts of a description that it owns; the other parts belong to the running state.
static void forget(struct handover *described) {
    for (uint32_t i = 0; i < described->queue_count; i++)
        described->queues[i].handover.fd = -1;
    memset(described->options, 0, sizeof described->options);
    handover_free(described);
}

/// Creates a memory file, and reserves `bytes` bytes in it. Returns 0 or -errno.
static int make_room(struct handover_memory *memory, uint64_t bytes) {
    const int result = handover_memory_make(memory);

    return result < 0 ? result : handover_memory_reserve(memory, bytes);
}

static int send_fd(struct handover_channel *channel, const char *name, int fd,
                   struct failure *failure) {
    char line[FD_LINE_BYTES];
    const int length = snprintf(line, sizeof line, "{\"fd\":\"%s\"}\n", name);

    return handover_channel_send(channel, line, (size_t)length, fd, failure);
}

/// Sends the state as a line of JSON, and all descriptors: the queues' sockets, those that options
/// opened, and the memory file with the rules. Called before the workers stop. Returns 0, or -errno
/// with failure filled in.
static int tell(const struct handover *described, struct handover_giving *giving,
                const int fds[HANDOVER_FD_COUNT], struct failure *failure) {
    static const char end[] = "{\"fd\":null}\n";
    struct handover_channel *const channel = &giving->channel;
    const uint64_t due_ns = channel->due_ns;
    char name[FD_LINE_BYTES];
    char *line = handover_state_print(described);
    int result = line ? 0 : fail_memory(-ENOMEM, failure);

    // A client that does not read blocks the main thread for at most HANDOVER_PAUSE_MS.
    handover_channel_extend(channel, HANDOVER_PAUSE_MS);
    if (result == 0)
        result = handover_channel_send(channel, line, strlen(line), -1, failure);
    free(line);
    for (uint32_t i = 0; result == 0 && i < described->queue_count; i++) {
        snprintf(name, sizeof name, "queue:%u", described->queues[i].number);
        result = send_fd(channel, name, described->queues[i].handover.fd, failure);
    }
    for (int i = 0; result == 0 && i < HANDOVER_FD_COUNT; i++)
        if (fds[i] >= 0)
            result = send_fd(channel, handover_state_fd_name((enum handover_fd)i), fds[i], failure);
    if (result == 0)
        result = send_fd(channel, HANDOVER_RULES, giving->rules.memory.fd, failure);
    if (result == 0)
        result = handover_channel_send(channel, end, sizeof end - 1, -1, failure);
    handover_channel_until(channel, due_ns);
    giving->told = result == 0;
    return result;
}

/// Allocates an upgrade with every descriptor -1. Returns NULL if there is no memory.
static struct handover_giving *make_giving(void) {
    struct handover_giving *made = calloc(1, sizeof *made);

    if (made)
        made->channel.fd = made->rules.memory.fd = made->states.fd = made->sums.fd = -1;
    return made;
}

int handover_give_prepare(const struct state *state, char *const values[static HANDOVER_FD_COUNT],
                          int client_fd, enum queue_kind kind, struct handover_giving **giving,
                          struct failure *failure) {
    struct handover_giving *made;
    struct handover described;
    int result;

    *giving = NULL;
    if (!queue_can_adopt(kind))
        return handover_fail_classic(failure);
    made = make_giving();
    handover_init(&described);
    result = made ? describe(state, &described) : -ENOMEM;
    if (result == 0)
        result = handover_rules_begin(&made->rules, state->loaded);
    if (result == 0)
        result = make_room(&made->states, handover_counted_states_bytes(&described));
    if (result == 0)
        result = make_room(&made->sums, handover_counted_sums_bytes(&described));
    forget(&described);
    if (result < 0) {
        handover_give_end(made);
        return fail_memory(result, failure);
    }
    made->values = values;
    handover_channel_open(&made->channel, client_fd, "new", HANDOVER_PREPARE_MS);
    *giving = made;
    return 0;
}

int handover_give_fd(const struct handover_giving *giving) { return giving->channel.fd; }

uint64_t handover_give_due_ns(const struct handover_giving *giving) {
    return giving->told ? giving->channel.due_ns : 0;
}

/// Writes the next rules. After the last rule, sends state and descriptors. Returns 0, or -errno
/// with failure filled in.
static int tell_more(const struct state *state, struct handover_giving *giving,
                     const int fds[HANDOVER_FD_COUNT], struct failure *failure) {
    struct handover described;
    int result = handover_rules_write(&giving->rules, state->loaded);

    if (result != 0)
        return result < 0 ? fail_memory(result, failure) : 0;
    handover_init(&described);
    result = describe(state, &described);
    memcpy(described.options, giving->values, sizeof described.options);
    result = result < 0 ? fail_memory(result, failure) : tell(&described, giving, fds, failure);
    forget(&described);
    return result;
}

int handover_give_go_on(const struct state *state, struct handover_giving *giving,
                        const int fds[HANDOVER_FD_COUNT], bool *ready, struct failure *failure) {
    char *line;
    int result;

    *ready = false;
    if (!giving->told)
        return tell_more(state, giving, fds, failure);
    result = handover_channel_line_if_any(&giving->channel, &line, failure);
    *ready = result == 0 && line;
    if (*ready && !handover_says(line, "command", HANDOVER_COMMIT))
        return handover_fail_line("new", failure);
    giving->connections = *ready && wants_connections(line);
    giving->learned = *ready && wants_learned(line);
    return result;
}

/// Stops the workers between two batches, and prepares their queues for the adoption by the new
/// firewall. Returns 0, or -errno with failure filled in if a worker has ended with an error.
static int pause_workers(struct workers *workers, struct failure *failure) {
    int result = 0;

    for (uint32_t i = 0; i < workers->count; i++)
        worker_stop(&workers->all[i], true);
    for (uint32_t i = 0; i < workers->count; i++)
        worker_join(&workers->all[i]);
    for (uint32_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->all[i];

        queue_give(&workers->all[i].queue);
        if (result == 0 && worker->error != 0) {
            failure_set_running(failure, worker->failed_call, worker->error);
            result = -worker->error;
        }
    }
    return result;
}

/// Starts the workers again. If a worker can't be started, the process ends, as after an error of a
/// worker.
static void start_workers(struct workers *workers) {
    struct failure failure;

    for (uint32_t i = 0; i < workers->count; i++) {
        if (worker_start(&workers->all[i], &failure) == 0)
            continue;
        log_error("%s", failure.text);
        kill(getpid(), SIGTERM);
    }
}

/// Seals a memory file and sends its descriptor.
/// - name: name that is sent with the descriptor.
/// - written: result of writing the memory: 0 or -errno.
/// - Returns 0, or -errno with failure filled in.
static int pass_on(struct handover_channel *channel, const char *name,
                   struct handover_memory *memory, int written, struct failure *failure) {
    const int result = written < 0 ? written : handover_memory_seal(memory);

    if (result < 0)
        return fail_memory(result, failure);
    return send_fd(channel, name, memory->fd, failure);
}

/// Sends a worker's connections.
/// - room: maximum size of the connections, in bytes.
/// - Returns 0, or -errno with failure filled in.
static int pass_table(struct handover_channel *channel, struct connections *connections,
                      uint64_t room, struct failure *failure) {
    struct handover_memory memory;
    int result = handover_memory_make(&memory);

    if (result < 0)
        return fail_memory(result, failure);
    result = pass_on(channel, HANDOVER_CONNECTIONS, &memory,
                     handover_connections_write(&memory, connections, room, wait_clock()), failure);
    handover_memory_close(&memory);
    return result;
}

/// Sends the connections of all workers, if the new firewall requested them. Returns 0, or -errno
/// with failure filled in.
static int pass_connections(struct state *state, struct handover_giving *giving,
                            struct failure *failure) {
    const uint64_t room = HANDOVER_CONNECTIONS_BYTES_MAX / state->workers.count;
    int result = 0;

    for (uint32_t i = 0; giving->connections && result == 0 && i < state->workers.count; i++) {
        struct connections *connections = worker_connections(&state->workers.all[i]);

        if (connections)
            result = pass_table(&giving->channel, connections, room, failure);
    }
    return result;
}

/// Sends the addresses that the policy's sets have learned, if the new firewall requested them.
/// Returns 0, or -errno with failure filled in.
static int pass_learned(const struct state *state, struct handover_giving *giving,
                        struct failure *failure) {
    const struct compiled *compiled = state->loaded->compiled;
    struct handover_memory memory;
    int result;

    if (!giving->learned || !compiled)
        return 0;
    result = handover_memory_make(&memory);
    if (result < 0)
        return fail_memory(result, failure);
    result = pass_on(&giving->channel, HANDOVER_LEARNED, &memory,
                     handover_learned_write(&memory, compiled, wait_clock()), failure);
    handover_memory_close(&memory);
    return result;
}

/// Stops the workers, sends states, connections, learned addresses and sums, waits for "taken", and
/// confirms it. Returns 0, or -errno with failure filled in.
static int hand_over(struct state *state, struct handover_giving *giving, struct failure *failure) {
    char *line;
    int result = pause_workers(&state->workers, failure);

    if (result == 0)
        result =
            pass_on(&giving->channel, HANDOVER_STATES, &giving->states,
                    handover_counted_write_states(&giving->states, state, wait_clock()), failure);
    if (result == 0)
        result = pass_connections(state, giving, failure);
    if (result == 0)
        result = pass_learned(state, giving, failure);
    // Meanwhile the new firewall starts its workers.
    if (result == 0)
        result = pass_on(&giving->channel, HANDOVER_SUMS, &giving->sums,
                         handover_counted_write_sums(&giving->sums, state), failure);
    if (result == 0)
        result = handover_channel_line(&giving->channel, &line, failure);
    if (result == 0 && !handover_says(line, "command", HANDOVER_TAKEN))
        result = handover_fail_line("new", failure);
    // Last step that can fail: after it only the new firewall filters.
    if (result == 0)
        result = handover_channel_send(&giving->channel, HANDOVER_HEARD, sizeof HANDOVER_HEARD - 1,
                                       -1, failure);
    return result;
}

bool handover_give_commit(struct state *state, struct handover_giving *giving, int listener) {
    struct failure failure;
    int result;

    state_lock(state);
    handover_channel_extend(&giving->channel, HANDOVER_PAUSE_MS);
    result = hand_over(state, giving, &failure);
    if (result == 0) {
        for (uint32_t i = 0; i < state->workers.count; i++)
            queue_release(&state->workers.all[i].queue);
        log_info("upgrade: the new firewall filters, this one ends");
    } else {
        start_workers(&state->workers);
        handover_give_stay(&failure, listener);
    }
    state_unlock(state);
    handover_give_end(giving);
    return result == 0;
}

void handover_give_end(struct handover_giving *giving) {
    if (!giving)
        return;
    handover_channel_close(&giving->channel);
    handover_memory_close(&giving->rules.memory);
    handover_memory_close(&giving->states);
    handover_memory_close(&giving->sums);
    free(giving);
}
