// SPDX-License-Identifier: GPL-2.0-or-later
// What a decision costs, without kernel and queue: prints `NAME NANOSECONDS` for each policy, for
// each kind of client that shows a name, and for a name among a million. With `CASE ROUNDS` it does
// one of them as often as asked for and prints nothing, for who counts instructions. The Rust
// twin's benches/micro.rs does the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"
#include "lookup.h"
#include "names.h"

enum {
    CASE_NS = 60000000, // that a case is measured for, after as long to warm up
    SECOND_NS = 1000000000,
};

/// What is done with a case.
struct task {
    const char *asked; // NULL = it is measured, and its name and nanoseconds are printed
    uint32_t rounds;   // else so many of the case that is asked for are done
};

/// A case that is done: a round of it does as many things as there are packets.
struct rounds {
    uint32_t (*round)(void *subject);
    void *subject;
};

static uint64_t clock_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/// Nanoseconds of each in a round, over as many rounds as fit into CASE_NS.
static double measure(const struct rounds *rounds) {
    volatile uint32_t done = 0;
    uint64_t count = 0, start = clock_ns(), passed;

    do {
        done += rounds->round(rounds->subject);
        count++;
        passed = clock_ns() - start;
    } while (passed < CASE_NS);
    return (double)passed / (double)(count * CASES_PACKETS);
}

/// Whether anything is to be done with a case.
static bool is_asked(const struct task *task, const char *name) {
    return !task->asked || strcmp(task->asked, name) == 0;
}

/// Does what is asked for with a case.
static void run(const struct task *task, const char *name, const struct rounds *rounds) {
    volatile uint32_t done = 0;

    if (!task->asked) {
        measure(rounds);
        printf("%s %.2f\n", name, measure(rounds));
    }
    for (uint32_t i = 0; i < task->rounds; i++)
        done += rounds->round(rounds->subject);
}

/// A policy and the packets that it decides.
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
        if (!is_asked(task, cases[i].name))
            continue;
        struct deciding deciding = {cases_make_subject(&cases[i]), &load};

        run(task, cases[i].name, &(struct rounds){decide_round, &deciding});
        cases_free_subject(&deciding.subject);
    }
}

static uint32_t named_round(void *subject) { return names_round(subject); }

static uint32_t lookup_round(void *subject) { return lookups_round(subject); }

static void run_names(const struct task *task) {
    for (size_t i = 0; i < NAMED_CASE_COUNT; i++) {
        if (!is_asked(task, named_cases[i].name))
            continue;
        struct named_subject *subject = names_make(&named_cases[i]);

        run(task, named_cases[i].name, &(struct rounds){named_round, subject});
        names_free(subject);
    }
    if (is_asked(task, "names-lookup")) {
        struct lookups *lookups = lookups_make();

        run(task, "names-lookup", &(struct rounds){lookup_round, lookups});
        lookups_free(lookups);
    }
}

int main(int count, char **words) {
    struct task task = {0};

    if (count == 3)
        task = (struct task){words[1], (uint32_t)strtoul(words[2], NULL, 10)};
    run_policies(&task);
    run_names(&task);
    return 0;
}
