// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Fuzzers by seed: `guest --fuzz MODULE SEED STEPS`. What is done in a step follows from seed and
/// step, so a crash is repeated by the same three words. They end as failed when an answer can't be
/// right, when nothing goes on any more, or when memory isn't given back; the rest the kernel says.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/// A stream that follows from both numbers.
struct random random_of(uint64_t seed, uint64_t step);
uint32_t random_below(struct random *random, uint32_t limit);
/// True once in `n` times.
bool random_once_in(struct random *random, uint32_t n);
/// A length at which something changes, or any up to `most`.
size_t random_length(struct random *random, size_t most);
void random_fill(struct random *random, void *bytes, size_t length);

/// Takes MODULE, SEED and STEPS, says in a line how it went, and returns the exit code.
int fuzz(char **arguments);
/// Sends messages to the module `echo`.
void fuzz_echo(uint64_t seed, uint64_t steps);
/// Lets processes use the device of the module `message`, and kills them.
void fuzz_message(uint64_t seed, uint64_t steps);
/// What such a process does, in so many steps at most.
void fuzz_message_actor(struct random random, int shared);
/// Says which step is done; the fuzzer has got stuck if that doesn't happen for long.
void fuzz_at(uint64_t step);
