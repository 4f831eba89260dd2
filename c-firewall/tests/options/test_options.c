// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "options/daemon.h"
#include "test.h"

enum { ARGUMENTS_MAX = 48 };

#define FAIL_TEXT                                                                                  \
    ": expected open or closed, or a list like overload=open,crash=closed of overload, stall, "    \
    "crash, malformed, truncated and unknown"

/// Parses a command line: the program's name, then the words of `line`, which spaces separate.
static int parse(const char *line, struct options *options, struct failure *failure) {
    char *argv[ARGUMENTS_MAX] = {"c-firewall"};
    char words[512];
    int argc = 1;

    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    return options_parse(argc, argv, options, failure);
}

static struct options good(const char *line) {
    struct options options = {0};
    struct failure failure = {.text = ""};
    const int result = parse(line, &options, &failure);

    if (result != OPTIONS_ACTION_RUN)
        print_error("%s: %s\n", line, failure.text);
    assert_int_equal(result, OPTIONS_ACTION_RUN);
    return options;
}

/// Checks that a command line fails with this text and leaves the options untouched.
static void assert_bad(const char *line, const char *text) {
    struct options options, untouched;
    struct failure failure = {.text = ""};

    memset(&options, 0x55, sizeof options);
    memset(&untouched, 0x55, sizeof untouched);
    assert_int_equal(parse(line, &options, &failure), -EINVAL);
    assert_string_equal(failure.text, text);
    assert_int_equal(failure.code, 2);
    assert_memory_equal(&options, &untouched, sizeof options);
}

static void fast_is_the_default(void **state) {
    const struct options options = good("");

    (void)state;
    assert_int_equal(options.queue_first, 0);
    assert_int_equal(options.queue_last, 0);
    assert_false(options.pin);
    assert_int_equal(options.backend, QUEUE_RAW);
    assert_int_equal(options.profile, OPTIONS_FAST);
    assert_int_equal(options.copy_bytes, 128);
    assert_int_equal(options.batch, 64);
    assert_int_equal(options.receive_buffer, 67108864);
    assert_false(options.receive_buffer_asked);
    assert_int_equal(options.queue_length, 131072);
    assert_true(options.gso);
    assert_int_equal(options.spin_us, 50);
    assert_int_equal(options.coalesce_us, 60);
    assert_int_equal(options.default_verdict, VERDICT_ACCEPT);
    assert_int_equal(options.undecided_verdict, VERDICT_ACCEPT);
    assert_int_equal(options.undecided_bytes, 32768);
    assert_int_equal(options.connections, 65536);
    assert_int_equal(options.hello_memory, 33554432);
    assert_int_equal(options.hello_timeout_s, 10);
    assert_int_equal(options.learned, 65536);
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        assert_false(options.fail_open[i]);
    assert_int_equal(options.deadline_ms, 1000);
    assert_int_equal(options.stats_s, 0);
    assert_false(options.json);
    assert_null(options.events);
    assert_int_equal(options.events_rate, 1000);
    assert_int_equal(options.log_level, LOG_INFO);
    assert_null(options.control);
    assert_int_equal(options.control_mode, 0600);
    assert_null(options.control_owner);
    assert_null(options.take_over);
    assert_null(options.user);
    assert_true(options.sandbox);
}

static void paper_sets_its_own(void **state) {
    const struct options options = good("--profile paper");

    (void)state;
    assert_int_equal(options.backend, QUEUE_CLASSIC);
    assert_int_equal(options.profile, OPTIONS_PAPER);
    assert_int_equal(options.copy_bytes, 65535);
    assert_int_equal(options.batch, 1);
    assert_int_equal(options.receive_buffer, 0);
    assert_int_equal(options.queue_length, 1024);
    assert_false(options.gso);
    assert_int_equal(options.coalesce_us, 0);
    assert_int_equal(options.deadline_ms, 0);
    assert_int_equal(options.events_rate, 1000);
    assert_int_equal(options.log_level, LOG_INFO);
    assert_int_equal(options.control_mode, 0600);
    assert_true(options.sandbox);
    assert_int_equal(options_queue(&options, NULL, 0).slot_bytes, UINT64_C(1) << 32);
}

static void what_is_given_goes_before_the_profile(void **state) {
    const struct options options =
        good("--backend mnl --copy-bytes 64 --receive-buffer 5 --queue-length 9 --gso on "
             "--batch 1 --default accept --fail open --profile paper");

    (void)state;
    assert_int_equal(options.backend, QUEUE_MNL);
    assert_int_equal(options.copy_bytes, 64);
    assert_int_equal(options.receive_buffer, 5);
    assert_true(options.receive_buffer_asked);
    assert_int_equal(options.queue_length, 9);
    assert_true(options.gso);
    for (int i = 0; i < OPTIONS_SITUATION_COUNT; i++)
        assert_true(options.fail_open[i]);
    assert_int_equal(good("--profile paper --deadline 500").deadline_ms, 500);
}

static void every_option_is_taken(void **state) {
    const struct options options =
        good("--queue 3:258 --pin --backend=classic --profile fast --copy-bytes 0 --batch 1024 "
             "--receive-buffer 1073741823");
    const struct options others =
        good("--queue-length 4294967295 --gso off --spin 0 --coalesce 1000 --default drop "
             "--fail closed --stats 86400 --json");
    const struct options names =
        good("--policy web.nft --undecided drop --connections 16777216 "
             "--hello-memory 16384 --hello-timeout 3600 --learned 1048576");

    (void)state;
    assert_int_equal(options.queue_first, 3);
    assert_int_equal(options.queue_last, 258);
    assert_true(options.pin);
    assert_int_equal(options.backend, QUEUE_CLASSIC);
    assert_int_equal(options.copy_bytes, 0);
    assert_int_equal(options.batch, 1024);
    assert_int_equal(options.receive_buffer, 1073741823);
    assert_int_equal(others.queue_length, UINT32_MAX);
    assert_false(others.gso);
    assert_int_equal(others.spin_us, 0);
    assert_int_equal(others.coalesce_us, 1000);
    assert_int_equal(others.default_verdict, VERDICT_DROP);
    assert_int_equal(others.stats_s, 86400);
    assert_true(others.json);
    assert_int_equal(names.undecided_verdict, VERDICT_DROP);
    assert_int_equal(names.connections, 16777216);
    assert_int_equal(names.hello_memory, 16384);
    assert_int_equal(names.hello_timeout_s, 3600);
    assert_int_equal(names.learned, 1048576);
}

static void every_option_of_a_daemon_is_taken(void **state) {
    // The values are in arrays of this function, because options point to them. parse() would copy
    // them to a buffer that ends with the call.
    char events[] = "unix:/run/e", control[] = "/run/c";
    char owner[] = "root:adm", old[] = "/run/old", user[] = "twinwall";
    char *argv[] = {
        "c-firewall", "--deadline",      "60000", "--events",    events,  "--events-rate",
        "1000000",    "--log-level",     "debug", "--control",   control, "--control-mode",
        "0777",       "--control-owner", owner,   "--take-over", old,     "--user",
        user,         "--sandbox",       "off",   NULL};
    const int argc = sizeof argv / sizeof *argv - 1;
    struct options options;
    struct failure failure;

    (void)state;
    assert_int_equal(options_parse(argc, argv, &options, &failure), OPTIONS_ACTION_RUN);
    assert_int_equal(options.deadline_ms, 60000);
    assert_string_equal(options.events, events);
    assert_int_equal(options.events_rate, 1000000);
    assert_int_equal(options.log_level, LOG_DEBUG);
    assert_string_equal(options.control, control);
    assert_int_equal(options.control_mode, 0777);
    assert_string_equal(options.control_owner, owner);
    assert_string_equal(options.take_over, old);
    assert_string_equal(options.user, user);
    assert_false(options.sandbox);
    assert_int_equal(good("--deadline 0").deadline_ms, 0);
    assert_int_equal(good("--deadline 10").deadline_ms, 10);
    good("--events -");
    good("--events file");
    assert_int_equal(good("--control /c --control-mode 0").control_mode, 0);
}

/// Checks the text of the failure modes of a command line.
static void assert_modes(const char *line, const char *expected) {
    const struct options options = good(line);
    char text[OPTIONS_FAIL_BYTES];

    assert_string_equal(options_fail_text(&options, text), expected);
}

static void modes_are_for_all_or_by_situation(void **state) {
    const struct options some = good("--fail stall=open,malformed=open,crash=closed");

    (void)state;
    assert_false(some.fail_open[OPTIONS_OVERLOAD]);
    assert_true(some.fail_open[OPTIONS_STALL]);
    assert_false(some.fail_open[OPTIONS_CRASH]);
    assert_true(some.fail_open[OPTIONS_MALFORMED]);
    assert_false(some.fail_open[OPTIONS_TRUNCATED]);
    assert_false(some.fail_open[OPTIONS_UNKNOWN]);
    assert_modes("", "closed");
    assert_modes("--fail open", "open");
    assert_modes("--fail truncated=closed", "closed");
    assert_modes("--fail stall=open,overload=open", "overload=open,stall=open");
    assert_modes("--fail overload=open,stall=open,crash=open,malformed=open,truncated=open,"
                 "unknown=open",
                 "open");
    assert_modes("--fail overload=open,stall=open,crash=open,malformed=open",
                 "overload=open,stall=open,crash=open,malformed=open");
    assert_bad("--fail open,closed", "--fail \"open,closed\"" FAIL_TEXT);
    assert_bad("--fail overload", "--fail \"overload\"" FAIL_TEXT);
    assert_bad("--fail overload=", "--fail \"overload=\"" FAIL_TEXT);
    assert_bad("--fail =open", "--fail \"=open\"" FAIL_TEXT);
    assert_bad("--fail stall=open,", "--fail \"stall=open,\"" FAIL_TEXT);
    assert_bad("--fail stall,x=open", "--fail \"stall,x=open\"" FAIL_TEXT);
    assert_bad("--fail stall=opened", "--fail \"stall=opened\"" FAIL_TEXT);
    assert_bad("--fail stall=open,crash=open,stall=open",
               "--fail \"stall=open,crash=open,stall=open\": stall is given twice: leave one out");
}

static void the_last_value_wins(void **state) {
    (void)state;
    assert_int_equal(good("--queue 1 --queue 2 --queue=3").queue_first, 3);
    assert_int_equal(good("--batch abc --batch 2").batch, 2);
}

static void prefixes_are_taken_if_unambiguous(void **state) {
    (void)state;
    assert_int_equal(good("--bat 7 --rec=5").batch, 7);
    // A complete name, and a prefix of another name.
    assert_int_equal(good("--queue 5").queue_first, 5);
    assert_true(good("--j").json);
    assert_bad("--p", "unknown or ambiguous option --p: see --help");
    assert_bad("--qu 1", "unknown or ambiguous option --qu: see --help");
    assert_bad("--co=1", "unknown or ambiguous option --co: see --help");
}

static void structural_errors(void **state) {
    (void)state;
    assert_bad("--foo", "unknown or ambiguous option --foo: see --help");
    assert_bad("--foo=bar", "unknown or ambiguous option --foo: see --help");
    assert_bad("--=3", "unknown or ambiguous option --: see --help");
    assert_bad("-x", "unknown or ambiguous option -x: see --help");
    assert_bad("-xh", "unknown or ambiguous option -x: see --help");
    assert_bad("--json -q 5", "unknown or ambiguous option -q: see --help");
    assert_bad("--queue", "option --queue needs a value: see --help");
    assert_bad("--json --rec", "option --receive-buffer needs a value: see --help");
    assert_bad("--pin=3", "option --pin takes no value: see --help");
    assert_bad("--pi=", "option --pin takes no value: see --help");
    assert_bad("--help=x", "option --help takes no value: see --help");
    assert_bad("x", "unexpected argument \"x\": see --help");
    assert_bad("-", "unexpected argument \"-\": see --help");
    assert_bad("--json -- --pin", "unexpected argument \"--pin\": see --help");
}

static void structure_is_judged_in_order_and_before_values(void **state) {
    (void)state;
    assert_bad("x --foo", "unexpected argument \"x\": see --help");
    assert_bad("--foo x", "unknown or ambiguous option --foo: see --help");
    assert_bad("--queue abc --foo", "unknown or ambiguous option --foo: see --help");
}

static void help_and_version_act_when_met(void **state) {
    struct options options;
    struct failure failure;

    (void)state;
    assert_int_equal(parse("--help", &options, &failure), OPTIONS_ACTION_HELP);
    assert_int_equal(parse("-h", &options, &failure), OPTIONS_ACTION_HELP);
    assert_int_equal(parse("-V", &options, &failure), OPTIONS_ACTION_VERSION);
    assert_int_equal(parse("--version --help", &options, &failure), OPTIONS_ACTION_VERSION);
    assert_int_equal(parse("-hx", &options, &failure), OPTIONS_ACTION_HELP);
    assert_int_equal(parse("--queue abc --help --foo", &options, &failure), OPTIONS_ACTION_HELP);
    assert_int_equal(parse("--foo --help", &options, &failure), -EINVAL);
}

static void the_help_text_is_the_shared_one(void **state) {
    FILE *file = fopen("../cli/help.txt", "r");
    char text[8192];
    size_t length;

    (void)state;
    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    fclose(file);
    assert_string_equal(options_help, text);
}

#define QUEUE_TEXT ": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"

static void queues_out_of_range(void **state) {
    (void)state;
    assert_bad("--queue abc", "--queue \"abc\"" QUEUE_TEXT);
    assert_bad("--queue=", "--queue \"\"" QUEUE_TEXT);
    assert_bad("--queue 65536", "--queue \"65536\"" QUEUE_TEXT);
    assert_bad("--queue 3:2", "--queue \"3:2\"" QUEUE_TEXT);
    assert_bad("--queue 0:256", "--queue \"0:256\"" QUEUE_TEXT);
    assert_bad("--queue :2", "--queue \":2\"" QUEUE_TEXT);
    assert_bad("--queue 2:", "--queue \"2:\"" QUEUE_TEXT);
    assert_bad("--queue 1:2:3", "--queue \"1:2:3\"" QUEUE_TEXT);
    assert_bad("--queue -1", "--queue \"-1\"" QUEUE_TEXT);
    assert_bad("--queue +1", "--queue \"+1\"" QUEUE_TEXT);
    assert_int_equal(good("--queue 65535").queue_last, 65535);
    assert_int_equal(good("--queue 7:7").queue_last, 7);
}

static void values_out_of_range(void **state) {
    (void)state;
    assert_bad("--backend x", "--backend \"x\": expected classic, mnl or raw");
    assert_bad("--backend RAW", "--backend \"RAW\": expected classic, mnl or raw");
    assert_bad("--profile x", "--profile \"x\": expected fast or paper");
    assert_bad("--copy-bytes 65536",
               "--copy-bytes \"65536\": expected a whole number from 0 to 65535");
    assert_bad("--batch 0", "--batch \"0\": expected a whole number from 1 to 1024");
    assert_bad("--batch 1025", "--batch \"1025\": expected a whole number from 1 to 1024");
    assert_bad("--receive-buffer 1073741824", "--receive-buffer \"1073741824\": expected a whole "
                                              "number from 0 to 1073741823");
    assert_bad("--queue-length 0",
               "--queue-length \"0\": expected a whole number from 1 to 4294967295");
    assert_bad("--queue-length 4294967296",
               "--queue-length \"4294967296\": expected a whole number from 1 to 4294967295");
    assert_bad("--gso yes", "--gso \"yes\": expected on or off");
    assert_bad("--spin 1001", "--spin \"1001\": expected a whole number from 0 to 1000");
    assert_bad("--coalesce 1e2", "--coalesce \"1e2\": expected a whole number from 0 to 1000");
    assert_bad("--default reject", "--default \"reject\": expected accept or drop");
    assert_bad(
        "--undecided accept:1023",
        "--undecided \"accept:1023\": expected accept, drop, or accept:BYTES with at least 1024");
    assert_bad(
        "--undecided drop:2048",
        "--undecided \"drop:2048\": expected accept, drop, or accept:BYTES with at least 1024");
    assert_bad("--stats 0", "--stats \"0\": expected a whole number from 1 to 86400");
    assert_bad("--stats 86401", "--stats \"86401\": expected a whole number from 1 to 86400");
}

static void numbers_are_digits_only(void **state) {
    (void)state;
    assert_bad("--batch=", "--batch \"\": expected a whole number from 1 to 1024");
    assert_bad("--batch +1", "--batch \"+1\": expected a whole number from 1 to 1024");
    assert_bad("--batch 0x10", "--batch \"0x10\": expected a whole number from 1 to 1024");
    assert_bad("--batch 1k", "--batch \"1k\": expected a whole number from 1 to 1024");
    assert_bad("--batch 18446744073709551617",
               "--batch \"18446744073709551617\": expected a whole number from 1 to 1024");
    assert_int_equal(good("--batch 0064").batch, 64);
}

#define EVENTS_TEXT ": expected a file, - or unix:PATH of at most 107 bytes"
#define OWNER_TEXT ": expected USER or USER:GROUP"
#define WITHOUT_POLICY " has no meaning without a policy: add --policy or leave it out"
#define MODE_TEXT ": expected an octal mode from 0 to 0777"
#define DEADLINE_TEXT ": expected 0 or a whole number from 10 to 60000"

static void values_of_a_daemon_out_of_range(void **state) {
    char path[108 + 1], expected[256];
    char *argv[] = {"c-firewall", "--control", path, NULL};
    struct options options;
    struct failure failure;

    (void)state;
    assert_bad("--deadline 9", "--deadline \"9\"" DEADLINE_TEXT);
    assert_bad("--deadline 60001", "--deadline \"60001\"" DEADLINE_TEXT);
    assert_bad("--events=", "--events \"\"" EVENTS_TEXT);
    assert_bad("--events unix:", "--events \"unix:\"" EVENTS_TEXT);
    assert_bad("--events-rate 0", "--events-rate \"0\": expected a whole number from 1 to 1000000");
    assert_bad("--log-level all", "--log-level \"all\": expected error, warning, info or debug");
    assert_bad("--control=", "--control \"\": expected a path of 1 to 107 bytes");
    assert_bad("--control c --control-mode 8", "--control-mode \"8\"" MODE_TEXT);
    assert_bad("--control c --control-mode 1000", "--control-mode \"1000\"" MODE_TEXT);
    assert_bad("--control c --control-mode=", "--control-mode \"\"" MODE_TEXT);
    assert_bad("--control c --control-owner :x", "--control-owner \":x\"" OWNER_TEXT);
    assert_bad("--control c --control-owner x:", "--control-owner \"x:\"" OWNER_TEXT);
    assert_bad("--control c --control-owner x:y:z", "--control-owner \"x:y:z\"" OWNER_TEXT);
    assert_bad("--user=", "--user \"\": expected a user's name");
    assert_bad("--sandbox no", "--sandbox \"no\": expected on or off");

    memset(path, 'p', sizeof path - 1);
    path[108] = '\0';
    snprintf(expected, sizeof expected, "--control \"%.64s...\": expected a path of 1 to 107 bytes",
             path);
    assert_int_equal(options_parse(3, argv, &options, &failure), -EINVAL);
    assert_string_equal(failure.text, expected);
    path[107] = '\0';
    assert_int_equal(options_parse(3, argv, &options, &failure), OPTIONS_ACTION_RUN);
}

static void what_has_no_meaning_alone(void **state) {
    (void)state;
    assert_bad("--events-rate 5", "--events-rate has no meaning without --events: add --events or "
                                  "leave it out");
    assert_bad("--control-mode 600", "--control-mode has no meaning without --control: add "
                                     "--control or leave it out");
    assert_bad("--control-owner root", "--control-owner has no meaning without --control: add "
                                       "--control or leave it out");
    assert_bad("--connections 64", "--connections" WITHOUT_POLICY);
    assert_bad("--learned 64", "--learned" WITHOUT_POLICY);
    assert_bad("--stage 0xffff0000", "--stage" WITHOUT_POLICY);
    assert_bad("--settled 0x80000000", "--settled" WITHOUT_POLICY);
}

static void values_are_judged_in_the_order_of_the_help(void **state) {
    (void)state;
    assert_bad("--stats 0 --backend x --queue y", "--queue \"y\"" QUEUE_TEXT);
    assert_bad("--stats 0 --backend x", "--backend \"x\": expected classic, mnl or raw");
    assert_bad("--batch 5 --fail x --profile paper", "--fail \"x\"" FAIL_TEXT);
}

static void paper_fixes_what_it_is_about(void **state) {
    (void)state;
    assert_bad("--profile paper --batch 2",
               "--profile paper fixes --batch: leave it out or use --profile fast");
    assert_bad("--spin 50 --profile paper",
               "--profile paper fixes --spin: leave it out or use --profile fast");
    assert_bad("--profile paper --coalesce 0",
               "--profile paper fixes --coalesce: leave it out or use --profile fast");
    assert_bad("--profile paper --default drop --coalesce 0 --spin 1 --batch 2",
               "--profile paper fixes --batch: leave it out or use --profile fast");
    assert_bad("--profile paper --default drop",
               "--profile paper accepts every packet: leave --default out or use --profile fast");
    assert_bad("--profile paper --control c",
               "--profile paper does without --control: leave it out or use --profile fast");
    assert_bad("--profile paper --events -",
               "--profile paper does without --events: leave it out or use --profile fast");
    assert_bad("--profile paper --take-over c",
               "--profile paper does without --take-over: leave it out or use --profile fast");
}

static void what_is_quoted_is_printable_and_short(void **state) {
    char long_value[100];
    char *argv[] = {"c-firewall", "--fail", "a\"\\\n\x7f\xff", NULL};
    struct options options;
    struct failure failure;

    (void)state;
    assert_int_equal(options_parse(3, argv, &options, &failure), -EINVAL);
    assert_string_equal(failure.text, "--fail \"a\\x22\\x5c\\x0a\\x7f\\xff\"" FAIL_TEXT);

    memset(long_value, 'y', sizeof long_value);
    long_value[65] = '\0';
    argv[2] = long_value;
    assert_int_equal(options_parse(3, argv, &options, &failure), -EINVAL);
    assert_string_equal(failure.text,
                        "--fail \"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
                        "yyyyyyyyyyyy...\"" FAIL_TEXT);
    long_value[64] = '\0';
    assert_int_equal(options_parse(3, argv, &options, &failure), -EINVAL);
    assert_string_equal(failure.text,
                        "--fail \"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
                        "yyyyyyyyyyyy\"" FAIL_TEXT);
}

static void a_queue_gets_its_settings(void **state) {
    const struct options options =
        good("--queue 4:9 --copy-bytes 100 --batch 32 --receive-buffer 7 --gso off --fail open");
    const struct queue_settings settings = options_queue(&options, NULL, 6);

    (void)state;
    assert_int_equal(settings.number, 6);
    assert_int_equal(settings.kind, QUEUE_RAW);
    assert_int_equal(settings.copy_bytes, 100);
    assert_int_equal(settings.batch, 32);
    assert_int_equal(settings.slot_bytes, 640); // 100 + 512, rounded up to 64
    assert_int_equal(settings.receive_buffer, 7);
    assert_true(settings.receive_buffer_required);
    assert_int_equal(settings.queue_length, 131072);
    assert_false(settings.gso);
    assert_true(settings.fail_open);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_is_the_default),
        cmocka_unit_test(paper_sets_its_own),
        cmocka_unit_test(what_is_given_goes_before_the_profile),
        cmocka_unit_test(every_option_is_taken),
        cmocka_unit_test(every_option_of_a_daemon_is_taken),
        cmocka_unit_test(modes_are_for_all_or_by_situation),
        cmocka_unit_test(values_of_a_daemon_out_of_range),
        cmocka_unit_test(what_has_no_meaning_alone),
        cmocka_unit_test(the_last_value_wins),
        cmocka_unit_test(prefixes_are_taken_if_unambiguous),
        cmocka_unit_test(structural_errors),
        cmocka_unit_test(structure_is_judged_in_order_and_before_values),
        cmocka_unit_test(help_and_version_act_when_met),
        cmocka_unit_test(the_help_text_is_the_shared_one),
        cmocka_unit_test(queues_out_of_range),
        cmocka_unit_test(values_out_of_range),
        cmocka_unit_test(numbers_are_digits_only),
        cmocka_unit_test(values_are_judged_in_the_order_of_the_help),
        cmocka_unit_test(paper_fixes_what_it_is_about),
        cmocka_unit_test(what_is_quoted_is_printable_and_short),
        cmocka_unit_test(a_queue_gets_its_settings),
    };

    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
