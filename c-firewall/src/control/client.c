// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close recvfrom sendto
#include "control/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int control_client_make(struct control_client *client, int fd, uid_t uid,
                        const struct proof *proof) {
    char *bytes = malloc(CONTROL_LINE_BYTES);

    if (!bytes)
        return -ENOMEM;
    *client = (struct control_client){.fd = fd, .uid = uid, .proof = *proof, .bytes = bytes};
    return 0;
}

void control_client_close(struct control_client *client) {
    if (client->fd >= 0)
        close(client->fd);
    free(client->bytes);
    free(client->answer);
    *client = (struct control_client){.fd = -1};
}

int control_client_receive(struct control_client *client) {
    const size_t room = CONTROL_LINE_BYTES - client->filled;
    ssize_t received;

    if (client->answer || client->ended || room == 0)
        return 0;
    received = recv(client->fd, client->bytes + client->filled, room, MSG_DONTWAIT);
    if (received < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    client->filled += (size_t)received;
    client->ended = received == 0;
    return 0;
}

/// Returns the first line end in the buffer; NULL if there is none. Searched bytes are not searched
/// again.
static char *line_end(struct control_client *client) {
    char *end = memchr(client->bytes + client->looked, '\n', client->filled - client->looked);

    client->looked = end ? (size_t)(end - client->bytes) : client->filled;
    return end;
}

enum control_line control_client_line(struct control_client *client, const char **line,
                                      size_t *length) {
    const char *end = line_end(client);

    if (end) {
        *line = client->bytes;
        *length = (size_t)(end - client->bytes);
        return CONTROL_LINE_WHOLE;
    }
    if (client->filled == CONTROL_LINE_BYTES)
        return CONTROL_LINE_TOO_LONG;
    return client->ended && client->filled > 0 ? CONTROL_LINE_CUT : CONTROL_LINE_NONE;
}

void control_client_next(struct control_client *client) {
    const size_t served = client->looked + 1;

    client->filled -= served;
    memmove(client->bytes, client->bytes + served, client->filled);
    client->looked = 0;
}

void control_client_answer(struct control_client *client, char *answer, uint64_t now_ms) {
    client->answer = answer;
    client->length = strlen(answer);
    client->sent = 0;
    client->due_ms = now_ms + CONTROL_READ_MS;
}

int control_client_send_answer(struct control_client *client, uint64_t now_ms) {
    while (client->answer && client->sent < client->length) {
        const ssize_t sent = send(client->fd, client->answer + client->sent,
                                  client->length - client->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return now_ms < client->due_ms ? 0 : -ETIMEDOUT;
        if (sent < 0)
            return -errno;
        client->sent += (size_t)sent;
        client->due_ms = now_ms + CONTROL_READ_MS;
    }
    free(client->answer);
    client->answer = NULL;
    return 0;
}

/// Returns true if the buffer holds a complete line.
static bool has_line(const struct control_client *client) {
    return memchr(client->bytes + client->looked, '\n', client->filled - client->looked);
}

short control_client_events(const struct control_client *client) {
    if (client->answer)
        return POLLOUT;
    return client->ended || has_line(client) ? 0 : POLLIN;
}

int control_client_timeout(const struct control_client *client, uint64_t now_ms) {
    if (client->answer)
        return client->due_ms > now_ms ? (int)(client->due_ms - now_ms) : 0;
    return client->ended || has_line(client) ? 0 : -1;
}
