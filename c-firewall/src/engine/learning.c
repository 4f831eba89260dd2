// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/learning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/hostnames.h"
#include "engine/learned.h"
#include "engine/set.h"

// Parameters of the 64-bit hash FNV-1a.
#define IDENTITY_BASIS UINT64_C(0xcbf29ce484222325)
#define IDENTITY_PRIME UINT64_C(0x100000001b3)

/// Adds bytes and a final 0 to a hash.
static uint64_t hash(uint64_t hash, const void *bytes, size_t count) {
    const uint8_t *byte = bytes;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * IDENTITY_PRIME;
    return hash * IDENTITY_PRIME;
}

/// Returns the identity of a set's learned addresses: a hash of the table's family and name, the
/// set's name and type, and the names whose addresses the set learns.
static uint64_t identify(const struct policy *policy, const struct policy_table *table,
                         const struct policy_set *set) {
    const char *const words[] = {policy_family_name(table->family), table->name, set->name,
                                 policy_type_name(set->types[0])};
    uint64_t identity = IDENTITY_BASIS;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        identity = hash(identity, words[i], strlen(words[i]));
    for (uint32_t i = 0; i < set->learned.count; i++) {
        const uint32_t id = (uint32_t)set->learned.ranges[i].low;
        size_t length;
        bool wildcard;
        const uint8_t *name = hostname_get(policy->hostnames, id, &length, &wildcard);

        identity = hash(identity, "*", wildcard);
        identity = hash(identity, name, length);
    }
    return identity;
}

int learning_add(struct compiled *out, const struct policy *policy,
                 const struct policy_table *table, const struct policy_set *set) {
    static const struct policy_elements none = {.fields = 1};
    static const enum policy_type hostname = POLICY_HOSTNAME;
    const uint32_t count = set->learned.count;
    struct compile_learning *grown;
    struct policy_range *names;
    struct set found;
    int result;

    if (!policy_set_learns(set))
        return 0;
    grown = compiled_grow(out->learning, out->learning_count, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    out->learning = grown;
    names = malloc(count * sizeof *names);
    for (uint32_t i = 0; names && i < count; i++)
        names[i] = hostnames_interval(&out->hosts, (uint32_t)set->learned.ranges[i].low);
    result = names ? set_make(&found, &hostname, &none, names, count, 0) : -ENOMEM;
    free(names);
    if (result < 0)
        return result;
    grown[out->learning_count] = (struct compile_learning){
        .set = out->set_count - 1,
        .identity = identify(policy, table, set),
        .kernel = {.family = table->family, .is_ipv6 = set->types[0] == POLICY_IPV6_ADDR},
        .names = found.single,
    };
    snprintf(grown[out->learning_count].kernel.table, POLICY_NAME_BYTES, "%s", table->name);
    snprintf(grown[out->learning_count].kernel.name, POLICY_NAME_BYTES, "%s", set->name);
    out->learning_count++;
    return 0;
}

void learning_find(const struct compiled *out, struct compile_op *op) {
    for (uint32_t i = 0; i < out->learning_count; i++) {
        if (out->learning[i].set == op->index) {
            op->kind = COMPILE_LEARNED;
            op->index = i;
            return;
        }
    }
}

void learning_free(struct compiled *compiled) {
    for (uint32_t i = 0; i < compiled->learning_count; i++)
        lookup_free(&compiled->learning[i].names);
    free(compiled->learning);
    learned_free(compiled->learned);
}
