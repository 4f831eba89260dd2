// SPDX-License-Identifier: GPL-2.0-or-later
#include "queue/proc.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

static const char queues[] = "    0  28310     3 2   128     7     9     4711  1\n"
                             "   10 4294967295     0 1     0     0     0        0  1\n"
                             "65535      1 131072 2 65531 4294967295 4294967294 4294967293  1\n";

static const char netlink[] =
    "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
    "00000000e2779516 0   28310      00000000 0        0        0     2        0        4       \n"
    "00000000f7cdd590 12  0          00000000 0        0        0     2        0        1572    \n"
    "00000000aaaaaaaa 12  28310      00000000 0        0        0     2        0        90210   \n"
    "00000000bbbbbbbb 12  3123456789 00000000 0        0        0     2        0        "
    "18446744073709551615\n";

static void finds_a_queue(void **state) {
    struct queue_figures figures;

    (void)state;
    assert_int_equal(queue_proc_parse_figures(queues, 0, &figures), 0);
    assert_int_equal(figures.portid, 28310);
    assert_int_equal(figures.waiting, 3);
    assert_int_equal(figures.queue_full, 7);
    assert_int_equal(figures.user_drop, 9);
    assert_int_equal(figures.offered, 4711);
}

static void finds_a_queue_with_the_largest_numbers(void **state) {
    struct queue_figures figures;

    (void)state;
    assert_int_equal(queue_proc_parse_figures(queues, 65535, &figures), 0);
    assert_int_equal(figures.queue_full, UINT32_MAX);
    assert_int_equal(figures.user_drop, UINT32_MAX - 1);
    assert_int_equal(figures.offered, UINT32_MAX - 2);
    assert_int_equal(queue_proc_parse_figures(queues, 10, &figures), 0);
    assert_int_equal(figures.portid, UINT32_MAX);
}

static void leaves_the_figures_of_an_unlisted_queue(void **state) {
    struct queue_figures figures = {.offered = 5};

    (void)state;
    assert_int_equal(queue_proc_parse_figures(queues, 1, &figures), -ENOENT);
    assert_int_equal(queue_proc_parse_figures("", 0, &figures), -ENOENT);
    assert_int_equal(figures.offered, 5);
}

/// The fields of a short line must not be read from the next line.
static void skips_lines_that_are_not_understood(void **state) {
    struct queue_figures figures = {0};

    (void)state;
    assert_int_equal(queue_proc_parse_figures("nonsense\n\n0 1 2\n0 1 2 3 4 5 6 7 1", 0, &figures),
                     0);
    assert_int_equal(figures.portid, 1);
    assert_int_equal(figures.offered, 7);
    assert_int_equal(queue_proc_parse_figures("0 1 2\n3 4 5 6 7 8", 0, &figures), -ENOENT);
}

static void finds_the_inode_of_a_netfilter_socket(void **state) {
    uint64_t inode;

    (void)state;
    assert_int_equal(queue_proc_parse_inode(netlink, 28310, &inode), 0);
    assert_int_equal(inode, 90210); // not the inode of another protocol's socket
    assert_int_equal(queue_proc_parse_inode(netlink, 3123456789, &inode), 0);
    assert_true(inode == UINT64_MAX);
}

static void leaves_the_inode_of_an_unlisted_port(void **state) {
    uint64_t inode = 5;

    (void)state;
    assert_int_equal(queue_proc_parse_inode(netlink, 28311, &inode), -ENOENT);
    assert_int_equal(queue_proc_parse_inode("", 28310, &inode), -ENOENT);
    assert_int_equal(inode, 5);
}

static void tells_a_socket_by_its_link(void **state) {
    (void)state;
    assert_true(queue_proc_is_socket("socket:[90210]", 90210));
    assert_false(queue_proc_is_socket("socket:[9021]", 90210));
    assert_false(queue_proc_is_socket("socket:[902100]", 90210));
    assert_false(queue_proc_is_socket("pipe:[90210]", 90210));
    assert_false(queue_proc_is_socket("/dev/null", 90210));
}

static void finds_this_process_as_an_owner(void **state) {
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    socklen_t length = sizeof address;
    struct queue_owner owner;
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(queue_proc_owner(address.nl_pid, &owner), 0);
    assert_int_equal(owner.pid, getpid());
    assert_true(strlen(owner.comm) > 0);
    close(fd);
    assert_int_equal(queue_proc_owner(address.nl_pid, &owner), -ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_queue),
        cmocka_unit_test(finds_a_queue_with_the_largest_numbers),
        cmocka_unit_test(leaves_the_figures_of_an_unlisted_queue),
        cmocka_unit_test(skips_lines_that_are_not_understood),
        cmocka_unit_test(finds_the_inode_of_a_netfilter_socket),
        cmocka_unit_test(leaves_the_inode_of_an_unlisted_port),
        cmocka_unit_test(tells_a_socket_by_its_link),
        cmocka_unit_test(finds_this_process_as_an_owner),
    };

    return cmocka_run_group_tests_name("queue_proc", tests, NULL, NULL);
}
