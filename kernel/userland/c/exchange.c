// SPDX-License-Identifier: GPL-2.0-or-later
#include "exchange.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define PEERS_MOST 2

static const char *program;
static pid_t peers[PEERS_MOST];

void fail_because(const char *what, const char *why) {
    fprintf(stderr, "error: %s: %s: %s\n", program, what, why);
    exit(1);
}

void fail(const char *what) { fail_because(what, strerror(errno)); }

void exchange_peer(pid_t pid) {
    for (int i = 0; i < PEERS_MOST; i++)
        if (pid == 0)
            peers[i] = 0;
        else if (peers[i] == 0) {
            peers[i] = pid;
            return;
        }
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        fail("clock_gettime");
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/// Returns the CPU time of this process and of its peers, in nanoseconds.
static uint64_t cpu_ns(void) {
    uint64_t sum = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    for (int i = 0; i < PEERS_MOST; i++) {
        clockid_t clock;
        if (peers[i] != 0 && clock_getcpuclockid(peers[i], &clock) == 0)
            sum += clock_ns(clock);
    }
    return sum;
}

static int by_value(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/// Makes an exchange; returns its nanoseconds, as measured by the exchange itself if it can.
static uint64_t time_one(const struct operation *operation) {
    if (operation->timed)
        return operation->timed();
    uint64_t start = clock_ns(CLOCK_MONOTONIC);
    operation->once();
    return clock_ns(CLOCK_MONOTONIC) - start;
}

/// Makes `count` exchanges, if possible without reading the clock between them; returns their
/// nanoseconds.
static uint64_t time_all(const struct operation *operation, size_t count) {
    uint64_t sum = 0, start = clock_ns(CLOCK_MONOTONIC);

    for (size_t i = 0; i < count; i++)
        if (operation->timed)
            sum += operation->timed();
        else
            operation->once();
    return operation->timed ? sum : clock_ns(CLOCK_MONOTONIC) - start;
}

/// Times each exchange separately, and prints percentiles.
static void print_each(const struct operation *operation, size_t count) {
    static const double percentiles[] = {1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9};
    uint64_t *times = malloc(count * sizeof(*times));

    if (times == NULL)
        fail("malloc");
    for (size_t i = 0; i < count; i++)
        times[i] = time_one(operation);
    qsort(times, count, sizeof(*times), by_value);
    printf(", \"percentiles_ns\": [");
    for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
        printf("%s[%g, %" PRIu64 "]", i ? ", " : "", percentiles[i],
               times[(size_t)((double)(count - 1) * percentiles[i] / 100)]);
    printf("]");
    free(times);
}

static size_t number(const char *text, const char *what) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0' || text[0] == '-')
        fail_because(what, "expected a number");
    return value;
}

static int usage(const struct operation *operations) {
    fprintf(stderr, "%s OPERATION BYTES COUNT [--each]; operations:", program);
    for (; operations->name; operations++)
        fprintf(stderr, " %s", operations->name);
    fprintf(stderr, "\n");
    return 2;
}

int exchange_main(int count, char **arguments, const struct operation *operations) {
    const struct operation *operation = operations;

    program = strrchr(arguments[0], '/') ? strrchr(arguments[0], '/') + 1 : arguments[0];
    if (count < 4 || count > 5 || (count == 5 && strcmp(arguments[4], "--each") != 0))
        return usage(operations);
    while (operation->name && strcmp(operation->name, arguments[1]) != 0)
        operation++;
    if (operation->name == NULL)
        return usage(operations);
    size_t bytes = number(arguments[2], "BYTES"), exchanges = number(arguments[3], "COUNT");
    if (exchanges == 0)
        fail_because("COUNT", "expected 1 or more");

    operation->open(bytes);
    /* Warms up caches, the peer, and memory that is touched for the first time. A single long
     * exchange needs no warm-up. */
    time_all(operation, exchanges > 1 ? exchanges / 10 + 1 : 0);
    uint64_t cpu = cpu_ns(), wall = time_all(operation, exchanges);
    cpu = cpu_ns() - cpu;
    printf("{\"operation\": \"%s\", \"bytes\": %zu, \"count\": %zu, \"wall_ns\": %" PRIu64
           ", \"cpu_ns\": %" PRIu64,
           operation->name, bytes, exchanges, wall, cpu);
    if (count == 5)
        print_each(operation, exchanges);
    printf("}\n");
    fflush(stdout);
    operation->close();
    return 0;
}
