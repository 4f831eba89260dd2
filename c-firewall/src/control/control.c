// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: accept4 getuid
#include "control/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counts.h"
#include "control/answer.h"
#include "control/client.h"
#include "control/peer.h"
#include "control/process.h"
#include "control/proof.h"
#include "control/request.h"
#include "control/socket.h"
#include "worker/wait.h"

enum {
    NS_PER_MS = 1000 * 1000,
    // Time without accepting clients after the system had no more file descriptors or memory, in
    // milliseconds.
    PAUSE_MS = 1000,
};

struct control {
    struct control_socket socket;
    struct control_self self;
    struct control_actions actions;
    struct control_proof proof;
    // Number of clients accepted so far; it becomes the number of the newest client's connection.
    uint64_t connections;
    uint64_t paused_ms; // time until which no client is accepted (monotonic, in milliseconds)
    size_t count;
    struct control_client clients[CONTROL_CLIENTS_MAX];
};

static uint64_t now_ms(void) { return wait_clock() / NS_PER_MS; }

int control_open(struct control **opened, const struct options *options, int listener,
                 const struct control_actions *actions, struct failure *failure) {
    struct control *control = calloc(1, sizeof *control);
    int result = control ? control_self_read(&control->self) : -ENOMEM;

    if (result < 0) {
        failure_set_start(failure, "calloc", -result);
        if (listener >= 0)
            close(listener);
    } else {
        result = control_proof_open(&control->proof, failure);
        if (result == 0) {
            result = control_socket_open(&control->socket, options, listener, failure);
            if (result < 0)
                control_proof_close(&control->proof);
        } else if (listener >= 0) {
            close(listener);
        }
    }
    if (result < 0) {
        if (control)
            control_self_free(&control->self);
        free(control);
        return result;
    }
    control->actions = *actions;
    *opened = control;
    return 0;
}

size_t control_poll(const struct control *control, struct pollfd *room) {
    room[0] = (struct pollfd){.fd = control->socket.fd,
                              .events = now_ms() < control->paused_ms ? 0 : POLLIN};
    for (size_t i = 0; i < control->count; i++)
        room[1 + i] = (struct pollfd){.fd = control->clients[i].fd,
                                      .events = control_client_events(&control->clients[i])};
    return 1 + control->count;
}

int control_timeout(const struct control *control) {
    const uint64_t now = now_ms();
    int least = now < control->paused_ms ? (int)(control->paused_ms - now) : -1;

    for (size_t i = 0; i < control->count; i++) {
        const int timeout = control_client_timeout(&control->clients[i], now);

        if (timeout >= 0 && (least < 0 || timeout < least))
            least = timeout;
    }
    return least;
}

/// Sends the reason to a client that is not served, as far as possible without blocking, and closes
/// the connection.
static void turn_away(int fd, const char *text) {
    char *line = control_answer_error(text);

    if (line)
        send(fd, line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL);
    free(line);
    close(fd);
}

/// Makes a client in the first unused element of control->clients; the caller counts it. Returns 0
/// or -ENOMEM.
static int make_client(struct control *control, int fd, const struct control_peer *peer) {
    const struct proof proof = {.pid = peer->pid, .number = ++control->connections};

    return control_client_make(&control->clients[control->count], fd, peer->uid, &proof);
}

/// Returns 0, or -EBUSY with failure filled in if the limit of clients is reached for a user. Some
/// of the CONTROL_CLIENTS_MAX places are reserved for root, so that other users can't lock it out.
static int check_place(const struct control *control, uid_t uid, struct failure *failure) {
    size_t others = 0;
    size_t same = 0;
    const char *of = "";
    int max = CONTROL_CLIENTS_MAX;

    for (size_t i = 0; i < control->count; i++) {
        others += control->clients[i].uid != 0;
        same += control->clients[i].uid == uid;
    }
    if (uid != 0 && same >= CONTROL_USER_MAX) {
        of = " of this user";
        max = CONTROL_USER_MAX;
    } else if (uid != 0 && others >= CONTROL_OTHERS_MAX) {
        of = " of users other than root";
        max = CONTROL_OTHERS_MAX;
    } else if (control->count < CONTROL_CLIENTS_MAX) {
        return 0;
    }
    failure_set(failure, LOG_EXIT_CAPABILITY,
                "%d clients%s are being served: close one, or try again later", max, of);
    return -EBUSY;
}

/// Adds a client for a new connection, or sends the reason for the refusal and closes the
/// connection.
static void welcome(struct control *control, int fd) {
    struct control_peer peer = {.uid = (uid_t)-1};
    struct failure failure;

    if (control_peer_read(fd, &peer) < 0 ||
        !control_peer_may_ask(&peer, &control->socket.access, getuid())) {
        counts_add(COUNT_CONTROL_REFUSED, 1);
        failure_set(&failure, LOG_EXIT_CAPABILITY,
                    "user %u may not use the control socket: ask as root, or see --control-owner "
                    "and --control-mode",
                    peer.uid);
        turn_away(fd, failure.text);
    } else if (check_place(control, peer.uid, &failure) < 0) {
        counts_add(COUNT_CONTROL_TOO_MANY, 1);
        turn_away(fd, failure.text);
    } else if (make_client(control, fd, &peer) < 0) {
        turn_away(fd, "no memory: try again later");
    } else {
        counts_add(COUNT_CONTROL_CLIENTS, 1);
        control->count++;
    }
}

/// Accepts up to CONTROL_CLIENTS_MAX waiting connections; further connections wait for the next
/// call.
static void accept_clients(struct control *control) {
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        const int fd = accept4(control->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
            welcome(control, fd);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            // The socket stays readable, so without a pause the loop would spin.
            control->paused_ms = now_ms() + PAUSE_MS;
            return;
        }
    }
}

static char *answer_status(struct control *control) {
    uint64_t counts[COUNT_COUNT];
    struct snapshot snapshot;
    char *reply;

    if (control->actions.snapshot(control->actions.context, false, &snapshot) < 0)
        return NULL;
    for (int i = 0; i < COUNT_COUNT; i++)
        counts[i] = counts_get((enum count)i);
    control->self.uid = getuid();
    reply = control_answer_status(&control->self, &snapshot, log_level(), counts);
    snapshot_free(&snapshot);
    return reply;
}

static char *answer_stats(struct control *control) {
    char *report = control->actions.stats(control->actions.context);
    char *reply = report ? control_answer_stats(report) : NULL;

    free(report);
    return reply;
}

static char *answer_rules(struct control *control) {
    struct snapshot snapshot;
    char *reply;

    if (control->actions.snapshot(control->actions.context, true, &snapshot) < 0)
        return NULL;
    reply = control_answer_rules(&snapshot);
    snapshot_free(&snapshot);
    return reply;
}

static char *answer_reload(struct control *control) {
    struct reload_result result;
    struct failure failure;

    if (control->actions.reload(control->actions.context, &result, &failure) < 0)
        return control_answer_error(failure.text);
    return control_answer_reload(&result);
}

static char *answer_connections(struct control *control, const struct control_request *request) {
    struct listing listing;

    if (control->actions.connections(control->actions.context, request->from, request->undecided,
                                     &listing) < 0)
        return control_answer_error("a queue's worker does not answer: try again later");
    return control_answer_connections(&listing);
}

static char *answer_log(const struct control_request *request) {
    const enum log_level was = log_level();

    if (request->has_level)
        log_set_level(request->level);
    return control_answer_log(log_level(), was);
}

static char *answer_drain(struct control *control, const struct control_request *request) {
    struct snapshot snapshot;
    uint64_t waiting = 0;

    if (control->actions.snapshot(control->actions.context, false, &snapshot) < 0)
        return NULL;
    for (uint32_t i = 0; i < snapshot.ledger_count; i++)
        waiting += snapshot.ledgers[i].waiting;
    snapshot_free(&snapshot);
    control->actions.drain(control->actions.context, request->seconds);
    return control_answer_drain(request->seconds, waiting);
}

/// Adds a client's connection to the receivers of events. Returns NULL, or the error answer if that
/// failed.
static char *hand_to_tail(struct control *control, struct control_client *client,
                          const struct control_request *request) {
    const int result = control->actions.tail(control->actions.context, client->fd,
                                             request->verdicts, request->packets);
    struct failure failure;

    if (result == 0) {
        client->fd = -1;
        return NULL;
    }
    client->closing = true;
    if (result == -EBUSY)
        return control_answer_error(
            "too many clients follow the events: close one, or try again later");
    failure_set_running(&failure, "tail", -result);
    return control_answer_error(failure.text);
}

/// Returns 0, or -EPERM with failure filled in if a client is not allowed to take over the
/// firewall.
static int check_taker(struct control *control, const struct control_client *client,
                       struct failure *failure) {
    if (!control_peer_may_take_over(client->uid, getuid())) {
        failure_set(failure, LOG_EXIT_CAPABILITY,
                    "user %u may not take over: start the new firewall as root or as this "
                    "firewall's user; being in the socket's group is not enough",
                    client->uid);
        return -EPERM;
    }
    if (!control_proof_has_come(&control->proof, &client->proof)) {
        failure_set(failure, LOG_EXIT_CAPABILITY,
                    "pid %d has not shown CAP_NET_ADMIN: start a firewall with --take-over, which "
                    "does",
                    client->proof.pid);
        return -EPERM;
    }
    return 0;
}

/// Begins an upgrade with the client's connection. Returns NULL, or the error answer if that
/// failed.
static char *hand_to_upgrade(struct control *control, struct control_client *client,
                             const struct control_request *request) {
    struct failure failure;

    if (check_taker(control, client, &failure) < 0) {
        counts_add(COUNT_CONTROL_REFUSED, 1);
        return control_answer_error(failure.text);
    }
    if (control->actions.upgrade(control->actions.context, client->fd,
                                 options_backend_name(request->backend), &failure) < 0)
        return control_answer_error(failure.text);
    client->fd = -1;
    return NULL;
}

/// Executes a request. Returns the answer; NULL if the client's connection has another owner now,
/// or must be closed because there is no memory.
static char *answer(struct control *control, struct control_client *client,
                    const struct control_request *request) {
    switch (request->command) {
    case CONTROL_STATUS:
        return answer_status(control);
    case CONTROL_STATS:
        return answer_stats(control);
    case CONTROL_RULES:
        return answer_rules(control);
    case CONTROL_RELOAD:
        return answer_reload(control);
    case CONTROL_LOG:
        return answer_log(request);
    case CONTROL_DRAIN:
        return answer_drain(control, request);
    case CONTROL_TAIL:
        return hand_to_tail(control, client, request);
    case CONTROL_PROOF:
        return control_answer_proof(control->proof.port, client->proof.number);
    case CONTROL_CONNECTIONS:
        return answer_connections(control, request);
    case CONTROL_UPGRADE:
        return hand_to_upgrade(control, client, request);
    case CONTROL_COMMAND_COUNT:
        break;
    }
    return NULL;
}

static char *answer_line(struct control *control, struct control_client *client, const char *line,
                         size_t length) {
    struct control_request request;
    struct failure failure;

    if (control_request_parse(line, length, &request, &failure) < 0) {
        counts_add(COUNT_CONTROL_BAD, 1);
        return control_answer_error(failure.text);
    }
    counts_add(COUNT_CONTROL_REQUESTS, 1);
    return answer(control, client, &request);
}

/// Serves the first request in a client's buffer. The client must have received its last answer
/// completely.
/// - Returns true if the client stays.
static bool serve_line(struct control *control, struct control_client *client) {
    char *reply = NULL;
    const char *line;
    size_t length;

    switch (control_client_line(client, &line, &length)) {
    case CONTROL_LINE_NONE:
        return !client->ended;
    case CONTROL_LINE_CUT:
        counts_add(COUNT_CONTROL_BAD, 1);
        return false;
    case CONTROL_LINE_TOO_LONG:
        counts_add(COUNT_CONTROL_BAD, 1);
        client->closing = true;
        reply = control_answer_error("the line has more than 65536 bytes: send a shorter one");
        break;
    case CONTROL_LINE_WHOLE:
        reply = answer_line(control, client, line, length);
        control_client_next(client);
        break;
    }
    if (reply)
        control_client_answer(client, reply, now_ms());
    return reply;
}

/// Serves a client: at most one request, so that clients take turns.
/// - Returns true if the client stays.
static bool serve_client(struct control *control, struct control_client *client, short revents) {
    int result;

    if ((revents & (POLLIN | POLLHUP | POLLERR)) && control_client_receive(client) < 0)
        return false;
    if (!client->answer && !serve_line(control, client))
        return false;
    result = control_client_send_answer(client, now_ms());
    if (result == -ETIMEDOUT)
        counts_add(COUNT_CONTROL_SLOW, 1);
    return result == 0 && (client->answer || !client->closing);
}

void control_serve(struct control *control, const struct pollfd *fds, size_t count) {
    size_t stay = 0;

    for (size_t i = 0; i < control->count; i++) {
        struct control_client *client = &control->clients[i];

        if (serve_client(control, client, fds[1 + i].revents))
            control->clients[stay++] = *client;
        else
            control_client_close(client);
    }
    control->count = stay;
    if (count > 0 && (fds[0].revents & POLLIN))
        accept_clients(control);
}

int control_listener(const struct control *control) { return control->socket.fd; }

void control_close(struct control *control, bool unlink) {
    if (!control)
        return;
    for (size_t i = 0; i < control->count; i++)
        control_client_close(&control->clients[i]);
    control_socket_close(&control->socket, unlink);
    control_proof_close(&control->proof);
    control_self_free(&control->self);
    free(control);
}
