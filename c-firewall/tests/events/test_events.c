// SPDX-License-Identifier: GPL-2.0-or-later
// Tests events from rings to sinks: generations of policies, the rate limit, reports of missed
// events, and clients that follow.
#include "events/events.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counts.h"
#include "engine.h"
#include "policy/parse/parse.h"
#include "test.h"

static char folder[64], path[128];
static struct options options;
static struct events *events;

/// Policy with one rule, and its compiled form.
struct rules {
    struct policy policy;
    struct compiled *compiled;
};

static int make(void **state) {
    (void)state;
    strcpy(folder, "/tmp/twinwall-events-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/events", folder);
    options =
        (struct options){.events = path, .events_rate = 1000, .control = "control", .user = "root"};
    events = NULL;
    return 0;
}

static int clean(void **state) {
    (void)state;
    if (events)
        events_stop(events); // a failed test may have left the thread running
    events_close(events);
    unlink(path);
    return rmdir(folder);
}

static void open_events(void) {
    struct failure failure;

    assert_int_equal(events_open(&events, &options, -1, &failure), 0);
}

static void start(void) {
    struct failure failure;

    assert_int_equal(events_start(events, &failure), 0);
}

static struct rules rules_of(const char *rule) {
    const struct compile_settings settings = {0};
    char text[256];
    struct failure failure;
    struct rules rules;

    snprintf(text, sizeof text, "table ip t {\n chain c {\n %s\n }\n}\n", rule);
    assert_int_equal(
        parse_text("a.nft", (const uint8_t *)text, strlen(text), &rules.policy, &failure), 0);
    assert_int_equal(compile_policy(&rules.policy, &settings, &rules.compiled, &failure), 0);
    return rules;
}

static void free_rules(struct rules *rules) {
    compile_free(rules->compiled);
    policy_free(&rules->policy);
}

/// Adds records of packets that the first rule of a generation's policy decided.
/// - log_count: number of log statements that each packet has passed.
static void note(uint32_t generation, enum verdict verdict, uint32_t log_count, uint32_t packets) {
    const struct packet packet = {0};
    const struct decide_input input = engine_input(&packet, PACKET_OK);
    const struct decide_outcome outcome = {
        .verdict = verdict, .by = DECIDE_BY_RULE, .log_count = log_count};
    struct event_ring *ring = events_ring(events, 0);

    for (uint32_t i = 0; i < packets; i++)
        if (event_wanted(ring, PACKET_OK, false, &outcome))
            event_note(ring, generation, 0, &input, &outcome);
    event_flush(ring);
}

static const char *text_of_file(void) {
    static char text[1 << 20];
    FILE *file = fopen(path, "re");
    const size_t length = fread(text, 1, sizeof text - 1, file);

    fclose(file);
    text[length] = '\0';
    return text;
}

static uint32_t count(const char *text, const char *part) {
    uint32_t found = 0;

    for (; (text = strstr(text, part)); text++)
        found++;
    return found;
}

/// Waits until the file of events contains a text; fails after 30 seconds.
static void await(const char *part) {
    for (int i = 0; i < 3000 && count(text_of_file(), part) == 0; i++)
        poll(NULL, 0, 10);
    assert_int_not_equal(count(text_of_file(), part), 0);
}

/// Checks that a record is described by the policy of its generation, also when the policy is freed
/// immediately after the drain.
static void records_are_told_by_the_policy_that_decided(void **state) {
    struct rules one = rules_of("drop comment \"one\""), two = rules_of("drop comment \"two\"");
    const char *text;

    (void)state;
    open_events();
    events_policy(events, 1, &one.policy, one.compiled);
    note(1, VERDICT_DROP, 0, 3);
    events_policy(events, 2, &two.policy, two.compiled);
    note(2, VERDICT_DROP, 0, 1);
    note(1, VERDICT_DROP, 0, 2);
    events_drain(events);
    free_rules(&one);
    // The policy of this generation is no longer known: the event has no rule.
    note(1, VERDICT_DROP, 0, 1);
    note(2, VERDICT_DROP, 0, 4);
    start();
    events_stop(events);
    text = text_of_file();
    assert_int_equal(count(text, "\"comment\":\"one\""), 5);
    assert_int_equal(count(text, "\"comment\":\"two\""), 5);
    assert_int_equal(count(text, "\"event_type\":\"drop\""), 11);
    events_close(events);
    events = NULL;
    free_rules(&two);
}

/// Checks that accepted packets produce no lines, except for the log statements that they passed.
static void only_what_passed_a_log_is_told_of_accepts(void **state) {
    struct rules rules = rules_of("log prefix \"p\" accept");
    const uint64_t lost = counts_get(COUNT_EVENTS_LOST);

    (void)state;
    open_events();
    events_policy(events, 1, &rules.policy, rules.compiled);
    note(1, VERDICT_ACCEPT, 0, 1);
    note(1, VERDICT_ACCEPT, 1, 1);
    note(1, VERDICT_ACCEPT, DECIDE_LOGS_MAX + 2, 1);
    start();
    events_stop(events);
    assert_int_equal(count(text_of_file(), "\"event_type\":\"log\""), 1 + DECIDE_LOGS_MAX);
    assert_int_equal(count(text_of_file(), "\"event_type\":\"accept\""), 0);
    assert_int_equal(counts_get(COUNT_EVENTS_LOST) - lost, 2);
    events_close(events);
    events = NULL;
    free_rules(&rules);
}

static void what_the_rate_leaves_out_is_told(void **state) {
    const uint64_t left_out = counts_get(COUNT_EVENTS_LEFT_OUT);

    (void)state;
    options.events_rate = 10;
    open_events();
    note(0, VERDICT_DROP, 0, 500);
    start();
    await("\"left_out\"");
    events_stop(events);
    assert_in_range(count(text_of_file(), "\"drop\":{"), 10, 20);
    assert_int_equal(counts_get(COUNT_EVENTS_LEFT_OUT) - left_out,
                     500 - count(text_of_file(), "\"drop\":{"));
}

static void what_a_full_ring_lost_is_told(void **state) {
    (void)state;
    options.events_rate = 1000000;
    open_events();
    note(0, VERDICT_DROP, 0, EVENT_RING_RECORDS + 7);
    start();
    await("\"lost\"");
    events_stop(events);
    assert_int_equal(count(text_of_file(), "\"drop\":{"), EVENT_RING_RECORDS);
    assert_int_equal(count(text_of_file(), "\"text\":\"ring\",\"events\":7}"), 1);
}

static void a_sleeping_thread_is_woken(void **state) {
    int fd;

    (void)state;
    open_events();
    start();
    events_tell(events, EVENTS_STARTED, NULL);
    await("started");
    poll(NULL, 0, 50); // the thread sleeps now
    note(0, VERDICT_DROP, 0, 1);
    await("\"drop\":{");
    fd = events_fd(events);
    assert_true(fd >= 0);
    close(fd); // a copy: the thread goes on writing
    events_stop(events);
    // The thread can be started again, as after an upgrade that failed.
    start();
    note(0, VERDICT_REJECT, 0, 1);
    await("\"reject\":{");
    events_stop(events);
}

/// Reads the lines that a client receives until they contain a text.
static void await_client(int fd, char *text, size_t size, const char *part) {
    size_t length = strlen(text);

    while (!strstr(text, part)) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        ssize_t got;

        assert_int_equal(poll(&polled, 1, 30000), 1);
        got = read(fd, text + length, size - 1 - length);
        assert_true(got > 0);
        length += (size_t)got;
        text[length] = '\0';
    }
}

static void clients_get_what_they_asked_for(void **state) {
    int pairs[EVENTS_TAILS_MAX + 1][2];
    char text[4096] = "";

    (void)state;
    options.events = NULL;
    open_events();
    start();
    note(0, VERDICT_ACCEPT, 0, 1); // no sink requests this event
    for (int i = 0; i <= EVENTS_TAILS_MAX; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
        assert_int_equal(events_tail(events, pairs[i][0], EVENT_ACCEPT, i == 0),
                         i < EVENTS_TAILS_MAX ? 0 : -EBUSY);
    }
    note(0, VERDICT_DROP, 0, 1);
    note(0, VERDICT_ACCEPT, 0, 1);
    await_client(pairs[0][1], text, sizeof text, "\"accept\":{");
    await_client(pairs[0][1], text, sizeof text, "}}\n");
    assert_int_equal(strncmp(text, "{\"ok\":true}\n{", 13), 0);
    assert_int_equal(count(text, "\n"), 2);
    assert_non_null(strstr(text, "\"input\":{"));
    *text = '\0';
    await_client(pairs[1][1], text, sizeof text, "}}\n");
    assert_null(strstr(text, "\"input\":{"));
    // When all clients have closed their connections, no events are requested, and another client
    // can connect.
    for (int i = 0; i <= EVENTS_TAILS_MAX; i++)
        close(pairs[i][1]);
    for (int i = 0; i < 3000 && atomic_load(&events_ring(events, 0)->wanted) != 0; i++)
        poll(NULL, 0, 10);
    assert_int_equal(atomic_load(&events_ring(events, 0)->wanted), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[0]), 0);
    assert_int_equal(events_tail(events, pairs[0][0], EVENT_DROP, false), 0);
    close(pairs[0][1]);
    close(pairs[EVENTS_TAILS_MAX][0]);
    events_stop(events);
}

/// Checks that no events are recorded without a sink and a control socket.
static void nothing_is_wanted_of_nobody(void **state) {
    (void)state;
    options.events = NULL;
    options.control = NULL;
    open_events();
    assert_null(events_ring(events, 0)->records);
    start();
    note(1, VERDICT_DROP, 1, 10);
    events_tell(events, EVENTS_STARTED, NULL);
    assert_int_equal(events_fd(events), -1);
    events_stop(events);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)
    const struct CMUnitTest tests[] = {
        TEST(records_are_told_by_the_policy_that_decided),
        TEST(only_what_passed_a_log_is_told_of_accepts),
        TEST(what_the_rate_leaves_out_is_told),
        TEST(what_a_full_ring_lost_is_told),
        TEST(a_sleeping_thread_is_woken),
        TEST(clients_get_what_they_asked_for),
        TEST(nothing_is_wanted_of_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
