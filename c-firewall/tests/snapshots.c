// SPDX-License-Identifier: GPL-2.0-or-later
#include "snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/contract.h"
#include "test.h"

#define VECTORS "../tests/corpus/vectors/"

static struct options options = {.backend = QUEUE_RAW, .queue_length = 131072, .deadline_ms = 1000};

static struct ledger ledgers[] = {
    {
        .number = 0,
        .stats = {.received = 1000,
                  .without_id = 12,
                  .netlink = 1,
                  .bytes = UINT64_C(5000000000),
                  .verdicts = {900, 60, 20, 10, 6, 4},
                  .malformed = {[PACKET_TCP_DATA_OFFSET] = 3, [PACKET_EMPTY] = 1},
                  .beyond_copy = 5,
                  .truncated = 6,
                  .overruns = 7,
                  .refused = 8,
                  .undecidable = 9,
                  .undecided = 10,
                  .without_ct_state = 11,
                  .restated = 12,
                  .gaps = 13,
                  .send_retries = 14,
                  .replies = {17, 2, 1},
                  .connections = {30, 31, 32, 33, 34, 35, 36, 37, 38, 39},
                  .answers = {40, 41, 42, 43, 44}},
        .known = true,
        .offered = 1060,
        .waiting = 12,
        .queue_full = 13,
        .user_drop = 14,
        .unseen = 15,
        .stalled = 21,
        .lost = 27,
        .difference = 16,
    },
    {.number = 65535, .known = true, .reconciled = true},
};
static uint64_t stalled[] = {21, 0};

static struct snapshot_counter counters[] = {{1, 12, 720}, {3, 2, 80}, {0, INT64_MAX, 1}};
static struct snapshot_log logs[] = {{2, 4}};
static struct snapshot_rule rules[] = {
    {"web.nft:6", "inet filter", "input", "tcp dport 80 counter", "web \"in\" \\ \n", 2, counters,
     1, logs},
    {"web.nft:6", "inet filter", "input", "drop", NULL, 0, NULL, 0, NULL},
    {"web.nft:9", "inet filter", "other", "counter accept", NULL, 1, &counters[2], 0, NULL},
};

static struct contract contract = {.rows = {
                                       {OPTIONS_OVERLOAD, false, "dropped"},
                                       {OPTIONS_STALL, true, "accepted"},
                                       {OPTIONS_CRASH, false, "the rules decide"},
                                       {OPTIONS_MALFORMED, false, "dropped"},
                                       {OPTIONS_TRUNCATED, true, "accepted"},
                                       {OPTIONS_UNKNOWN, false, "dropped"},
                                   }};

const struct snapshot *snapshots_full(void) {
    static struct snapshot snapshot = {
        .time_ms = UINT64_C(1700000009999),
        .started_ms = UINT64_C(1700000000001),
        .uptime_ms = 9998,
        .loaded_ms = UINT64_C(1700000005000),
        .learned = 17,
        .generation = 3,
        .policy_file = "/etc/web.nft",
        .chain_count = 2,
        .rule_count = 3,
        .requirement = {.copy_bytes = 80, .layer4 = true, .reject = true},
        .ledger_count = 2,
        .ledgers = ledgers,
        .stalled = stalled,
        .rules = rules,
        .reload_error = "web.nft:6:2: found \"tcpp\"",
        .options = &options,
        .contract = &contract,
        .guard_ended = true,
    };

    return &snapshot;
}

const struct snapshot *snapshots_idle(void) {
    static struct snapshot snapshot = {
        .time_ms = 2000,
        .started_ms = 1000,
        .uptime_ms = 1000,
        .ledger_count = 1,
        .ledgers = &ledgers[1],
        .stalled = &stalled[1],
        .options = &options,
    };

    return &snapshot;
}

const uint64_t *snapshots_counts(void) {
    static uint64_t counts[COUNT_COUNT];

    for (int i = 0; i < COUNT_COUNT; i++)
        counts[i] = (uint64_t)i * 10 + 1;
    return counts;
}

const struct control_self *snapshots_self(void) {
    static char *arguments[] = {"--queue", "0:1", "--json"};
    static struct control_self self = {
        .pid = 812,
        .uid = 65534,
        .executable = "/usr/sbin/" OPTIONS_PROGRAM,
        .argument_count = 3,
        .arguments = arguments,
    };

    return &self;
}

/// Returns a copy of a text with every `word` replaced by `other`. Frees the text; the caller frees
/// the copy.
static char *replaced(char *text, const char *word, const char *other) {
    char *made = NULL;
    size_t length;
    FILE *out = open_memstream(&made, &length);
    const char *from = text;

    for (const char *at; (at = strstr(from, word)); from = at + strlen(word))
        fprintf(out, "%.*s%s", (int)(at - from), from, other);
    fprintf(out, "%s", from);
    fclose(out);
    free(text);
    return made;
}

char *snapshots_vector(const char *name) {
    char path[256];
    char *text = NULL;
    size_t capacity = 0;
    FILE *file;

    snprintf(path, sizeof path, VECTORS "%s", name);
    file = fopen(path, "re");
    if (!file || getdelim(&text, &capacity, '\0', file) < 0)
        fail_msg("%s can't be read", path);
    fclose(file);
    text = replaced(text, "PROGRAM", OPTIONS_PROGRAM);
    return replaced(replaced(text, "VERSION", OPTIONS_VERSION), "TWIN", "c");
}
