// SPDX-License-Identifier: GPL-2.0-or-later
// D-Bus by sd-bus: through the daemon, or, with DIRECT, between the processes over a socket.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "dbus.h"
#include "rpc.h"

#ifdef DIRECT
#define DESTINATION NULL
static int ends[2];
#else
#define DESTINATION DBUS_LAB_NAME
static const char *address;
#endif

static sd_bus *bus;

static int check(int result, const char *what) {
    if (result < 0)
        fail_because(what, strerror(-result));
    return result;
}

static int on_name(sd_bus_message *call, void *data, sd_bus_error *error) {
    (void)data, (void)error;
    return sd_bus_reply_method_return(call, "s", SERVICE_NAME);
}

static int on_version(sd_bus_message *call, void *data, sd_bus_error *error) {
    (void)data, (void)error;
    return sd_bus_reply_method_return(call, "uuu", SERVICE_MAJOR, SERVICE_MINOR, SERVICE_MICRO);
}

static int on_ping(sd_bus_message *call, void *data, sd_bus_error *error) {
    (void)data, (void)error;
    return sd_bus_reply_method_return(call, "");
}

static int on_tick(sd_bus_message *call, void *data, sd_bus_error *error) {
    (void)data, (void)error;
    return sd_bus_reply_method_return(call, "t", service_tick());
}

static int on_calculate(sd_bus_message *call, void *data, sd_bus_error *error) {
    const char *method = sd_bus_message_get_member(call);
    int32_t a, b;
    int operation = 0;

    (void)data, (void)error;
    while (strcmp(dbus_operations[operation], method) != 0)
        operation++;
    check(sd_bus_message_read(call, "ii", &a, &b), method);
    return sd_bus_reply_method_return(call, "i", service_calculate(operation, a, b));
}

static int on_verdict(sd_bus_message *call, void *data, sd_bus_error *error) {
    const void *packet;
    size_t length;

    (void)data, (void)error;
    check(sd_bus_message_read_array(call, 'y', &packet, &length), "Verdict");
    if (length < SERVICE_HEADERS_BYTES)
        return -EINVAL;
    struct service_verdict verdict = service_judge(packet);
    return sd_bus_reply_method_return(call, "uu", verdict.accepted, verdict.mark);
}

static const sd_bus_vtable methods[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Name", "", "s", on_name, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Version", "", "uuu", on_version, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Ping", "", "", on_ping, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Tick", "", "t", on_tick, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Add", "ii", "i", on_calculate, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Subtract", "ii", "i", on_calculate, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Multiply", "ii", "i", on_calculate, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Divide", "ii", "i", on_calculate, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Verdict", "ay", "uu", on_verdict, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END,
};

static void sd_open(void) {
#ifdef DIRECT
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        fail("socketpair");
#else
    address = dbus_daemon_start();
#endif
}

static void begin(int end) {
    check(sd_bus_new(&bus), "sd_bus_new");
#ifdef DIRECT
    sd_id128_t id = {.bytes = {1}};
    check(sd_bus_set_fd(bus, ends[end], ends[end]), "sd_bus_set_fd");
    if (end == 1)
        check(sd_bus_set_server(bus, 1, id), "sd_bus_set_server");
#else
    (void)end;
    check(sd_bus_set_address(bus, address), "sd_bus_set_address");
    check(sd_bus_set_bus_client(bus, 1), "sd_bus_set_bus_client");
#endif
    check(sd_bus_start(bus), "sd_bus_start");
}

static void sd_connect(void) { begin(0); }

static void sd_serve(void) {
    begin(1);
    check(sd_bus_add_object_vtable(bus, NULL, DBUS_LAB_PATH, DBUS_LAB_NAME, methods, NULL),
          "sd_bus_add_object_vtable");
#ifndef DIRECT
    check(sd_bus_request_name(bus, DBUS_LAB_NAME, 0), "sd_bus_request_name");
#endif
    rpc_ready();
    for (;;)
        if (check(sd_bus_process(bus, NULL), "sd_bus_process") == 0)
            check(sd_bus_wait(bus, UINT64_MAX), "sd_bus_wait");
}

#define ASK(answer, method, ...)                                                                   \
    check(sd_bus_call_method(bus, DESTINATION, DBUS_LAB_PATH, DBUS_LAB_NAME, method, NULL, answer, \
                             __VA_ARGS__),                                                         \
          method)

static void ask_name(char *to, size_t size) {
    sd_bus_message *answer;
    const char *name;

    ASK(&answer, "Name", "");
    check(sd_bus_message_read(answer, "s", &name), "Name");
    strncpy(to, name, size - 1);
    sd_bus_message_unref(answer);
}

static struct service_version ask_version(void) {
    struct service_version version;
    sd_bus_message *answer;

    ASK(&answer, "Version", "");
    check(sd_bus_message_read(answer, "uuu", &version.major, &version.minor, &version.micro),
          "Version");
    sd_bus_message_unref(answer);
    return version;
}

static void ask_ping(void) { ASK(NULL, "Ping", ""); }

static int32_t ask_calculate(enum service_operation operation, int32_t a, int32_t b) {
    sd_bus_message *answer;
    int32_t result;

    ASK(&answer, dbus_operations[operation], "ii", a, b);
    check(sd_bus_message_read(answer, "i", &result), "calculator");
    sd_bus_message_unref(answer);
    return result;
}

static uint64_t ask_tick(void) {
    sd_bus_message *answer;
    uint64_t tick;

    ASK(&answer, "Tick", "");
    check(sd_bus_message_read(answer, "t", &tick), "Tick");
    sd_bus_message_unref(answer);
    return tick;
}

static struct service_verdict ask_verdict(const uint8_t *packet, size_t length) {
    sd_bus_message *call, *answer;
    struct service_verdict verdict;

    check(sd_bus_message_new_method_call(bus, &call, DESTINATION, DBUS_LAB_PATH, DBUS_LAB_NAME,
                                         "Verdict"),
          "Verdict");
    check(sd_bus_message_append_array(call, 'y', packet, length), "Verdict");
    check(sd_bus_call(bus, call, 0, NULL, &answer), "Verdict");
    check(sd_bus_message_read(answer, "uu", &verdict.accepted, &verdict.mark), "Verdict");
    sd_bus_message_unref(call);
    sd_bus_message_unref(answer);
    return verdict;
}

const struct rpc rpc = {
    sd_open,
    sd_serve,
    sd_connect,
#ifdef DIRECT
    NULL,
#else
    dbus_daemon_end,
#endif
    {ask_name, ask_version, ask_ping, ask_calculate, ask_tick},
    ask_verdict,
};
