// SPDX-License-Identifier: GPL-2.0-or-later
// The failure contract: what will really happen in each situation that --fail names, with these
// options, this kernel and these rules, as they were when it was made.
#ifndef STATE_CONTRACT_H
#define STATE_CONTRACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options/options.h"
#include "state/queue_rules.h"

enum {
    CONTRACT_REALLY_BYTES = 192, // of a sentence with its final NUL
};

struct contract_row {
    enum options_situation situation;
    bool open;                          // as --fail says
    char really[CONTRACT_REALLY_BYTES]; // effect of the failure
};

struct contract {
    struct contract_row rows[OPTIONS_SITUATION_COUNT];
};

/// Facts from the kernel.
struct contract_facts {
    uint32_t receive_buffer; // bytes
    bool figures;            // the kernel's counters can be read, so a stall can be seen
    bool guard;              // the guard runs, or none is wanted
};

/// Makes the contract. Pure.
void contract_make(const struct options *options, const struct queue_rules *queue_rules,
                   const struct contract_facts *facts, struct contract *contract);

/// Prints it as a table, a line a situation.
void contract_print(FILE *out, const struct contract *contract);

/// The contract as JSON: an array of {"situation","mode","really"}.
json_t *contract_array(const struct contract *contract);

#endif
