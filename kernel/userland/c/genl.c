// SPDX-License-Identifier: GPL-2.0-or-later
// The operations over generic netlink, the same for all libraries.
#include "genl.h"

#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "twinwall_lab.h"

/// A family that every kernel has. GETFAMILY of it is an exchange without any module.
#define KERNEL_FAMILY "nlctrl"

static uint8_t data[TWINWALL_LAB_DATA_MOST];
static size_t length;
static uint16_t family;

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

/// BYTES is the number of parts.
static void open_dump(size_t parts) {
    open_socket(parts);
    family = genl_family(TWINWALL_LAB_FAMILY);
}

static void dump(void) {
    if (genl_dump(family, length) != length)
        fail_because("dump", "parts are missing");
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
        {"refuse", open_family, refused, genl_close, NULL},
        {0},
    };

    return exchange_main(count, arguments, operations);
}
