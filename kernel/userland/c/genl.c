// SPDX-License-Identifier: GPL-2.0-or-later
// The operations over generic netlink, common to all libraries.
#include "genl.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"
#include "twinwall_lab.h"

/// A family that every kernel has. A GETFAMILY request for it needs no module.
#define KERNEL_FAMILY "nlctrl"
/// Data bytes of an echo that is measured while another socket leaves its dump unread.
#define ECHO_BYTES 53

static uint8_t data[TWINWALL_LAB_DATA_MOST];
static size_t length;
static uint16_t family;
/// Netlink socket that sends the command TOUCH. The command interrupts running dumps of the lab's
/// family.
static int toucher;
/// Child process that begins a dump and leaves the rest unread.
static pid_t reader;

static void open_socket(size_t bytes) {
    length = bytes;
    genl_open();
}

static void open_family(size_t bytes) {
    if (bytes > sizeof(data))
        fail_because("BYTES", "at most 32768");
    memset(data, 'x', sizeof(data));
    open_socket(bytes);
    family = genl_family(TWINWALL_LAB_FAMILY);
}

static void ask_family(void) {
    if (genl_family(KERNEL_FAMILY) == 0)
        fail_because("family", "no answer");
}

static void ask_family_anew(void) {
    genl_open();
    ask_family();
    genl_close();
}

static void echo(void) { genl_echo(family, data, length); }

static void echo_anew(void) {
    genl_open();
    genl_echo(genl_family(TWINWALL_LAB_FAMILY), data, length);
    genl_close();
}

/// Prepares a dump of `parts` parts, the BYTES argument.
static void open_dump(size_t parts) {
    open_socket(parts);
    family = genl_family(TWINWALL_LAB_FAMILY);
}

static void dump(void) {
    if (genl_dump(family, length) != length)
        fail_because("dump", "parts are missing");
}

/// Prepares dumps of `parts` parts, each on a new socket: queries the family's number and closes
/// its own socket.
static void open_dump_anew(size_t parts) {
    open_dump(parts);
    genl_close();
}

/// Begins a dump and closes the socket: measures a reader that reads only the beginning.
static void leave_dump(void) {
    genl_open();
    genl_dump_begin(family, length);
    genl_close();
}

static void open_interrupted(size_t parts) {
    open_dump_anew(parts);
    toucher = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
    if (toucher < 0)
        fail("socket");
}

/// Interrupts running dumps by the lab's command TOUCH. Uses a separate socket and no library, so
/// that it costs the same in all programs.
static void touch(void) {
    struct {
        struct nlmsghdr header;
        struct genlmsghdr generic;
    } request = {{.nlmsg_len = sizeof(request),
                  .nlmsg_type = family,
                  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
                 {.cmd = TWINWALL_LAB_C_TOUCH, .version = TWINWALL_LAB_VERSION}};
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } answer;

    if (send(toucher, &request, sizeof(request), 0) != sizeof(request) ||
        recv(toucher, &answer, sizeof(answer), 0) != sizeof(answer))
        fail("touch");
    if (answer.header.nlmsg_type != NLMSG_ERROR || answer.error.error != 0)
        fail_because("touch", "refused");
}

static void interrupted(void) {
    genl_open();
    genl_dump_begin(family, length);
    touch();
    genl_dump_rest();
    genl_close();
}

static void close_interrupted(void) { close(toucher); }

/// Starts a child process that begins a dump of `parts` parts and reads no further. Prepares the
/// parent process, whose echo is measured.
static void open_slow(size_t parts) {
    int told[2];
    char byte = 0;

    if (pipe(told) != 0)
        fail("pipe");
    reader = fork();
    if (reader < 0)
        fail("fork");
    if (reader == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        open_dump(parts);
        genl_dump_begin(family, length);
        if (write(told[1], &byte, 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(told[1]);
    if (read(told[0], &byte, 1) != 1)
        fail_because("the reader", "has ended");
    close(told[0]);
    open_family(ECHO_BYTES);
}

static void close_slow(void) {
    genl_close();
    kill(reader, SIGKILL);
    waitpid(reader, NULL, 0);
}

static void refused(void) {
    if (genl_refused(family) != TWINWALL_LAB_A_DATA)
        fail_because("refuse", "the missing attribute isn't named");
}

static void nothing(void) {}

static void check_data(size_t bytes) {
    open_family(bytes);
    genl_close();
}

static void no_data(size_t bytes) { (void)bytes; }

int main(int count, char **arguments) {
    static const struct operation operations[] = {
        {"family", open_socket, ask_family, genl_close, NULL},
        {"family-connect", no_data, ask_family_anew, nothing, NULL},
        {"echo", open_family, echo, genl_close, NULL},
        {"echo-connect", check_data, echo_anew, nothing, NULL},
        {"dump", open_dump, dump, genl_close, NULL},
        {"dump-slow", open_slow, echo, close_slow, NULL},
        {"dump-gone", open_dump_anew, leave_dump, nothing, NULL},
        {"dump-interrupted", open_interrupted, interrupted, close_interrupted, NULL},
        {"refuse", open_family, refused, genl_close, NULL},
        {0},
    };

    return exchange_main(count, arguments, operations);
}
