// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Fuzzers by seed: `guest --fuzz MODULE SEED STEPS`. Each step's action depends only on seed and
/// step, so the same three words repeat a crash. A fuzzer fails on an impossible reply, when it
/// makes no progress, or when memory isn't returned; the kernel reports all other errors.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/// Returns a stream that depends only on both numbers.
struct random random_of(uint64_t seed, uint64_t step);
uint32_t random_below(struct random *random, uint32_t limit);
/// Returns true once in `n` times.
bool random_once_in(struct random *random, uint32_t n);
/// Returns a length at which behaviour changes, or any up to `most`.
size_t random_length(struct random *random, size_t most);
void random_fill(struct random *random, void *bytes, size_t length);

/// Parses MODULE, SEED and STEPS, prints the result in a line, and returns the exit code.
int fuzz(char **arguments);
/// Sends messages to the module `echo`.
void fuzz_echo(uint64_t seed, uint64_t steps);
/// Starts processes that use the device of the module `message`, and kills them.
void fuzz_message(uint64_t seed, uint64_t steps);
/// Runs such a process for a limited number of steps.
void fuzz_message_actor(struct random random, int shared);
/// Reports the current step; without reports for long, the fuzzer counts as stuck.
void fuzz_at(uint64_t step);
