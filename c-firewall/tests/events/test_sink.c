// SPDX-License-Identifier: GPL-2.0-or-later
// Tests sinks of events with a simulated clock: files, pipes, listeners and clients that are full,
// fail, disappear and reappear.
#include "events/sink.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/counts.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)
#define LINE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab\n"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[64], path[128];
static struct events_sink sink;
static uint64_t now_ns;

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/twinwall-sink-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/events", folder);
    sink = (struct events_sink){0};
    now_ns = 5 * SECOND;
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    events_sink_close(&sink);
    unlink(path);
    return rmdir(folder);
}

static void open_sink(const char *prefix) {
    static char where[160];
    const struct options options = {.events = where};
    struct failure failure;

    snprintf(where, sizeof where, "%s%s", prefix, path);
    assert_int_equal(events_sink_open(&sink, &options, -1, &failure), 0);
    sink.path = path;
}

static void put(const char *line) { assert_true(events_sink_append(&sink, line, strlen(line))); }

static void flush(void) { events_sink_flush(&sink, &lock, now_ns); }

/// Reads all bytes that can be read without blocking, and appends a NUL. Returns their number.
static size_t read_all(int fd, char *text, size_t size) {
    size_t length = 0;
    ssize_t count;

    while ((count = read(fd, text + length, size - 1 - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    return length;
}

static const char *file_text(void) {
    static char text[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    read_all(fd, text, sizeof text);
    close(fd);
    return text;
}

static void a_file_is_added_to_and_a_cut_line_gets_its_end(void **state) {
    FILE *file = fopen(path, "we");
    const uint64_t written = counts_get(COUNT_EVENTS_WRITTEN);

    (void)state;
    fputs("whole\nhal", file);
    fclose(file);
    open_sink("");
    put("one\n");
    put("two\n");
    assert_int_equal(events_sink_left(&sink), 2);
    flush();
    assert_int_equal(events_sink_left(&sink), 0);
    assert_string_equal(file_text(), "whole\nhal\none\ntwo\n");
    assert_int_equal(counts_get(COUNT_EVENTS_WRITTEN) - written, 2);
}

static void a_new_file_is_for_its_group_to_read(void **state) {
    struct stat found;

    (void)state;
    umask(0);
    open_sink("");
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0640);
}

static void a_file_that_was_moved_is_opened_anew_at_a_line(void **state) {
    char moved[160];

    (void)state;
    snprintf(moved, sizeof moved, "%s.1", path);
    open_sink("");
    put("one\n");
    flush();
    put("two\n");
    assert_int_equal(rename(path, moved), 0);
    events_sink_rotate(&sink);
    flush();
    assert_string_equal(file_text(), "two\n");
    assert_int_equal(rename(moved, path), 0);
    assert_string_equal(file_text(), "one\n");
}

static void a_deleted_file_is_made_again(void **state) {
    (void)state;
    open_sink("");
    put("one\n");
    flush();
    assert_int_equal(unlink(path), 0);
    put("two\n");
    flush();
    assert_string_equal(file_text(), "two\n");
    assert_false(sink.troubled);
}

/// Checks that a full pipe does not block, and that a line that was written in part is continued at
/// the right byte.
static void a_full_pipe_is_waited_for_and_then_counted(void **state) {
    static char text[4 << 20];
    const size_t length = strlen(LINE);
    size_t lines = 0, bytes = 0, count;
    int reader;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    open_sink(""); // no process reads yet
    assert_true(sink.troubled);
    reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    while (events_sink_append(&sink, LINE, length)) {
        lines++;
        if (lines % 1024 == 0)
            flush();
    }
    assert_int_equal(sink.lost, 1);
    assert_true(sink.blocked);
    flush();
    assert_true(sink.troubled);
    assert_int_equal(events_sink_events(&sink), 0x4 /* POLLOUT */);
    do {
        count = read_all(reader, text + bytes, sizeof text - bytes);
        bytes += count;
        flush();
    } while (count > 0);
    assert_int_equal(bytes, lines * length);
    for (size_t i = 0; i < bytes; i += length)
        assert_memory_equal(text + i, LINE, length);
    assert_false(sink.troubled);
    close(reader);
}

/// Makes the descriptor of the sink refer to another file, so that the sink writes to it.
static void stand_for(const char *file) {
    assert_int_equal(dup3(open(file, O_WRONLY | O_CLOEXEC), sink.fd, O_CLOEXEC), sink.fd);
}

static void a_full_disk_is_tried_again_in_a_second(void **state) {
    const uint64_t written = counts_get(COUNT_EVENTS_WRITTEN);

    (void)state;
    open_sink("");
    stand_for("/dev/full");
    put("one\n");
    flush();
    assert_true(sink.troubled);
    assert_int_equal(events_sink_left(&sink), 1);
    // There is space again, but the sink does not try before a second has passed.
    stand_for("/dev/null");
    now_ns += SECOND - 1;
    flush();
    assert_int_equal(events_sink_left(&sink), 1);
    now_ns++;
    flush();
    assert_int_equal(events_sink_left(&sink), 0);
    assert_false(sink.troubled);
    assert_int_equal(counts_get(COUNT_EVENTS_WRITTEN) - written, 1);
}

static int listen_at_path(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    strcpy(address.sun_path, path);
    unlink(path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/// Checks that the sink connects again only after a second if the listener has closed, and then
/// writes a line that the listener received in part again completely.
static void a_listener_that_went_is_looked_for_each_second(void **state) {
    static char text[4 << 20];
    const int small = 1;
    size_t lines = 0;
    int listener, client;

    (void)state;
    open_sink("unix:");
    assert_true(sink.troubled);
    listener = listen_at_path();
    put(LINE);
    flush();
    client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(client >= 0);
    assert_int_equal(read_all(client, text, sizeof text), strlen(LINE));
    assert_false(sink.troubled);
    setsockopt(sink.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (; lines < 5000; lines++)
        put(LINE);
    flush();
    assert_true(sink.blocked);
    // The listener closes with unread bytes.
    close(client);
    close(listener);
    events_sink_look(&sink, now_ns);
    assert_int_equal(sink.fd, -1);
    assert_int_equal(sink.written % strlen(LINE), 0);
    lines = events_sink_left(&sink);
    assert_true(lines > 0);
    listener = listen_at_path();
    flush();
    assert_int_equal(sink.fd, -1);
    now_ns += SECOND;
    flush();
    client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(client >= 0);
    for (size_t bytes = 0; bytes < lines * strlen(LINE);) {
        bytes += read_all(client, text + bytes, sizeof text - bytes);
        flush();
    }
    assert_memory_equal(text, LINE, strlen(LINE));
    assert_false(sink.troubled);
    close(client);
    close(listener);
}

static void a_client_that_went_is_seen(void **state) {
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(events_sink_client(&sink, pair[0]), 0);
    assert_int_equal(write(pair[1], "says what it likes", 5), 5);
    events_sink_look(&sink, now_ns);
    assert_int_equal(sink.fd, pair[0]);
    assert_int_equal(events_sink_file(&sink), -1);
    close(pair[1]);
    events_sink_look(&sink, now_ns);
    assert_int_equal(sink.fd, -1);
}

static void a_file_that_can_not_be_made_is_a_failure(void **state) {
    const struct options options = {.events = "/nowhere/events"};
    struct failure failure;

    (void)state;
    assert_int_equal(events_sink_open(&sink, &options, -1, &failure), -2 /* ENOENT */);
    assert_int_equal(failure.code, LOG_EXIT_USAGE);
    assert_string_equal(failure.text,
                        "--events /nowhere/events: No such file or directory: name a file that "
                        "the firewall's user (--user) can write, in a folder that is there");
    sink = (struct events_sink){0};
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_added_to_and_a_cut_line_gets_its_end),
        TEST(a_new_file_is_for_its_group_to_read),
        TEST(a_file_that_was_moved_is_opened_anew_at_a_line),
        TEST(a_deleted_file_is_made_again),
        TEST(a_full_pipe_is_waited_for_and_then_counted),
        TEST(a_full_disk_is_tried_again_in_a_second),
        TEST(a_listener_that_went_is_looked_for_each_second),
        TEST(a_client_that_went_is_seen),
        TEST(a_file_that_can_not_be_made_is_a_failure),
    };

    log_set_level(LOG_ERROR);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
