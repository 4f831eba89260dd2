// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of the classic backend. The library's handle needs a real queue. The tests open a queue in
// a new network namespace, which any user may create if user namespaces are allowed. Otherwise the
// tests are skipped.
#include "queue/classic.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "messages.h"
#include "test.h"

enum {
    SUBSYSTEM_AT = 5,     // offset of the high byte of nlmsg_type
    QUEUE_NUMBER_AT = 18, // offset of res_id (two bytes) of nfgenmsg
};

static struct queue queue;
static bool isolated;

static const struct queue_settings settings = {
    .kind = QUEUE_CLASSIC,
    .copy_bytes = 128,
    .batch = 4,
    .slot_bytes = 640,
    .queue_length = 1024,
    .gso = true,
    .fail_open = true,
};

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");

    if (!file)
        return;
    fputs(text, file);
    fclose(file);
}

/// Creates namespaces in which the caller is root, so that it may read the file of queues in /proc.
/// Returns false if it may not create namespaces.
static bool isolate(void) {
    char uid_map[32], gid_map[32];

    snprintf(uid_map, sizeof uid_map, "0 %u 1", (unsigned int)getuid());
    snprintf(gid_map, sizeof gid_map, "0 %u 1", (unsigned int)getgid());
    if (unshare(CLONE_NEWUSER) < 0)
        return false;
    write_text("/proc/self/uid_map", uid_map);
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/gid_map", gid_map);
    return unshare(CLONE_NEWNET) == 0;
}

static int open_classic(void **state) {
    struct failure failure = {.text = ""};

    (void)state;
    isolated = isolated || isolate();
    if (isolated && queue_open(&queue, &settings, &failure) < 0) {
        print_error("%s\n", failure.text);
        return -1;
    }
    return 0;
}

static int close_classic(void **state) {
    (void)state;
    queue_close(&queue);
    return 0;
}

/// Parses a copy of a message. A packet's message gets the number of the queue, because the library
/// finds the callback by this number.
static int parse(const uint8_t *bytes, size_t received, struct queue_packet *packet) {
    static uint8_t *copy;

    free(copy);
    copy = NULL;
    if (received == 0)
        return queue_classic.parse(&queue, bytes, received, packet);
    copy = malloc(received);
    memcpy(copy, bytes, received);
    if (received >= QUEUE_MESSAGE_BYTES && copy[SUBSYSTEM_AT] == NFNL_SUBSYS_QUEUE)
        memset(copy + QUEUE_NUMBER_AT, 0, 2);
    return queue_classic.parse(&queue, copy, received, packet);
}

static void vectors_parse_as_expected(void **state) {
    (void)state;
    if (!isolated)
        skip();
    // NFA_TYPE of libnfnetlink does not remove the flag NLA_F_NET_BYTEORDER, which the kernel never
    // sets. Therefore the result of this vector may differ.
    messages_assert_vectors(parse, "flag-bit-byte-order");
    parse(NULL, 0, &(struct queue_packet){0});
}

static void every_field_is_taken(void **state) {
    (void)state;
    if (!isolated)
        skip();
    messages_assert_full(parse);
    parse(NULL, 0, &(struct queue_packet){0});
}

static void a_message_for_another_queue_is_malformed(void **state) {
    uint8_t message[sizeof messages_full];
    struct queue_packet packet;

    (void)state;
    if (!isolated)
        skip();
    memcpy(message, messages_full, sizeof message);
    message[QUEUE_NUMBER_AT + 1] = 1;
    assert_int_equal(queue_classic.parse(&queue, message, sizeof message, &packet),
                     QUEUE_PARSED_MALFORMED);
}

static void the_socket_is_empty_at_first(void **state) {
    struct queue_received received = {.messages = 1};

    (void)state;
    if (!isolated)
        skip();
    assert_int_equal(queue_receive(&queue, &received), 0);
    assert_int_equal(received.messages, 0);
    assert_int_equal(received.overruns, 0);
}

/// Every backend reports that the queue is owned, and its owner.
static void an_owned_queue_is_refused(void **state) {
    char start[64];

    (void)state;
    if (!isolated)
        skip();
    snprintf(start, sizeof start, "queue 0 is owned by pid %d (", (int)getpid());
    for (int kind = 0; kind < QUEUE_KIND_COUNT; kind++) {
        struct queue_settings second = settings;
        struct queue other;
        struct failure failure;

        second.kind = (enum queue_kind)kind;
        assert_true(queue_open(&other, &second, &failure) < 0);
        assert_int_equal(failure.code, LOG_EXIT_OWNED);
        assert_ptr_equal(strstr(failure.text, start), failure.text);
        assert_non_null(strstr(failure.text, "): stop it or choose another with --queue"));
        assert_int_equal(queue_fd(&other), -1);
    }
}

/// The kernel refuses a verdict for an unknown ID, and the refusal is counted.
static void an_unknown_id_is_refused(void **state) {
    struct verdict_batch *batch = calloc(1, sizeof *batch);
    struct queue_received received;

    (void)state;
    if (!isolated) {
        free(batch);
        skip();
    }
    verdict_batch_begin(batch, VERDICT_DROP); // the gap before the first id is vacant
    verdict_batch_add(batch, 5, VERDICT_MARK, 1);
    verdict_batch_add(batch, 6, VERDICT_MARK, 1);
    verdict_batch_add(batch, 7, VERDICT_DROP, 0);
    verdict_batch_add(batch, 8, VERDICT_MARK, 2);
    verdict_batch_add(batch, 9, VERDICT_ACCEPT, 0);
    verdict_batch_add(batch, 10, VERDICT_ACCEPT, 0);
    assert_int_equal(queue_verdict(&queue, batch), 0);
    assert_int_equal(queue_receive(&queue, &received), 0);
    assert_int_equal(received.messages, 4);
    assert_int_equal(received.vacant, 1);
    assert_int_equal(received.refused, 3);
    assert_int_equal(queue_receive(&queue, &received), 0);
    assert_int_equal(received.refused, 1);
    assert_int_equal(received.packets, 0);
    free(batch);
}

/// A gap's verdict is sent without the library, by another system call.
static void a_failed_verdict_names_its_call(void **state) {
    struct verdict_batch *batch = calloc(1, sizeof *batch);
    int null, socket;

    (void)state;
    if (!isolated) {
        free(batch);
        skip();
    }
    socket = dup(queue_fd(&queue));
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, queue_fd(&queue));
    verdict_batch_begin(batch, VERDICT_DROP);
    verdict_batch_add(batch, 5, VERDICT_ACCEPT, 0); // after the gap before the first id
    assert_int_equal(queue_verdict(&queue, batch), -ENOTSOCK);
    assert_string_equal(queue.failed_call, "sendto");
    batch->sent = 1;
    assert_int_equal(queue_verdict(&queue, batch), -ENOTSOCK);
    assert_string_equal(queue.failed_call, "sendmsg");
    dup2(socket, queue_fd(&queue));
    close(socket);
    close(null);
    free(batch);
}

#define WITH_QUEUE(test) cmocka_unit_test_setup_teardown(test, open_classic, close_classic)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_QUEUE(vectors_parse_as_expected),
        WITH_QUEUE(every_field_is_taken),
        WITH_QUEUE(a_message_for_another_queue_is_malformed),
        WITH_QUEUE(the_socket_is_empty_at_first),
        WITH_QUEUE(an_owned_queue_is_refused),
        WITH_QUEUE(an_unknown_id_is_refused),
        WITH_QUEUE(a_failed_verdict_names_its_call),
    };

    return cmocka_run_group_tests_name("queue_classic", tests, NULL, NULL);
}
