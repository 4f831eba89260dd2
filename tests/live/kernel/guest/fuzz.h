// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Fuzzers by seed: `guest --fuzz MODULE SEED STEPS`. The action of a step depends only on the seed
/// and the step, so that the same arguments repeat a crash. A fuzzer fails if it receives an
/// impossible reply, makes no progress, or finds that memory isn't returned. The kernel reports all
/// other errors.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/// Returns a stream of random numbers that depends only on the seed and the step.
struct random random_of(uint64_t seed, uint64_t step);
uint32_t random_below(struct random *random, uint32_t limit);
/// Returns true with a probability of 1 in `n`.
bool random_once_in(struct random *random, uint32_t n);
/// Returns a length up to `most`: often one at which behaviour changes, otherwise any.
size_t random_length(struct random *random, size_t most);
void random_fill(struct random *random, void *bytes, size_t length);

/// Runs a fuzzer and prints its result in a line. Returns the exit code.
/// - arguments: MODULE, SEED and STEPS.
int fuzz(char **arguments);
/// Fuzzes the module `echo` with messages.
void fuzz_echo(uint64_t seed, uint64_t steps);
/// Fuzzes the module `message` with processes that use its device and are killed.
void fuzz_message(uint64_t seed, uint64_t steps);
/// Runs one process (actor) of `fuzz_message`: a random, limited number of actions. One actor is
/// one step of the fuzzer.
/// - shared: socket through which actors pass descriptors.
void fuzz_message_actor(struct random random, int shared);
/// Reports the current step. If no step is reported for a long time, the fuzzer counts as stuck.
void fuzz_at(uint64_t step);
