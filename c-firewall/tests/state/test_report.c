// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/report.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

#define TIME_MS UINT64_C(1700000000123)

static const struct tally no_policy;

static struct options make_options(void) {
    return (struct options){
        .backend = QUEUE_RAW,
        .copy_bytes = 128,
        .batch = 64,
        .receive_buffer = 67108864,
        .queue_length = 131072,
        .gso = true,
        .spin_us = 50,
        .coalesce_us = 60,
    };
}

/// Returns a contract with a row for each situation; the modes alternate between closed and open.
static struct contract make_contract(void) {
    struct contract contract;

    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        contract.rows[i] = (struct contract_row){
            .situation = (enum options_situation)i, .open = i % 2, .really = "it drops"};
    return contract;
}

#define CONTRACT_TEXT                                                                              \
    "  overload   closed  it drops\n"                                                              \
    "  stall      open    it drops\n"                                                              \
    "  crash      closed  it drops\n"                                                              \
    "  malformed  open    it drops\n"                                                              \
    "  truncated  closed  it drops\n"                                                              \
    "  unknown    open    it drops\n"

#define CONTRACT_JSON                                                                              \
    ",\"contract\":[{\"situation\":\"overload\",\"mode\":\"closed\",\"really\":\"it drops\"},"     \
    "{\"situation\":\"stall\",\"mode\":\"open\",\"really\":\"it drops\"},"                         \
    "{\"situation\":\"crash\",\"mode\":\"closed\",\"really\":\"it drops\"},"                       \
    "{\"situation\":\"malformed\",\"mode\":\"open\",\"really\":\"it drops\"},"                     \
    "{\"situation\":\"truncated\",\"mode\":\"closed\",\"really\":\"it drops\"},"                   \
    "{\"situation\":\"unknown\",\"mode\":\"open\",\"really\":\"it drops\"}]"

static struct ledger make_ledger(uint16_t number, uint64_t received) {
    return (struct ledger){
        .number = number,
        .stats = {.received = received,
                  .bytes = received * 64,
                  .verdicts = {[VERDICT_ACCEPT] = received - 10, [VERDICT_DROP] = 10}},
        .known = true,
        .offered = received,
        .reconciled = true,
    };
}

/// Compares a report, and frees it.
static void assert_report(char *report, const char *expected) {
    assert_non_null(report);
    assert_string_equal(report, expected);
    free(report);
}

static void start_as_text(void **state) {
    const struct contract contract = make_contract();
    struct options options = make_options();

    (void)state;
    assert_report(report_start(&options, NULL, 67108864, &contract, TIME_MS),
                  "ready: queue 0, backend raw, profile fast, copy 128 bytes, batch 64, receive "
                  "buffer 67108864 bytes, queue length 131072, gso on, spin 50 us, coalesce 60 us, "
                  "fail closed, default accept\n" CONTRACT_TEXT);
    options.queue_last = 3;
    options.backend = QUEUE_MNL;
    options.gso = false;
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        options.fail_open[i] = true;
    options.default_verdict = VERDICT_DROP;
    assert_report(report_start(&options, NULL, 212992, &contract, TIME_MS),
                  "ready: queue 0:3, backend mnl, profile fast, copy 128 bytes, batch 64, receive "
                  "buffer 212992 bytes, queue length 131072, gso off, spin 50 us, coalesce 60 us, "
                  "fail open, default drop\n" CONTRACT_TEXT);
}

static void start_of_paper_as_text(void **state) {
    const struct contract contract = make_contract();
    const struct options options = {
        .backend = QUEUE_CLASSIC,
        .profile = OPTIONS_PAPER,
        .copy_bytes = 65535,
        .batch = 1,
        .queue_length = 1024,
    };

    (void)state;
    assert_report(report_start(&options, NULL, 106496, &contract, TIME_MS),
                  "ready: queue 0, backend classic, profile paper, copy 65535 bytes, batch 1, "
                  "receive buffer 106496 bytes, queue length 1024, gso off, spin always, "
                  "coalesce 0 us, fail closed, default accept\n" CONTRACT_TEXT);
}

static void start_as_json(void **state) {
    const struct contract contract = make_contract();
    struct options options = make_options();

    (void)state;
    options.json = true;
    options.queue_first = 4;
    options.queue_last = 6;
    assert_report(report_start(&options, NULL, 67108864, &contract, TIME_MS),
                  "{\"event\":\"start\",\"program\":\"c-firewall\",\"version\":\"0.1.0\","
                  "\"time_ms\":1700000000123,\"queues\":[4,5,6],\"backend\":\"raw\","
                  "\"profile\":\"fast\",\"copy_bytes\":128,\"batch\":64,"
                  "\"receive_buffer\":67108864,\"queue_length\":131072,\"gso\":true,"
                  "\"spin_us\":50,\"coalesce_us\":60,\"fail\":\"closed\",\"deadline_ms\":0,"
                  "\"default\":\"accept\"" CONTRACT_JSON "}\n");
    options.profile = OPTIONS_PAPER;
    options.queue_last = 4;
    options.gso = false;
    options.coalesce_us = 0;
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        options.fail_open[i] = true;
    assert_report(report_start(&options, NULL, 1, &contract, TIME_MS),
                  "{\"event\":\"start\",\"program\":\"c-firewall\",\"version\":\"0.1.0\","
                  "\"time_ms\":1700000000123,\"queues\":[4],\"backend\":\"raw\","
                  "\"profile\":\"paper\",\"copy_bytes\":128,\"batch\":64,\"receive_buffer\":1,"
                  "\"queue_length\":131072,\"gso\":false,\"spin_us\":null,\"coalesce_us\":0,"
                  "\"fail\":\"open\",\"deadline_ms\":0,\"default\":\"accept\"" CONTRACT_JSON "}\n");
}

static void ledger_as_text(void **state) {
    const struct options options = make_options();
    const struct ledger ledger = make_ledger(0, 1000);

    (void)state;
    assert_report(
        report_ledger(&options, REPORT_EXIT, TIME_MS, &ledger, 1, &no_policy),
        "queue 0: received 1000 packets, 64000 bytes\n"
        "  verdicts: accept 990, drop 10, reject 0, mark 0, repeat 0, requeue 0; refused "
        "by the kernel 0\n"
        "  malformed: none\n"
        "  beyond copy 0, truncated 0, without id 0, gaps 0, overruns 0, send retries 0, stalled "
        "0\n"
        "  kernel: offered 1000, waiting 0, queue full 0, user drop 0, unseen 0\n"
        "  ledger: reconciled, lost 0 in the queue\n");
}

static void every_figure_has_its_place_in_the_text(void **state) {
    const struct options options = make_options();
    struct ledger ledger = make_ledger(65535, 1000);

    (void)state;
    for (int i = 0; i < VERDICT_COUNT; i++)
        ledger.stats.verdicts[i] = 100 + (uint64_t)i;
    ledger.stats.malformed[PACKET_TCP_SHORT] = 1;
    ledger.stats.malformed[PACKET_IPV4_SHORT] = 3;
    ledger.stats.netlink = 2;
    ledger.stats.refused = 4;
    ledger.stats.beyond_copy = 5;
    ledger.stats.truncated = 6;
    ledger.stats.overruns = 7;
    ledger.stats.without_id = 20;
    ledger.stats.gaps = 21;
    ledger.stats.send_retries = 22;
    ledger.stalled = 23;
    ledger.offered = UINT64_C(5000000000);
    ledger.waiting = 8;
    ledger.queue_full = 9;
    ledger.user_drop = 10;
    ledger.unseen = 11;
    ledger.lost = 19;
    ledger.difference = 12;
    ledger.reconciled = false;
    assert_report(report_ledger(&options, REPORT_SIGNAL, TIME_MS, &ledger, 1, &no_policy),
                  "queue 65535: received 1000 packets, 64000 bytes\n"
                  "  verdicts: accept 100, drop 101, reject 102, mark 103, repeat 104, requeue "
                  "105; refused by the kernel 4\n"
                  "  malformed: ipv4-short 3, tcp-short 1, netlink 2\n"
                  "  beyond copy 5, truncated 6, without id 20, gaps 21, overruns 7, send retries "
                  "22, stalled "
                  "23\n"
                  "  kernel: offered 5000000000, waiting 8, queue full 9, user drop 10, unseen "
                  "11\n"
                  "  ledger: NOT RECONCILED, difference 12, lost 19 in the queue\n");
}

static void netlink_alone_is_not_none(void **state) {
    const struct options options = make_options();
    struct ledger ledger = make_ledger(0, 1000);
    char *report;

    (void)state;
    ledger.stats.netlink = 2;
    report = report_ledger(&options, REPORT_EXIT, TIME_MS, &ledger, 1, &no_policy);
    assert_non_null(strstr(report, "  malformed: netlink 2\n"));
    free(report);
}

static void several_queues_have_a_total(void **state) {
    const struct options options = make_options();
    const struct ledger ledgers[] = {make_ledger(1, 100), make_ledger(2, 50)};
    char *report = report_ledger(&options, REPORT_EXIT, TIME_MS, ledgers, 2, &no_policy);

    (void)state;
    assert_non_null(report);
    assert_ptr_equal(strstr(report, "queue 1: received 100 packets, 6400 bytes\n"), report);
    assert_non_null(strstr(report, "\nqueue 2: received 50 packets, 3200 bytes\n"));
    assert_non_null(strstr(report, "\ntotal: received 150 packets, 9600 bytes\n"
                                   "  verdicts: accept 130, drop 20, reject 0"));
    free(report);
}

#define JSON_VERDICTS(accept, drop)                                                                \
    "\"verdicts\":{\"accept\":" accept ",\"drop\":" drop                                           \
    ",\"reject\":0,\"mark\":0,\"repeat\":0,\"requeue\":0},\"refused\":0,"
#define JSON_ODD                                                                                   \
    "\"without_id\":0,\"gaps\":0,\"overruns\":0,\"send_retries\":0,\"undecidable\":0,"             \
    "\"undecided\":0,\"without_ct_state\":0,\"restated\":0,\"replies\":{\"sent\":0,\"not_due\":0," \
    "\"failed\":0},"                                                                               \
    "\"connections\":{\"opened\":0,\"other\":0,\"tls\":0,\"quic\":0,\"http\":0,\"dns\":0,"         \
    "\"denied\":0,\"evasion\":0,\"unreadable\":0,\"evicted\":0},\"answers\":{\"learned\":0,"       \
    "\"empty\":0,\"other\":0,\"unasked\":0,\"unreadable\":0},"                                     \
    "\"elements\":{\"added\":0,\"failed\":0},\"stalled\":0,"
#define JSON_MALFORMED(tcp_short, netlink)                                                         \
    "\"malformed\":{\"empty\":0,\"version\":0,\"ipv4-short\":0,\"ipv4-header-length\":0,"          \
    "\"ipv4-total-length\":0,\"ipv4-fragment-overflow\":0,\"ipv6-short\":0,"                       \
    "\"ipv6-payload-length\":0,\"ipv6-extension-short\":0,\"ipv6-extension-limit\":0,"             \
    "\"ipv6-fragment-overflow\":0,\"tcp-short\":" tcp_short ",\"tcp-data-offset\":0,"              \
    "\"udp-short\":0,\"udp-length\":0,\"icmp-short\":0,\"icmpv6-short\":0,\"netlink\":" netlink    \
    "},"

static void ledger_as_json(void **state) {
    struct options options = make_options();
    struct ledger ledgers[] = {make_ledger(7, 100), make_ledger(8, 50)};

    (void)state;
    options.json = true;
    ledgers[0].stats.malformed[PACKET_TCP_SHORT] = 1;
    ledgers[0].stats.netlink = 2;
    ledgers[0].queue_full = 3;
    ledgers[0].lost = 3;
    ledgers[1].unseen = 4;
    ledgers[1].difference = 4;
    ledgers[1].reconciled = false;
    assert_report(
        report_ledger(&options, REPORT_INTERVAL, TIME_MS, ledgers, 2, &no_policy),
        "{\"event\":\"stats\",\"program\":\"c-firewall\",\"time_ms\":1700000000123,"
        "\"reason\":\"interval\",\"queues\":["
        "{\"queue\":7,\"received\":100,\"bytes\":6400," JSON_VERDICTS("90", "10") JSON_MALFORMED(
            "1",
            "2") "\"beyond_copy\":0,\"truncated\":0," JSON_ODD
                 "\"kernel\":{\"offered\":100,\"waiting\":0,\"queue_full\":3,\"user_drop\":0,"
                 "\"unseen\":0},\"lost\":3,\"difference\":0,\"reconciled\":true},"
                 "{\"queue\":8,\"received\":50,\"bytes\":3200," JSON_VERDICTS("40", "10")
                     JSON_MALFORMED(
                         "0",
                         "0") "\"beyond_copy\":0,\"truncated\":0," JSON_ODD
                              "\"kernel\":{\"offered\":50,\"waiting\":0,\"queue_full\":0,\"user_"
                              "drop\":0,"
                              "\"unseen\":4},\"lost\":0,\"difference\":4,\"reconciled\":false}],"
                              "\"total\":{\"received\":150,\"bytes\":9600," JSON_VERDICTS("130",
                                                                                          "20")
                                  JSON_MALFORMED("1",
                                                 "2") "\"beyond_copy\":0,\"truncated\":0," JSON_ODD
                                                      "\"kernel\":{\"offered\":150,\"waiting\":0,"
                                                      "\"queue_full\":3,\"user_drop\":0,"
                                                      "\"unseen\":4},\"lost\":3,\"difference\":4,"
                                                      "\"reconciled\":false},"
                                                      "\"reconciled\":false}\n");
}

static void unknown_figures_are_not_zero(void **state) {
    struct options options = make_options();
    struct ledger ledger = make_ledger(0, 1000);
    char *report;

    (void)state;
    ledger.known = false;
    ledger.reconciled = false;
    report = report_ledger(&options, REPORT_EXIT, TIME_MS, &ledger, 1, &no_policy);
    assert_non_null(
        strstr(report, "stalled 0\n  kernel: unknown, /proc/net/netfilter/nfnetlink_queue can't be "
                       "read\n  ledger: NOT RECONCILED, the losses are unknown\n"));
    free(report);
    options.json = true;
    report = report_ledger(&options, REPORT_EXIT, TIME_MS, &ledger, 1, &no_policy);
    assert_non_null(strstr(report, "\"kernel\":null,\"lost\":null,\"difference\":0,"
                                   "\"reconciled\":false}],\"total\":{"));
    assert_non_null(strstr(report, "\"kernel\":null,\"lost\":null,\"difference\":0,"
                                   "\"reconciled\":false},\"reconciled\":false}"));
    free(report);
}

static void the_reason_is_named(void **state) {
    struct options options = make_options();
    const struct ledger ledger = make_ledger(0, 10);
    char *report;

    (void)state;
    options.json = true;
    report = report_ledger(&options, REPORT_SIGNAL, TIME_MS, &ledger, 1, &no_policy);
    assert_non_null(strstr(report, "\"reason\":\"signal\""));
    free(report);
    report = report_ledger(&options, REPORT_EXIT, TIME_MS, &ledger, 1, &no_policy);
    assert_non_null(strstr(report, "\"reason\":\"exit\""));
    free(report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_as_text),
        cmocka_unit_test(start_of_paper_as_text),
        cmocka_unit_test(start_as_json),
        cmocka_unit_test(ledger_as_text),
        cmocka_unit_test(every_figure_has_its_place_in_the_text),
        cmocka_unit_test(netlink_alone_is_not_none),
        cmocka_unit_test(several_queues_have_a_total),
        cmocka_unit_test(ledger_as_json),
        cmocka_unit_test(unknown_figures_are_not_zero),
        cmocka_unit_test(the_reason_is_named),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
