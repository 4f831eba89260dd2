// SPDX-License-Identifier: GPL-2.0-or-later
// Tests with queues of the kernel, in a new network namespace. They are skipped without root.
#include "queue/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "queue/proc.h"
#include "test.h"

enum { NUMBER = 7 };

static struct queue_settings settings_of(enum queue_kind kind, uint32_t copy_bytes) {
    return (struct queue_settings){
        .number = NUMBER,
        .kind = kind,
        .copy_bytes = copy_bytes,
        .batch = 4,
        .slot_bytes = queue_socket_slot_bytes(copy_bytes),
        .queue_length = 100,
    };
}

static int enter_namespace(void **state) {
    (void)state;
    return unshare(CLONE_NEWNET) < 0 && errno != EPERM ? -1 : 0;
}

static void need_root(void) {
    if (geteuid() != 0)
        skip();
}

/// Reads the queue's copy mode and copy range from the kernel as text; "" if the queue does not
/// exist.
static void read_mode(char text[static 32]) {
    FILE *file = fopen(QUEUE_PROC_QUEUES, "r");
    unsigned int number, mode, range;

    assert_non_null(file);
    text[0] = '\0';
    if (fscanf(file, "%u %*u %*u %u %u", &number, &mode, &range) == 3 && number == NUMBER)
        snprintf(text, 32, "%u %u", mode, range);
    fclose(file);
}

static void assert_mode(const char *expected) {
    char text[32];

    read_mode(text);
    assert_string_equal(text, expected);
}

/// Gives up a queue as in an upgrade. Returns its hand-over, with a duplicate of its socket's
/// descriptor.
static struct queue_handover handover_of(struct queue *queue) {
    queue_give(queue);
    return (struct queue_handover){.fd = fcntl(queue_fd(queue), F_DUPFD_CLOEXEC, 0),
                                   .copy_bytes = queue->settings.copy_bytes,
                                   .flags = queue->flags};
}

static void check_pass_on(enum queue_kind from, enum queue_kind to) {
    const struct queue_settings old_settings = settings_of(from, 64);
    const struct queue_settings new_settings = settings_of(to, 200);
    struct verdict_batch *batch = calloc(1, sizeof *batch);
    struct queue_received received;
    struct queue_handover handover;
    struct failure failure;
    struct queue old, new;
    int guard;

    assert_int_equal(queue_open(&old, &old_settings, &failure), 0);
    assert_mode("2 64");
    handover = handover_of(&old);
    assert_int_equal(queue_adopt(&new, &new_settings, &handover, &failure), 0);
    assert_int_equal(new.portid, old.portid);
    assert_mode("2 64"); // nothing has changed yet
    assert_int_equal(queue_resume(&new, batch, &received), 0);
    assert_mode("2 200");
    assert_int_equal(received.packets, 0);
    queue_release(&old);
    assert_mode("2 200");
    queue_confirm(&new);
    guard = fcntl(queue_fd(&new), F_DUPFD_CLOEXEC, 0);
    queue_close(&new);
    assert_mode(""); // unbound, though the socket is open
    close(guard);
    free(batch);
}

static void a_queue_goes_from_each_backend_to_each_that_can(void **state) {
    (void)state;
    need_root();
    for (int from = 0; from < QUEUE_KIND_COUNT; from++)
        for (int to = 0; to < QUEUE_KIND_COUNT; to++)
            if (queue_can_adopt((enum queue_kind)to))
                check_pass_on((enum queue_kind)from, (enum queue_kind)to);
}

static void the_old_one_asks_anew_if_it_goes_on(void **state) {
    const struct queue_settings old_settings = settings_of(QUEUE_CLASSIC, 64);
    const struct queue_settings new_settings = settings_of(QUEUE_RAW, 0);
    struct verdict_batch *batch = calloc(1, sizeof *batch);
    struct queue_received received;
    struct queue_handover handover;
    struct failure failure;
    struct queue old, new;

    (void)state;
    need_root();
    assert_int_equal(queue_open(&old, &old_settings, &failure), 0);
    handover = handover_of(&old);
    assert_int_equal(queue_adopt(&new, &new_settings, &handover, &failure), 0);
    assert_int_equal(queue_resume(&new, batch, &received), 0);
    assert_mode("1 0");
    queue_close(&new); // as at the end of the process
    assert_mode("1 0");
    assert_int_equal(queue_resume(&old, batch, &received), 0);
    assert_mode("2 64");
    queue_close(&old);
    assert_mode("");
    free(batch);
}

static void what_is_no_socket_of_the_queue_is_refused(void **state) {
    const struct queue_settings settings = settings_of(QUEUE_RAW, 64);
    struct queue_handover handover = {.fd = open("/dev/null", O_RDONLY)};
    struct failure failure;
    struct queue old, new;

    (void)state;
    need_root();
    assert_int_equal(queue_adopt(&new, &settings, &handover, &failure), -EINVAL);
    assert_string_equal(
        failure.text,
        "the descriptor handed over for queue 7 is no netlink socket: start without --take-over");
    assert_int_equal(fcntl(handover.fd, F_GETFD), -1);
    assert_int_equal(queue_open(&old, &settings, &failure), 0);
    handover.fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
    assert_int_equal(queue_adopt(&new, &settings, &handover, &failure), -EPERM);
    assert_non_null(strstr(failure.text, "for queue 7 does not own it"));
    assert_mode("2 64");
    queue_close(&old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_goes_from_each_backend_to_each_that_can),
        cmocka_unit_test(the_old_one_asks_anew_if_it_goes_on),
        cmocka_unit_test(what_is_no_socket_of_the_queue_is_refused),
    };

    return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
