// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

enum {
    LONG_MS = 10000,
    SHORT_MS = 50,
    MUCH = 250000, // number of bytes, larger than a socket's buffer
};

static const char *const ended = "the old firewall ended the upgrade: see its log, and try again";
static const char *const silent =
    "the old firewall does not continue the upgrade: see its log, and try again";
static const char *const strange =
    "the old firewall sent an unexpected message: check that it is a Twinwall firewall";

/// Both ends of a channel.
struct ends {
    struct handover_channel ours, theirs;
};

static struct ends make_ends(uint32_t timeout_ms) {
    struct ends ends;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    handover_channel_open(&ends.ours, fds[0], "old", timeout_ms);
    handover_channel_open(&ends.theirs, fds[1], "new", timeout_ms);
    return ends;
}

static void free_ends(struct ends *ends) {
    handover_channel_close(&ends->ours);
    handover_channel_close(&ends->theirs);
}

static void put(struct ends *ends, const char *text, int fd) {
    struct failure failure;

    assert_int_equal(handover_channel_send(&ends->theirs, text, strlen(text), fd, &failure), 0);
}

static void assert_line(struct ends *ends, const char *expected) {
    struct failure failure;
    char *line;

    assert_int_equal(handover_channel_line(&ends->ours, &line, &failure), 0);
    assert_string_equal(line, expected);
}

static void assert_fails(struct ends *ends, int error, const char *text) {
    struct failure failure;
    char *line;

    assert_int_equal(handover_channel_line(&ends->ours, &line, &failure), error);
    assert_string_equal(failure.text, text);
}

static void lines_come_one_by_one(void **state) {
    struct ends ends = make_ends(LONG_MS);

    (void)state;
    put(&ends, "one\ntwo\n\nth", -1);
    assert_line(&ends, "one");
    assert_line(&ends, "two");
    assert_line(&ends, "");
    put(&ends, "ree\n", -1);
    assert_line(&ends, "three");
    free_ends(&ends);
}

/// Checks that two descriptors refer to the same file.
static void assert_same_file(int a, int b) {
    char byte = 'x';

    assert_int_equal(pwrite(a, &byte, 1, 7), 1);
    byte = 0;
    assert_int_equal(pread(b, &byte, 1, 7), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(ftruncate(a, 0), 0);
}

static void descriptors_come_in_order(void **state) {
    struct ends ends = make_ends(LONG_MS);
    FILE *files[3];

    (void)state;
    put(&ends, "state\n", -1);
    for (int i = 0; i < 3; i++) {
        files[i] = tmpfile();
        put(&ends, i == 1 ? "second\n" : "other\n", fileno(files[i]));
    }
    assert_line(&ends, "state");
    for (int i = 0; i < 3; i++) {
        int fd;

        assert_line(&ends, i == 1 ? "second" : "other");
        fd = handover_channel_claim(&ends.ours);
        assert_true(fd >= 0);
        assert_same_file(fileno(files[i]), fd);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
        fclose(files[i]);
    }
    assert_int_equal(handover_channel_claim(&ends.ours), -1);
    free_ends(&ends);
}

static void *send_much(void *argument) {
    struct ends *ends = argument;
    char *text = malloc(MUCH + 1);
    struct failure failure;

    memset(text, 'a', MUCH);
    text[MUCH] = '\n';
    assert_int_equal(handover_channel_send(&ends->theirs, text, MUCH + 1, STDERR_FILENO, &failure),
                     0);
    free(text);
    return NULL;
}

static void a_long_line_comes_whole(void **state) {
    struct ends ends = make_ends(LONG_MS);
    struct failure failure;
    pthread_t sender;
    char *line;
    int fd;

    (void)state;
    assert_int_equal(pthread_create(&sender, NULL, send_much, &ends), 0);
    assert_int_equal(handover_channel_line(&ends.ours, &line, &failure), 0);
    assert_int_equal(strlen(line), MUCH);
    pthread_join(sender, NULL);
    fd = handover_channel_claim(&ends.ours);
    assert_true(fd >= 0);
    close(fd);
    free_ends(&ends);
}

static void *send_without_end(void *argument) {
    struct ends *ends = argument;
    char *text = calloc(1, HANDOVER_LINE_BYTES + MUCH);
    struct failure failure;

    // The send may fail: the reader stops at LINE_BYTES.
    (void)handover_channel_send(&ends->theirs, text, HANDOVER_LINE_BYTES + MUCH, -1, &failure);
    free(text);
    return NULL;
}

static void a_line_without_end_is_strange(void **state) {
    struct ends ends = make_ends(LONG_MS);
    pthread_t sender;

    (void)state;
    assert_int_equal(pthread_create(&sender, NULL, send_without_end, &ends), 0);
    assert_fails(&ends, -EMSGSIZE, strange);
    handover_channel_close(&ends.ours);
    pthread_join(sender, NULL);
    free_ends(&ends);
}

/// Checks the line that a reader receives without waiting; NULL = no line.
static void assert_heard(struct ends *ends, const char *expected) {
    struct failure failure;
    char *line;

    assert_int_equal(handover_channel_line_if_any(&ends->ours, &line, &failure), 0);
    if (expected)
        assert_string_equal(line, expected);
    else
        assert_null(line);
}

static void who_does_not_wait_hears_whole_lines_only(void **state) {
    struct ends ends = make_ends(LONG_MS), late = make_ends(0);
    struct failure failure;
    char *line;

    (void)state;
    assert_heard(&ends, NULL);
    put(&ends, "com", -1);
    assert_heard(&ends, NULL);
    put(&ends, "mit\ntwo\n", -1);
    assert_heard(&ends, "commit");
    assert_heard(&ends, "two");
    assert_heard(&ends, NULL);
    handover_channel_close(&ends.theirs);
    assert_int_equal(handover_channel_line_if_any(&ends.ours, &line, &failure), -ECONNRESET);
    assert_string_equal(failure.text, ended);
    assert_int_equal(handover_channel_line_if_any(&late.ours, &line, &failure), -ETIMEDOUT);
    assert_string_equal(failure.text, silent);
    free_ends(&ends);
    free_ends(&late);
}

static void a_last_line_is_received_or_not_sent(void **state) {
    struct ends ends = make_ends(SHORT_MS), late = make_ends(0);
    struct failure failure;
    char *line;

    (void)state;
    put(&late, "in time\n", -1);
    assert_int_equal(handover_channel_last_line(&late.ours, &line, &failure), 0);
    assert_string_equal(line, "in time");
    put(&ends, "no end", -1);
    assert_int_equal(handover_channel_last_line(&ends.ours, &line, &failure), -ETIMEDOUT);
    assert_string_equal(failure.text, silent);
    assert_int_equal(handover_channel_send(&ends.theirs, "\n", 1, -1, &failure), -EPIPE);
    free_ends(&ends);
    free_ends(&late);
}

static void an_end_is_told(void **state) {
    struct ends ends = make_ends(LONG_MS);

    (void)state;
    put(&ends, "no end", STDERR_FILENO);
    handover_channel_close(&ends.theirs);
    assert_fails(&ends, -ECONNRESET, ended);
    free_ends(&ends);
}

static void silence_is_told(void **state) {
    struct ends ends = make_ends(SHORT_MS);

    (void)state;
    put(&ends, "no end", -1);
    assert_fails(&ends, -ETIMEDOUT, silent);
    free_ends(&ends);
}

/// Checks that sending fails if the other end reads nothing.
static void a_full_socket_is_told(void **state) {
    struct ends ends = make_ends(SHORT_MS);
    char *text = calloc(1, MUCH);
    struct failure failure;

    (void)state;
    assert_int_equal(handover_channel_send(&ends.ours, text, MUCH, -1, &failure), -ETIMEDOUT);
    assert_string_equal(failure.text, silent);
    free(text);
    free_ends(&ends);
}

static void two_descriptors_at_a_time_are_strange(void **state) {
    struct ends ends = make_ends(LONG_MS);
    const int fds[2] = {STDERR_FILENO, STDERR_FILENO};
    struct iovec vector = {.iov_base = "line\n", .iov_len = 5};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof fds),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    const struct msghdr message = {.msg_iov = &vector,
                                   .msg_iovlen = 1,
                                   .msg_control = &control,
                                   .msg_controllen = sizeof control};

    (void)state;
    memcpy(CMSG_DATA(&control.header), fds, sizeof fds);
    assert_int_equal(sendmsg(ends.theirs.fd, &message, 0), 5);
    assert_fails(&ends, -EPROTO, strange);
    free_ends(&ends);
}

static void *send_descriptors(void *argument) {
    for (int i = 0; i <= HANDOVER_FDS_MAX; i++)
        put(argument, "x", STDERR_FILENO);
    return NULL;
}

static void too_many_descriptors_are_strange(void **state) {
    struct ends ends = make_ends(LONG_MS);
    pthread_t sender;

    (void)state;
    assert_int_equal(pthread_create(&sender, NULL, send_descriptors, &ends), 0);
    assert_fails(&ends, -EPROTO, strange);
    pthread_join(sender, NULL);
    free_ends(&ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_one_by_one),
        cmocka_unit_test(descriptors_come_in_order),
        cmocka_unit_test(a_long_line_comes_whole),
        cmocka_unit_test(a_line_without_end_is_strange),
        cmocka_unit_test(who_does_not_wait_hears_whole_lines_only),
        cmocka_unit_test(a_last_line_is_received_or_not_sent),
        cmocka_unit_test(an_end_is_told),
        cmocka_unit_test(silence_is_told),
        cmocka_unit_test(a_full_socket_is_told),
        cmocka_unit_test(two_descriptors_at_a_time_are_strange),
        cmocka_unit_test(too_many_descriptors_are_strange),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
