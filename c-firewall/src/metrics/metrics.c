// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: accept4 clock_gettime close epoll_create1 epoll_ctl epoll_wait eventfd2 fcntl futex
// seccomp: getsockname getsockopt poll pread64 recvfrom sendmsg sendto setsockopt shutdown
#include "metrics/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counts.h"
#include "metrics/plain.h"
#include "metrics/text.h"
#include "worker/wait.h"

enum {
    NS_PER_MS = 1000 * 1000,
    BACKLOG = 16,
    ENDED_MS = 100, // for the library to read what an ended client sent: its edges may miss the end
    FDS_MAX = 2 + METRICS_CONNECTIONS_MAX,
};

/// The formats of one snapshot's text.
enum format {
    OPENMETRICS,
    PLAIN,
    FORMATS,
};

struct rendering {
    const char *text;                        // in OpenMetrics; of its response
    struct MHD_Response *responses[FORMATS]; // NULL = not asked for so far
    uint64_t until_ns;                       // time until which it is recent enough; monotonic time
    uint32_t readers;                        // connections that were given it and have not ended
};

/// A connection.
struct place {
    int fd;                  // -1 = none
    struct rendering *reads; // NULL = none so far
    bool answered;
    bool ended;      // the client sends no more
    uint64_t due_ms; // when it is closed at the latest; monotonic time
};

struct metrics {
    int listener;
    int statm; // /proc/self/statm, opened while that is allowed
    int stop;  // an eventfd, readable when the thread is to end; -1 = not started
    struct state *state;
    pthread_t thread;
    struct MHD_Daemon *http;
    bool freed; // a place, since the last run: the next one listens again if none was free
    struct rendering renderings[2];
    struct rendering *newest; // one of them
    struct place places[METRICS_CONNECTIONS_MAX];
};

static uint64_t now_ms(void) { return wait_clock() / NS_PER_MS; }

/// Reads ADDRESS:PORT or [ADDRESS]:PORT, which the options have checked.
/// - Returns the length of the address.
static socklen_t read_endpoint(const char *text, struct sockaddr_storage *storage) {
    const bool is_ipv6 = *text == '[';
    const char *begin = text + is_ipv6;
    const char *colon = strrchr(text, ':');
    const uint16_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    char address[INET6_ADDRSTRLEN];

    snprintf(address, sizeof address, "%.*s", (int)(colon - is_ipv6 - begin), begin);
    *storage = (struct sockaddr_storage){.ss_family = is_ipv6 ? AF_INET6 : AF_INET};
    if (is_ipv6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;

        in6->sin6_port = port;
        inet_pton(AF_INET6, address, &in6->sin6_addr);
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)storage;

    in->sin_port = port;
    inet_pton(AF_INET, address, &in->sin_addr);
    return sizeof *in;
}

/// Explains why listening at the address failed, with the cure. Returns -error.
static int fail_listen(const char *endpoint, int error, struct failure *failure) {
    switch (error) {
    case EADDRINUSE:
        failure_set(failure, LOG_EXIT_OWNED,
                    "--metrics %s: in use by another program: stop it or choose another port",
                    endpoint);
        break;
    case EADDRNOTAVAIL:
        failure_set(failure, LOG_EXIT_USAGE,
                    "--metrics %s: this machine has no such address: choose one that `ip address` "
                    "names",
                    endpoint);
        break;
    case EACCES:
        failure_set(failure, LOG_EXIT_USAGE,
                    "--metrics %s: the port is for root only: choose one from 1024 on", endpoint);
        break;
    default:
        failure_set_start(failure, "bind", error);
    }
    return -error;
}

/// - Returns the socket, or -errno with failure filled in.
static int listen_at(const char *endpoint, struct failure *failure) {
    struct sockaddr_storage address;
    const socklen_t length = read_endpoint(endpoint, &address);
    const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    int error;

    if (fd < 0)
        return fail_listen(endpoint, errno, failure);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); // its connections may linger
    if (bind(fd, (const struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    error = errno;
    close(fd);
    return fail_listen(endpoint, error, failure);
}

int metrics_open(struct metrics **opened, const struct options *options, int listener,
                 struct failure *failure) {
    struct metrics *metrics = calloc(1, sizeof *metrics);

    if (!metrics) {
        if (listener >= 0)
            close(listener);
        failure_set_start(failure, "calloc", ENOMEM);
        return -ENOMEM;
    }
    if (listener < 0)
        listener = listen_at(options->metrics, failure);
    if (listener < 0) {
        free(metrics);
        return listener;
    }
    metrics->listener = listener;
    metrics->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    metrics->stop = -1;
    metrics->newest = &metrics->renderings[0];
    for (int i = 0; i < METRICS_CONNECTIONS_MAX; i++)
        metrics->places[i].fd = -1;
    *opened = metrics;
    return 0;
}

/// Memory of the process; 0 where the system does not tell.
static uint64_t resident_bytes(const struct metrics *metrics) {
    char text[128];
    const ssize_t length = pread(metrics->statm, text, sizeof text - 1, 0);
    uint64_t pages = 0;

    text[length > 0 ? length : 0] = '\0';
    if (sscanf(text, "%*u %" SCNu64, &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/// The metrics now, in OpenMetrics. Returns NULL if there is no memory.
static char *make_text(const struct metrics *metrics) {
    uint64_t counts[COUNT_COUNT];
    struct snapshot snapshot;
    char *text;

    if (snapshot_take(metrics->state, true, &snapshot) < 0)
        return NULL;
    for (int i = 0; i < COUNT_COUNT; i++)
        counts[i] = counts_get((enum count)i);
    text = metrics_text(&snapshot, counts, resident_bytes(metrics));
    snapshot_free(&snapshot);
    return text;
}

/// A response that has the connection closed behind it.
/// - text: NULL, or freed with the response.
/// - Returns NULL if there is no memory.
static struct MHD_Response *make_response(char *text, const char *type) {
    struct MHD_Response *response;

    if (!text)
        return NULL;
    response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return NULL;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

/// Forgets a rendering. The library keeps a response as long as it is sent.
static void drop_rendering(struct rendering *rendering) {
    for (int format = 0; format < FORMATS; format++)
        if (rendering->responses[format])
            MHD_destroy_response(rendering->responses[format]);
    *rendering = (struct rendering){0};
}

/// Makes a rendering in place of one that nobody reads. Returns whether there was memory.
static bool make_rendering(const struct metrics *metrics, struct rendering *rendering) {
    const uint64_t begin_ns = wait_clock();
    uint64_t shared_ns;
    char *text;

    drop_rendering(rendering);
    text = make_text(metrics);
    rendering->responses[OPENMETRICS] = make_response(text, METRICS_OPENMETRICS_TYPE);
    if (!rendering->responses[OPENMETRICS])
        return false;
    rendering->text = text;
    rendering->until_ns = wait_clock();
    shared_ns = (rendering->until_ns - begin_ns) * METRICS_SHARE;
    if (shared_ns > (uint64_t)METRICS_CONNECTION_MS * NS_PER_MS)
        shared_ns = (uint64_t)METRICS_CONNECTION_MS * NS_PER_MS;
    rendering->until_ns += shared_ns;
    return true;
}

/// Returns a rendering for a new client: the newest, or a newer one. Returns NULL if there is no
/// memory.
static struct rendering *current_rendering(struct metrics *metrics) {
    struct rendering *newest = metrics->newest;
    struct rendering *other = &metrics->renderings[newest == &metrics->renderings[0]];
    struct rendering *next = newest->readers > 0 ? other : newest;

    if (newest->text && (wait_clock() < newest->until_ns || next->readers > 0))
        return newest;
    if (!make_rendering(metrics, next))
        return NULL;
    metrics->newest = next;
    return next;
}

/// The response of a rendering, in a format. Returns NULL if there is no memory.
static struct MHD_Response *response_of(struct rendering *rendering, enum format format) {
    struct MHD_Response **response = &rendering->responses[format];

    if (!*response)
        *response = make_response(metrics_plain(rendering->text), METRICS_PLAIN_TYPE);
    return *response;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned int status,
                              const char *text) {
    struct MHD_Response *response = make_response(strdup(text), "text/plain; charset=utf-8");
    enum MHD_Result result;

    counts_add(COUNT_METRICS_REFUSED, 1);
    if (!response)
        return MHD_NO;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/// Assigns the current rendering to the connection of a place.
static enum MHD_Result answer(struct metrics *metrics, struct MHD_Connection *connection,
                              struct place *place, enum format format) {
    struct rendering *rendering = current_rendering(metrics);
    struct MHD_Response *response = rendering ? response_of(rendering, format) : NULL;

    if (!response)
        return MHD_NO;
    place->reads = rendering;
    rendering->readers++;
    return MHD_queue_response(connection, MHD_HTTP_OK, response);
}

/// The place of a connection, or NULL.
static struct place *place_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/// Answers a request whose head has come (an MHD_AccessHandlerCallback).
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request) {
    struct metrics *metrics = context;
    struct place *place = place_of(connection);
    const char *accept =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    const enum format format = metrics_plain_is_wanted(accept) ? PLAIN : OPENMETRICS;

    (void)version;
    (void)upload;
    (void)upload_size;
    (void)request;
    if (!place)
        return MHD_NO;
    place->answered = true;
    if (strcmp(url, "/metrics") != 0)
        return refuse(connection, MHD_HTTP_NOT_FOUND, "The metrics are at /metrics.\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Ask by GET.\n");
    counts_add(COUNT_METRICS_REQUESTS, 1);
    return answer(metrics, connection, place, format);
}

/// Stores a connection's place (an MHD_NotifyConnectionCallback).
static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    struct metrics *metrics = context;
    struct place *place = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (!place)
            return;
        if (!place->answered)
            counts_add(COUNT_METRICS_UNANSWERED, 1);
        if (place->reads)
            place->reads->readers--;
        place->fd = -1;
        metrics->freed = true;
        return;
    }
    for (int i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
        if (metrics->places[i].fd >= 0)
            continue;
        place = &metrics->places[i];
        place->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        place->reads = NULL;
        place->answered = place->ended = false;
        place->due_ms = now_ms() + METRICS_CONNECTION_MS;
        *socket_context = place;
        return;
    }
}

/// Breaks connections whose time is over. What is under way to them is thrown away with them.
/// - Returns for how many milliseconds none is; -1 = for ever.
static int expire(const struct metrics *metrics) {
    const struct linger discard = {.l_onoff = 1};
    const uint64_t now = now_ms();
    int least = -1;

    for (int i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
        const struct place *place = &metrics->places[i];

        if (place->fd < 0)
            continue;
        if (place->due_ms <= now) {
            setsockopt(place->fd, SOL_SOCKET, SO_LINGER, &discard, sizeof discard);
            shutdown(place->fd, SHUT_RDWR);
            continue;
        }
        if (least < 0 || (int)(place->due_ms - now) < least)
            least = (int)(place->due_ms - now);
    }
    return least;
}

/// Time until the next action without an event.
static int timeout_ms(const struct metrics *metrics) {
    const int due = expire(metrics);
    MHD_UNSIGNED_LONG_LONG http;

    if (metrics->freed)
        return 0;
    if (MHD_get_timeout(metrics->http, &http) == MHD_NO || (due >= 0 && (int)http > due))
        return due;
    return (int)http;
}

/// Fills in what to poll: what ends the thread, the library's, and the ends of clients.
static void fill(const struct metrics *metrics, struct pollfd fds[static FDS_MAX]) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(metrics->http, MHD_DAEMON_INFO_EPOLL_FD);

    fds[0] = (struct pollfd){.fd = metrics->stop, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = info->epoll_fd, .events = POLLIN};
    for (int i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
        const struct place *place = &metrics->places[i];

        fds[2 + i] = (struct pollfd){.fd = place->ended ? -1 : place->fd, .events = POLLRDHUP};
    }
}

/// Shortens the time of clients that have ended without a request.
static void note_ends(struct metrics *metrics, const struct pollfd fds[static FDS_MAX]) {
    const uint64_t due_ms = now_ms() + ENDED_MS;

    for (int i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
        struct place *place = &metrics->places[i];

        if (fds[2 + i].revents == 0 || place->fd != fds[2 + i].fd)
            continue;
        place->ended = true;
        if (!place->answered && due_ms < place->due_ms)
            place->due_ms = due_ms;
    }
}

static void *run(void *context) {
    struct metrics *metrics = context;
    struct pollfd fds[FDS_MAX];

    do {
        fill(metrics, fds);
        poll(fds, FDS_MAX, timeout_ms(metrics));
        metrics->freed = false;
        MHD_run(metrics->http);
        note_ends(metrics, fds);
    } while (fds[0].revents == 0);
    return NULL;
}

int metrics_start(struct metrics *metrics, struct state *state, struct failure *failure) {
    int error;

    metrics->state = state;
    metrics->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (metrics->stop < 0) {
        error = errno;
        failure_set_start(failure, "eventfd", error);
        return -error;
    }
    metrics->http = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, metrics, MHD_OPTION_LISTEN_SOCKET,
        metrics->listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)METRICS_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)METRICS_REQUEST_BYTES,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, metrics, MHD_OPTION_END);
    error = metrics->http ? pthread_create(&metrics->thread, NULL, run, metrics) : errno;
    if (!metrics->http || error != 0) {
        failure_set_start(failure, metrics->http ? "pthread_create" : "MHD_start_daemon", error);
        if (metrics->http) {
            MHD_quiesce_daemon(metrics->http);
            MHD_stop_daemon(metrics->http);
        }
        close(metrics->stop);
        metrics->stop = -1;
        return -error;
    }
    return 0;
}

int metrics_listener(const struct metrics *metrics) { return metrics->listener; }

void metrics_stop(struct metrics *metrics) {
    if (!metrics)
        return;
    if (metrics->stop >= 0) {
        eventfd_write(metrics->stop, 1);
        pthread_join(metrics->thread, NULL);
        // Its stop would shut the listener down, which another process may have by now.
        MHD_quiesce_daemon(metrics->http);
        MHD_stop_daemon(metrics->http);
        close(metrics->stop);
    }
    for (int i = 0; i < 2; i++)
        drop_rendering(&metrics->renderings[i]);
    if (metrics->statm >= 0)
        close(metrics->statm);
    close(metrics->listener);
    free(metrics);
}
