// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshots.h"
#include "state/report.h"
#include "test.h"

/// Prints an answer with its name before it, and frees it.
static void put(FILE *out, const char *name, char *answer) {
    assert_non_null(answer);
    fprintf(out, "%s %s", name, answer);
    free(answer);
}

static const struct listing_page empty;

/// Page of connections with IPv4 and IPv6, TCP and UDP, and different states and protocols.
static const struct listing_page page = {
    .count = 3,
    .listed =
        {
            {.key.words = {443ULL << 48 | 40000ULL << 32 | 4 << 8 | 6, 0x0a0903020a090142},
             .state = LISTED_NAMED,
             .protocol = NAMES_TLS,
             .host_length = 11,
             .host = "a\x1b"
                     "b.example",
             .age_ns = 1234999999},
            {.key.words = {443ULL << 48 | 50000ULL << 32 | 6 << 8 | 17, 0, 0x01020304,
                           0x20010db800000000, 1},
             .is_udp = true},
            {.key.words = {443ULL << 48 | 50000ULL << 32 | 6 << 8 | 17, 0, 0x01020304,
                           0x20010db800000000, 1},
             .is_udp = true,
             .client_low = true,
             .state = LISTED_DENIED,
             .protocol = NAMES_QUIC,
             .age_ns = 9000000},
        },
};

/// Returns the answer to `stats` with the ledgers of a snapshot.
static char *stats(const struct snapshot *snapshot) {
    const struct tally no_policy = {0};
    struct options options = *snapshot->options;
    char *report, *answer;

    options.json = true;
    report = report_ledger(&options, REPORT_CONTROL, snapshot->time_ms, snapshot->ledgers,
                           snapshot->ledger_count, &no_policy);
    answer = control_answer_stats(report);
    free(report);
    return answer;
}

/// Tests that each answer equals that of the vectors.
static void says_what_the_vectors_say(void **state) {
    const struct reload_result reload = {3, 12, 9, 3, 1, 4};
    char *expected = snapshots_vector("control-answers.txt");
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    (void)state;
    put(out, "error", control_answer_error("web.nft:6:2: found \"tcpp\", expected \\ or \x7fä"));
    put(out, "status",
        control_answer_status(snapshots_self(), snapshots_full(), LOG_DEBUG, snapshots_counts()));
    put(out, "idle",
        control_answer_status(snapshots_self(), snapshots_idle(), LOG_ERROR, snapshots_counts()));
    put(out, "stats", stats(snapshots_full()));
    put(out, "idle-stats", stats(snapshots_idle()));
    put(out, "rules", control_answer_rules(snapshots_full()));
    put(out, "no-rules", control_answer_rules(snapshots_idle()));
    put(out, "connections",
        control_answer_connections(&(struct listing){7, &page, true, 4294967552}));
    put(out, "no-connections", control_answer_connections(&(struct listing){.page = &empty}));
    put(out, "reload", control_answer_reload(&reload));
    put(out, "log", control_answer_log(LOG_WARNING, LOG_INFO));
    put(out, "proof", control_answer_proof(4712, 7));
    put(out, "drain", control_answer_drain(10, 4711));
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    free(expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_the_vectors_say)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
