// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

/// Number of bytes that the buffers of both ends of a socket can't hold.
enum { LARGE_BYTES = 4 << 20 };

/// A client, and the other end of its connection.
struct both {
    struct control_client client;
    int peer;
};

static int open_both(void **state) {
    static struct both both;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
        return -1;
    both.peer = fds[1];
    *state = &both;
    return control_client_make(&both.client, fds[0], 0, &(struct proof){.pid = 1, .number = 1});
}

static int close_both(void **state) {
    struct both *both = *state;

    control_client_close(&both->client);
    close(both->peer);
    return 0;
}

static void say(struct both *both, const char *text) {
    assert_int_equal(write(both->peer, text, strlen(text)), strlen(text));
    assert_int_equal(control_client_receive(&both->client), 0);
}

/// Checks that the client's first line is `expected`, and removes it.
static void assert_line(struct both *both, const char *expected) {
    const char *line;
    size_t length;

    assert_int_equal(control_client_line(&both->client, &line, &length), CONTROL_LINE_WHOLE);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(line, expected, length);
    control_client_next(&both->client);
}

static void assert_no_line(struct both *both, enum control_line expected) {
    const char *line;
    size_t length;

    assert_int_equal(control_client_line(&both->client, &line, &length), expected);
}

static void gives_lines_one_at_a_time(void **state) {
    struct both *both = *state;

    assert_no_line(both, CONTROL_LINE_NONE);
    assert_int_equal(control_client_events(&both->client), POLLIN);
    assert_int_equal(control_client_timeout(&both->client, 0), -1);
    say(both, "a\nbb\n\nc");
    assert_int_equal(control_client_events(&both->client), 0);
    assert_int_equal(control_client_timeout(&both->client, 0), 0);
    assert_line(both, "a");
    assert_line(both, "bb");
    assert_line(both, "");
    assert_no_line(both, CONTROL_LINE_NONE);
    assert_int_equal(control_client_events(&both->client), POLLIN);
    say(both, "c\n");
    assert_line(both, "cc");
}

static void tells_a_line_that_was_cut(void **state) {
    struct both *both = *state;

    say(both, "a\nb");
    shutdown(both->peer, SHUT_WR);
    assert_int_equal(control_client_receive(&both->client), 0);
    assert_true(both->client.ended);
    assert_int_equal(control_client_timeout(&both->client, 0), 0);
    assert_line(both, "a");
    assert_no_line(both, CONTROL_LINE_CUT);
}

static void tells_an_end_between_lines(void **state) {
    struct both *both = *state;

    say(both, "a\n");
    shutdown(both->peer, SHUT_WR);
    control_client_receive(&both->client);
    assert_line(both, "a");
    assert_no_line(both, CONTROL_LINE_NONE);
    assert_true(both->client.ended);
}

/// Sends `bytes` bytes x and then the text `end` from the other end of the connection. The client
/// receives all of them.
static void say_long(struct both *both, size_t bytes, const char *end) {
    char piece[1024];

    memset(piece, 'x', sizeof piece);
    while (bytes > 0) {
        const size_t count = bytes < sizeof piece ? bytes : sizeof piece;

        assert_int_equal(write(both->peer, piece, count), count);
        assert_int_equal(control_client_receive(&both->client), 0);
        bytes -= count;
    }
    say(both, end);
}

static void takes_the_longest_line(void **state) {
    struct both *both = *state;
    const char *line;
    size_t length;

    say_long(both, CONTROL_LINE_BYTES - 1, "\n");
    assert_int_equal(control_client_line(&both->client, &line, &length), CONTROL_LINE_WHOLE);
    assert_int_equal(length, CONTROL_LINE_BYTES - 1);
}

static void tells_a_line_that_is_too_long(void **state) {
    struct both *both = *state;

    say_long(both, CONTROL_LINE_BYTES - 1, "x");
    assert_no_line(both, CONTROL_LINE_TOO_LONG);
    say(both, "\n"); // there is no room for this line
    assert_no_line(both, CONTROL_LINE_TOO_LONG);
}

static void sends_an_answer_and_takes_nothing_meanwhile(void **state) {
    struct both *both = *state;
    char text[16] = "";

    control_client_answer(&both->client, strdup("answer\n"), 100);
    assert_int_equal(control_client_events(&both->client), POLLOUT);
    say(both, "a\n");
    assert_no_line(both, CONTROL_LINE_NONE);
    assert_int_equal(control_client_send_answer(&both->client, 100), 0);
    assert_null(both->client.answer);
    assert_int_equal(read(both->peer, text, sizeof text), strlen("answer\n"));
    assert_string_equal(text, "answer\n");
    assert_int_equal(control_client_receive(&both->client), 0);
    assert_line(both, "a");
}

/// Tests the time limit of an answer: after the other end has read a part of the answer, it has
/// another ten seconds.
static void gives_up_on_who_does_not_read(void **state) {
    struct both *both = *state;
    char *large = malloc(LARGE_BYTES + 1);
    char *sink = malloc(LARGE_BYTES);

    memset(large, 'x', LARGE_BYTES);
    large[LARGE_BYTES] = '\0';
    control_client_answer(&both->client, large, 0);
    assert_int_equal(control_client_send_answer(&both->client, 1000), 0);
    assert_int_equal(control_client_timeout(&both->client, 1000), CONTROL_READ_MS);
    assert_int_equal(control_client_send_answer(&both->client, 1000 + CONTROL_READ_MS - 1), 0);
    assert_true(read(both->peer, sink, LARGE_BYTES) > 0);
    assert_int_equal(control_client_send_answer(&both->client, 1000 + CONTROL_READ_MS), 0);
    assert_int_equal(control_client_timeout(&both->client, 2000 + CONTROL_READ_MS),
                     CONTROL_READ_MS - 1000);
    assert_int_equal(control_client_timeout(&both->client, 5000 + 2 * CONTROL_READ_MS), 0);
    assert_int_equal(control_client_send_answer(&both->client, 1000 + 2 * CONTROL_READ_MS),
                     -ETIMEDOUT);
    free(sink);
}

static void tells_a_broken_connection(void **state) {
    struct both *both = *state;

    shutdown(both->peer, SHUT_RDWR);
    control_client_answer(&both->client, strdup("answer\n"), 0);
    assert_int_equal(control_client_send_answer(&both->client, 0), -EPIPE);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)
    const struct CMUnitTest tests[] = {
        CASE(gives_lines_one_at_a_time),     CASE(tells_a_line_that_was_cut),
        CASE(tells_an_end_between_lines),    CASE(takes_the_longest_line),
        CASE(tells_a_line_that_is_too_long), CASE(sends_an_answer_and_takes_nothing_meanwhile),
        CASE(gives_up_on_who_does_not_read), CASE(tells_a_broken_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
