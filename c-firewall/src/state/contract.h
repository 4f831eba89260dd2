// SPDX-License-Identifier: GPL-2.0-or-later
// Failure contract: a table that shows the effect of each failure that --fail names, with the
// options, the kernel and the queue rules at the time when the contract was made.
#ifndef STATE_CONTRACT_H
#define STATE_CONTRACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options/options.h"
#include "state/queue_rules.h"

enum {
    CONTRACT_REALLY_BYTES = 256, // maximum size of the text of a failure's effect, with its NUL
};

struct contract_row {
    enum options_situation situation;
    bool open;                          // mode of --fail: true for open, false for closed
    char really[CONTRACT_REALLY_BYTES]; // effect of the failure, as a sentence
};

struct contract {
    struct contract_row rows[OPTIONS_SITUATION_COUNT];
};

/// Facts about the kernel and the guard on which the failure contract (the effect of each failure
/// of --fail) depends.
struct contract_facts {
    uint32_t receive_buffer; // size of the first queue's receive buffer, in bytes
    // True if the kernel's counters of the queues can be read, so that a stall can be detected.
    bool figures;
    bool guard; // true if the guard runs, or if no guard is wanted
};

/// Computes the effect of each failure that --fail names, and stores it in the contract. Has no
/// side effects.
void contract_make(const struct options *options, const struct queue_rules *queue_rules,
                   const struct contract_facts *facts, struct contract *contract);

/// Prints the contract as a table, one line per failure.
void contract_print(FILE *out, const struct contract *contract);

/// Returns the contract as JSON: an array of {"situation","mode","really"}.
json_t *contract_array(const struct contract *contract);

#endif
