// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/requirement.h"

#include <errno.h>
#include <stdlib.h>

/// Search through those chains of a table that packets of one family can reach.
struct search {
    const struct policy_table *table;
    bool ipv6;
    uint32_t found_count;
    uint32_t *found; // indexes of the reached chains, in the order in which they were found
    bool *known;     // for each chain, true if found contains it
    struct requirement requirement;
};

static void require(struct search *search, uint32_t copy_bytes) {
    if (copy_bytes > search->requirement.copy_bytes)
        search->requirement.copy_bytes = copy_bytes;
}

/// Adds layer 4, and all headers before it, to the requirement.
static void require_layer4(struct search *search) {
    require(search, search->ipv6 ? REQUIREMENT_ALL_BYTES : REQUIREMENT_IPV4_L4_BYTES);
    search->requirement.layer4 = true;
}

/// Returns true if the field belongs to HTTP requests, so that each request of a connection has its
/// own value.
static bool is_of_requests(enum policy_field field) {
    return field == POLICY_HTTP_HOST || field == POLICY_HTTP_HOST_EXISTS ||
           field == POLICY_HTTP_METHOD_FIELD;
}

static void require_field(struct search *search, enum policy_field field) {
    const struct policy_field_facts *facts = policy_field_facts(field);

    // Packets of this family never have the field, whatever is copied.
    if (facts->layer3 == (search->ipv6 ? POLICY_NEEDS_IPV4 : POLICY_NEEDS_IPV6))
        return;
    switch (facts->part) {
    case POLICY_PART_IPV4:
        require(search, REQUIREMENT_IPV4_BYTES);
        break;
    case POLICY_PART_IPV6:
        require(search, REQUIREMENT_IPV6_BYTES);
        break;
    case POLICY_PART_EXTENSION:
    case POLICY_PART_TRANSPORT:
        require_layer4(search);
        break;
    case POLICY_PART_TCP_OPTION:
        require_layer4(search);
        require(search, REQUIREMENT_IPV4_OPTION_BYTES);
        break;
    case POLICY_PART_PROTOCOL:
        if (search->ipv6)
            require_layer4(search);
        else
            require(search, REQUIREMENT_IPV4_BYTES);
        break;
    case POLICY_PART_LENGTH:
        require(search, REQUIREMENT_LENGTH_BYTES);
        break;
    case POLICY_PART_INTERFACE_NAME:
        search->requirement.interface_names = true;
        break;
    case POLICY_PART_OWNER:
        search->requirement.uid_gid = true;
        break;
    case POLICY_PART_CT_STATE:
        search->requirement.conntrack_state = true;
        break;
    case POLICY_PART_NAMES:
        require_layer4(search);
        require(search, REQUIREMENT_NAMES_BYTES);
        search->requirement.names = true;
        if (is_of_requests(field))
            search->requirement.requests = true;
        break;
    case POLICY_PART_CT_MARK:
        search->requirement.conntrack_mark = true;
        break;
    case POLICY_PART_META:
        break;
    }
}

static void find(struct search *search, uint32_t chain) {
    if (search->known[chain])
        return;
    search->known[chain] = true;
    search->found[search->found_count++] = chain;
}

static void find_target(struct search *search, const struct policy_target *target) {
    if (target->verdict == POLICY_JUMP || target->verdict == POLICY_GOTO)
        find(search, target->chain_index);
}

/// Adds complete DNS messages to the requirement, if a set learns addresses from them.
static void require_learning(struct search *search, const struct policy_set *set) {
    if (!policy_set_learns(set))
        return;
    require_layer4(search);
    require(search, REQUIREMENT_NAMES_BYTES);
    search->requirement.learns = true;
}

static void require_match(struct search *search, const struct policy_match *match) {
    const struct policy_elements *elements = NULL;

    for (uint32_t i = 0; i < match->key.count; i++)
        require_field(search, match->key.fields[i]);
    if (match->right == POLICY_RIGHT_NAMED) {
        require_learning(search, &search->table->sets[match->set]);
        elements = &search->table->sets[match->set].elements;
    } else if (match->right == POLICY_RIGHT_LITERAL) {
        elements = &match->elements;
    }
    if (elements && elements->targets)
        for (uint32_t i = 0; i < elements->count; i++)
            find_target(search, &elements->targets[i]);
}

static void require_statement(struct search *search, const struct policy_statement *statement) {
    switch (statement->kind) {
    case POLICY_MATCH:
    case POLICY_VMAP:
        require_match(search, statement->match);
        break;
    case POLICY_LIMIT:
        if (statement->limit.of_bytes)
            require(search, REQUIREMENT_LENGTH_BYTES);
        break;
    case POLICY_COUNTER:
    case POLICY_QUOTA:
        require(search, REQUIREMENT_LENGTH_BYTES);
        break;
    case POLICY_MARK_SET:
        if (statement->mark_set->has_map)
            require_match(search, &statement->mark_set->map);
        break;
    case POLICY_VERDICT:
        find_target(search, statement->target);
        break;
    case POLICY_REJECT:
        require(search, REQUIREMENT_ALL_BYTES);
        search->requirement.reject = true;
        if (statement->reject.kind == POLICY_REJECT_TCP_RESET)
            require_layer4(search);
        break;
    case POLICY_LOG:
        break;
    }
}

static void require_chain(struct search *search, const struct policy_chain *chain) {
    for (uint32_t i = 0; i < chain->count; i++)
        for (uint32_t j = 0; j < chain->rules[i].count; j++)
            require_statement(search, &chain->rules[i].statements[j]);
}

/// Adds the requirement of those chains of a table that packets of one family can reach.
static int require_table(struct search *search, const struct policy_table *table) {
    search->table = table;
    search->found_count = 0;
    search->found = malloc((table->chain_count + 1ULL) * sizeof *search->found);
    search->known = calloc(table->chain_count + 1ULL, sizeof *search->known);
    if (search->found && search->known) {
        for (uint32_t i = 0; i < table->chain_count; i++)
            if (table->chains[i].is_base)
                find(search, i);
        for (uint32_t i = 0; i < search->found_count; i++)
            require_chain(search, &table->chains[search->found[i]]);
    }
    const bool done = search->found && search->known;
    free(search->found);
    free(search->known);
    return done ? 0 : -ENOMEM;
}

int requirement_of(const struct policy *policy, bool ipv6, struct requirement *requirement) {
    struct search search = {.ipv6 = ipv6};

    for (uint32_t i = 0; i < policy->table_count; i++) {
        const struct policy_table *table = &policy->tables[i];

        if (table->family == (ipv6 ? POLICY_IP : POLICY_IP6))
            continue;
        if (require_table(&search, table) < 0)
            return -ENOMEM;
    }
    *requirement = search.requirement;
    return 0;
}

bool requirement_reads_names(const struct requirement *requirement) {
    return requirement && (requirement->names || requirement->learns);
}

void requirement_join(struct requirement *requirement, const struct requirement *other) {
    if (other->copy_bytes > requirement->copy_bytes)
        requirement->copy_bytes = other->copy_bytes;
    requirement->layer4 |= other->layer4;
    requirement->uid_gid |= other->uid_gid;
    requirement->conntrack_state |= other->conntrack_state;
    requirement->conntrack_mark |= other->conntrack_mark;
    requirement->interface_names |= other->interface_names;
    requirement->names |= other->names;
    requirement->requests |= other->requests;
    requirement->learns |= other->learns;
    requirement->reject |= other->reject;
}
