// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

/// Queue socket with a pair of datagram sockets in place of a netlink socket. It receives datagrams
/// that are written to fds[1].
struct fixture {
    struct queue_socket socket;
    int fds[2];
};

static struct fixture make_fixture(uint32_t batch, uint64_t slot_bytes) {
    struct fixture fixture;

    assert_int_equal(queue_socket_init(&fixture.socket, batch, slot_bytes), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fixture.fds), 0);
    fixture.socket.fd = fixture.fds[0];
    return fixture;
}

static void free_fixture(struct fixture *fixture) {
    queue_socket_free(&fixture->socket);
    close(fixture->fds[0]);
    close(fixture->fds[1]);
}

static void put(const struct fixture *fixture, const char *text) {
    assert_int_equal(write(fixture->fds[1], text, strlen(text)), strlen(text));
}

static void assert_message(const struct queue_socket *socket, uint32_t index, const char *text,
                           bool truncated) {
    const struct queue_message message = queue_socket_message(socket, index);

    assert_int_equal(message.received, strlen(text));
    assert_memory_equal(message.bytes, text, strlen(text));
    assert_int_equal(message.truncated, truncated);
}

static void slots_hold_the_copy_and_the_overhead(void **state) {
    (void)state;
    assert_int_equal(queue_socket_slot_bytes(0), 512);
    assert_int_equal(queue_socket_slot_bytes(1), 576);
    assert_int_equal(queue_socket_slot_bytes(64), 576);
    assert_int_equal(queue_socket_slot_bytes(128), 640);
    assert_int_equal(queue_socket_slot_bytes(65535), 66048);
}

static void an_empty_socket_gives_nothing(void **state) {
    struct fixture one = make_fixture(1, 64), many = make_fixture(4, 64);

    (void)state;
    assert_int_equal(queue_socket_receive(&one.socket, false), 0);
    assert_int_equal(queue_socket_receive(&many.socket, false), 0);
    assert_string_equal(queue_socket_receive_call(&one.socket), "recv");
    assert_string_equal(queue_socket_receive_call(&many.socket), "recvmmsg");
    free_fixture(&one);
    free_fixture(&many);
}

static void a_batch_of_one_receives_one(void **state) {
    struct fixture fixture = make_fixture(1, 64);

    (void)state;
    put(&fixture, "first");
    put(&fixture, "second");
    assert_int_equal(queue_socket_receive(&fixture.socket, false), 1);
    assert_message(&fixture.socket, 0, "first", false);
    assert_int_equal(queue_socket_receive(&fixture.socket, true), 1);
    assert_message(&fixture.socket, 0, "second", false);
    free_fixture(&fixture);
}

static void a_batch_receives_what_is_there(void **state) {
    struct fixture fixture = make_fixture(3, 64);

    (void)state;
    for (int i = 0; i < 4; i++)
        put(&fixture, (const char *[]){"a", "bb", "ccc", "dddd"}[i]);
    assert_int_equal(queue_socket_receive(&fixture.socket, false), 3);
    assert_message(&fixture.socket, 0, "a", false);
    assert_message(&fixture.socket, 1, "bb", false);
    assert_message(&fixture.socket, 2, "ccc", false);
    assert_int_equal(queue_socket_receive(&fixture.socket, true), 1);
    assert_message(&fixture.socket, 0, "dddd", false);
    free_fixture(&fixture);
}

static void what_does_not_fit_its_slot_is_truncated(void **state) {
    struct fixture fixture = make_fixture(2, 4);

    (void)state;
    put(&fixture, "four");
    put(&fixture, "fiver");
    assert_int_equal(queue_socket_receive(&fixture.socket, false), 2);
    assert_message(&fixture.socket, 0, "four", false);
    assert_message(&fixture.socket, 1, "five", true);
    free_fixture(&fixture);
}

static void a_kept_message_is_as_if_received(void **state) {
    struct fixture one = make_fixture(1, 8), many = make_fixture(2, 8);

    (void)state;
    queue_socket_keep(&one.socket, (const uint8_t *)"kept", 4);
    assert_message(&one.socket, 0, "kept", false);
    queue_socket_keep(&many.socket, (const uint8_t *)"longer than a slot", 18);
    assert_message(&many.socket, 0, "longer t", false);
    free_fixture(&one);
    free_fixture(&many);
}

static void a_failing_call_gives_its_errno(void **state) {
    struct fixture fixture = make_fixture(2, 8);

    (void)state;
    fixture.socket.fd = -1;
    assert_int_equal(queue_socket_receive(&fixture.socket, false), -EBADF);
    assert_int_equal(queue_socket_bound_wait(&fixture.socket), -EBADF);
    free_fixture(&fixture);
}

static void the_buffer_is_told_in_the_measure_it_was_asked_in(void **state) {
    struct fixture fixture = make_fixture(1, 8);
    uint32_t handover = 0, untouched = 5;

    (void)state;
    assert_int_equal(queue_socket_set_buffer(&fixture.socket, 8192, &handover), 0);
    assert_int_equal(handover, 8192);
    handover = 0;
    assert_int_equal(queue_socket_set_buffer(&fixture.socket, 0, &handover), 0);
    assert_int_equal(handover, 8192); // unchanged
    fixture.socket.fd = -1;
    assert_int_equal(queue_socket_set_buffer(&fixture.socket, 8192, &untouched), -EBADF);
    assert_int_equal(untouched, 5);
    free_fixture(&fixture);
}

static void waiting_for_an_answer_is_bounded(void **state) {
    struct fixture fixture = make_fixture(2, 8);

    (void)state;
    assert_int_equal(queue_socket_bound_wait(&fixture.socket), 0);
    assert_int_equal(queue_socket_receive(&fixture.socket, true), 0); // after a second
    free_fixture(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_hold_the_copy_and_the_overhead),
        cmocka_unit_test(an_empty_socket_gives_nothing),
        cmocka_unit_test(a_batch_of_one_receives_one),
        cmocka_unit_test(a_batch_receives_what_is_there),
        cmocka_unit_test(what_does_not_fit_its_slot_is_truncated),
        cmocka_unit_test(a_kept_message_is_as_if_received),
        cmocka_unit_test(a_failing_call_gives_its_errno),
        cmocka_unit_test(the_buffer_is_told_in_the_measure_it_was_asked_in),
        cmocka_unit_test(waiting_for_an_answer_is_bounded),
    };

    return cmocka_run_group_tests_name("queue_socket", tests, NULL, NULL);
}
