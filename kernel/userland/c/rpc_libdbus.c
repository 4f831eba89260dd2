// SPDX-License-Identifier: GPL-2.0-or-later
// D-Bus by libdbus, through the daemon.
#include <dbus/dbus.h>
#include <string.h>

#include "dbus.h"
#include "rpc.h"

#define FOR_EVER DBUS_TIMEOUT_INFINITE

static const char *address;
static DBusConnection *bus;

static void check(const DBusError *error) {
    if (dbus_error_is_set(error))
        fail_because(error->name, error->message);
}

static void libdbus_open(void) { address = dbus_daemon_start(); }

static void libdbus_connect(void) {
    DBusError error = DBUS_ERROR_INIT;

    bus = dbus_connection_open_private(address, &error);
    check(&error);
    dbus_bus_register(bus, &error);
    check(&error);
}

static void append_version(DBusMessage *answer) {
    dbus_uint32_t major = SERVICE_MAJOR, minor = SERVICE_MINOR, micro = SERVICE_MICRO;

    dbus_message_append_args(answer, DBUS_TYPE_UINT32, &major, DBUS_TYPE_UINT32, &minor,
                             DBUS_TYPE_UINT32, &micro, DBUS_TYPE_INVALID);
}

static void append_verdict(DBusMessage *call, DBusMessage *answer) {
    const uint8_t *packet;
    int length;

    if (!dbus_message_get_args(call, NULL, DBUS_TYPE_ARRAY, DBUS_TYPE_BYTE, &packet, &length,
                               DBUS_TYPE_INVALID) ||
        length < SERVICE_HEADERS_BYTES)
        fail_because("Verdict", "no packet");
    struct service_verdict verdict = service_judge(packet);
    dbus_message_append_args(answer, DBUS_TYPE_UINT32, &verdict.accepted, DBUS_TYPE_UINT32,
                             &verdict.mark, DBUS_TYPE_INVALID);
}

static void append_result(DBusMessage *call, DBusMessage *answer, const char *method) {
    int operation = 0;
    dbus_int32_t a, b;

    while (strcmp(dbus_operations[operation], method) != 0)
        if (++operation == SERVICE_OPERATIONS)
            fail_because(method, "is unknown");
    if (!dbus_message_get_args(call, NULL, DBUS_TYPE_INT32, &a, DBUS_TYPE_INT32, &b,
                               DBUS_TYPE_INVALID))
        fail_because(method, "no numbers");
    dbus_int32_t result = service_calculate(operation, a, b);
    dbus_message_append_args(answer, DBUS_TYPE_INT32, &result, DBUS_TYPE_INVALID);
}

static void answer_call(DBusMessage *call) {
    DBusMessage *answer = dbus_message_new_method_return(call);
    const char *method = dbus_message_get_member(call), *name = SERVICE_NAME;

    if (strcmp(method, "Name") == 0) {
        dbus_message_append_args(answer, DBUS_TYPE_STRING, &name, DBUS_TYPE_INVALID);
    } else if (strcmp(method, "Version") == 0) {
        append_version(answer);
    } else if (strcmp(method, "Tick") == 0) {
        dbus_uint64_t tick = service_tick();
        dbus_message_append_args(answer, DBUS_TYPE_UINT64, &tick, DBUS_TYPE_INVALID);
    } else if (strcmp(method, "Verdict") == 0) {
        append_verdict(call, answer);
    } else if (strcmp(method, "Ping") != 0) {
        append_result(call, answer, method);
    }
    dbus_connection_send(bus, answer, NULL);
    dbus_message_unref(answer);
}

static void libdbus_serve(void) {
    DBusError error = DBUS_ERROR_INIT;

    libdbus_connect();
    dbus_bus_request_name(bus, DBUS_LAB_NAME, 0, &error);
    check(&error);
    rpc_ready();
    while (dbus_connection_read_write(bus, -1)) {
        DBusMessage *message;
        while ((message = dbus_connection_pop_message(bus)) != NULL) {
            if (dbus_message_get_type(message) == DBUS_MESSAGE_TYPE_METHOD_CALL)
                answer_call(message);
            dbus_message_unref(message);
        }
    }
}

static DBusMessage *begin(const char *method) {
    DBusMessage *call =
        dbus_message_new_method_call(DBUS_LAB_NAME, DBUS_LAB_PATH, DBUS_LAB_NAME, method);

    if (call == NULL)
        fail_because(method, "no memory");
    return call;
}

static DBusMessage *ask(DBusMessage *call) {
    DBusError error = DBUS_ERROR_INIT;
    DBusMessage *answer = dbus_connection_send_with_reply_and_block(bus, call, FOR_EVER, &error);

    check(&error);
    dbus_message_unref(call);
    return answer;
}

static void ask_name(char *to, size_t size) {
    DBusMessage *answer = ask(begin("Name"));
    DBusError error = DBUS_ERROR_INIT;
    const char *name = "";

    dbus_message_get_args(answer, &error, DBUS_TYPE_STRING, &name, DBUS_TYPE_INVALID);
    check(&error);
    strncpy(to, name, size - 1);
    dbus_message_unref(answer);
}

static struct service_version ask_version(void) {
    DBusMessage *answer = ask(begin("Version"));
    struct service_version version = {0};
    DBusError error = DBUS_ERROR_INIT;

    dbus_message_get_args(answer, &error, DBUS_TYPE_UINT32, &version.major, DBUS_TYPE_UINT32,
                          &version.minor, DBUS_TYPE_UINT32, &version.micro, DBUS_TYPE_INVALID);
    check(&error);
    dbus_message_unref(answer);
    return version;
}

static void ask_ping(void) { dbus_message_unref(ask(begin("Ping"))); }

static int32_t ask_calculate(enum service_operation operation, int32_t a, int32_t b) {
    DBusMessage *call = begin(dbus_operations[operation]), *answer;
    DBusError error = DBUS_ERROR_INIT;
    dbus_int32_t result = 0;

    dbus_message_append_args(call, DBUS_TYPE_INT32, &a, DBUS_TYPE_INT32, &b, DBUS_TYPE_INVALID);
    answer = ask(call);
    dbus_message_get_args(answer, &error, DBUS_TYPE_INT32, &result, DBUS_TYPE_INVALID);
    check(&error);
    dbus_message_unref(answer);
    return result;
}

static uint64_t ask_tick(void) {
    DBusMessage *answer = ask(begin("Tick"));
    DBusError error = DBUS_ERROR_INIT;
    dbus_uint64_t tick = 0;

    dbus_message_get_args(answer, &error, DBUS_TYPE_UINT64, &tick, DBUS_TYPE_INVALID);
    check(&error);
    dbus_message_unref(answer);
    return tick;
}

static struct service_verdict ask_verdict(const uint8_t *packet, size_t length) {
    DBusMessage *call = begin("Verdict"), *answer;
    struct service_verdict verdict = {0};
    DBusError error = DBUS_ERROR_INIT;

    dbus_message_append_args(call, DBUS_TYPE_ARRAY, DBUS_TYPE_BYTE, &packet, (int)length,
                             DBUS_TYPE_INVALID);
    answer = ask(call);
    dbus_message_get_args(answer, &error, DBUS_TYPE_UINT32, &verdict.accepted, DBUS_TYPE_UINT32,
                          &verdict.mark, DBUS_TYPE_INVALID);
    check(&error);
    dbus_message_unref(answer);
    return verdict;
}

const struct rpc rpc = {
    libdbus_open,
    libdbus_serve,
    libdbus_connect,
    dbus_daemon_end,
    {ask_name, ask_version, ask_ping, ask_calculate, ask_tick},
    ask_verdict,
};
