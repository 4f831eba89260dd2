// SPDX-License-Identifier: GPL-2.0-or-later
// Benchmark of decisions without kernel and queue. The cases are policies, kinds of clients that
// show a name, and the search for a name among a million names. Without arguments, prints the names
// of the cases. With `CASE`, measures a slice of time for each line on stdin and prints the
// nanoseconds per packet, client or name, so that programs can be compared in turn. With `CASE
// ROUNDS`, executes this number of rounds and prints nothing, so that instructions can be counted.
// The Rust twin's benches/micro.rs does the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"
#include "lookup.h"
#include "names.h"

enum {
    // Duration of an unmeasured run before each slice. It fills the processor's caches, which other
    // programs may have used meanwhile.
    SETTLE_NS = 1000000,
    SLICE_NS = 5000000, // duration of a slice: the measurement for one line on stdin
    SECOND_NS = 1000000000,
    LINE_BYTES = 16,
};

enum task_kind {
    TASK_LIST,   // prints the name of each case
    TASK_SLICES, // measures a case in slices
    TASK_REPEAT, // executes a number of rounds of a case
};

/// Task that the command line requests.
struct task {
    enum task_kind kind;
    const char *asked; // name of the case; NULL for TASK_LIST
    uint32_t rounds;   // number of rounds, for TASK_REPEAT
};

/// Case that is executed: a round decides CASES_PACKETS packets, or the packets of CASES_PACKETS
/// clients, or searches CASES_PACKETS names.
struct rounds {
    uint32_t (*round)(void *subject);
    void *subject;
};

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/// Returns the CPU time of this thread. Unlike elapsed time, it does not grow while other threads
/// run.
static uint64_t cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

/// Executes as many rounds of a case as fit into a time. Each round has CASES_PACKETS packets,
/// clients or names. Returns the CPU time for one of them in nanoseconds.
static double measure(uint64_t time_ns, const struct rounds *rounds) {
    volatile uint32_t done = 0;
    uint64_t count = 0, start = clock_ns(CLOCK_MONOTONIC), cpu_start = cpu_ns();

    while (clock_ns(CLOCK_MONOTONIC) - start < time_ns) {
        done += rounds->round(rounds->subject);
        count++;
    }
    return (double)(cpu_ns() - cpu_start) / (double)(count * CASES_PACKETS);
}

/// Prints the name of a case if the task is a list. Returns true if the task executes the case.
static bool is_of(const struct task *task, const char *name) {
    if (task->kind == TASK_LIST)
        printf("%s\n", name);
    return task->asked && strcmp(task->asked, name) == 0;
}

/// Executes the task for a case.
static void run(const struct task *task, const struct rounds *rounds) {
    volatile uint32_t done = 0;
    char line[LINE_BYTES];

    for (uint32_t i = 0; i < task->rounds; i++)
        done += rounds->round(rounds->subject);
    while (task->kind == TASK_SLICES && fgets(line, sizeof(line), stdin)) {
        measure(SETTLE_NS, rounds);
        printf("%.3f\n", measure(SLICE_NS, rounds));
        fflush(stdout);
    }
}

/// Policy, and the packets that it decides.
struct deciding {
    struct case_subject subject;
    const struct case_load *load;
};

static uint32_t decide_round(void *subject) {
    struct deciding *deciding = subject;

    return cases_decide_all(&deciding->subject, deciding->load);
}

static void run_policies(const struct task *task) {
    static struct case_load load;

    cases_make_load(&load);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        if (!is_of(task, cases[i].name))
            continue;
        struct deciding deciding = {cases_make_subject(&cases[i]), &load};

        run(task, &(struct rounds){decide_round, &deciding});
        cases_free_subject(&deciding.subject);
    }
}

static uint32_t named_round(void *subject) { return names_round(subject); }

static uint32_t lookup_round(void *subject) { return lookups_round(subject); }

static void run_names(const struct task *task) {
    for (size_t i = 0; i < NAMED_CASE_COUNT; i++) {
        if (!is_of(task, named_cases[i].name))
            continue;
        struct named_subject *subject = names_make(&named_cases[i]);

        run(task, &(struct rounds){named_round, subject});
        names_free(subject);
    }
    if (is_of(task, "names-lookup")) {
        struct lookups *lookups = lookups_make();

        run(task, &(struct rounds){lookup_round, lookups});
        lookups_free(lookups);
    }
}

int main(int count, char **words) {
    struct task task = {.kind = TASK_LIST};

    if (count == 2)
        task = (struct task){TASK_SLICES, words[1], 0};
    else if (count == 3)
        task = (struct task){TASK_REPEAT, words[1], (uint32_t)strtoul(words[2], NULL, 10)};
    run_policies(&task);
    run_names(&task);
    return 0;
}
