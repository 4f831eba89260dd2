// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/parse/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/overlap.h"
#include "policy/parse/set.h"

enum {
    TYPES_BYTES = 128, // maximum size of the names of a key's types
};

/// Finds the target chain of a jump or goto, and stores the chain's index. Fails if the table has
/// no chain of this name, or if the chain is a base chain. Does nothing for other verdicts.
static int resolve_target(struct parser *parser, uint32_t table, struct policy_target *target) {
    int64_t known;

    if (target->verdict != POLICY_JUMP && target->verdict != POLICY_GOTO)
        return 0;
    known = parse_find_name(parser, PARSE_CHAIN, table, target->chain, strlen(target->chain));
    if (known == PARSE_NO_NAME)
        return lexer_fail(&parser->lexer, target->place,
                          "\"%s\": no chain of this name in the table", target->chain);
    if (parser->policy.tables[table].chains[known].is_base)
        return lexer_fail(&parser->lexer, target->place,
                          "\"%s\": a base chain, which nothing jumps to", target->chain);
    target->chain_index = (uint32_t)known;
    return 0;
}

/// Finds the target chains of a map's elements, and stores their indexes.
static int resolve_targets(struct parser *parser, uint32_t table,
                           struct policy_elements *elements) {
    for (uint32_t i = 0; elements->targets && i < elements->count; i++) {
        const int status = resolve_target(parser, table, &elements->targets[i]);

        if (status != 0)
            return status;
    }
    return 0;
}

/// Returns the types of a set's fields as in its declaration, joined by ` . `.
static const char *type_names(const struct parse_shape *shape, char text[static TYPES_BYTES]) {
    size_t length = 0;

    for (uint32_t i = 0; i < shape->count; i++)
        length += (size_t)snprintf(text + length, TYPES_BYTES - length, "%s%s", i ? " . " : "",
                                   policy_type_name(shape->types[i]));
    return text;
}

static bool same_shape(const struct parse_shape *a, const struct parse_shape *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->types[i] != b->types[i] || a->bits[i] != b->bits[i])
            return false;
    return true;
}

/// Checks that a set has the types of a match's key, and that it is what the match needs: a set, or
/// a map to verdicts or marks.
static int check_set(struct parser *parser, const struct policy_set *set,
                     const struct policy_match *match, enum policy_maps_to maps_to,
                     struct policy_place place) {
    static const char *const causes[] = {[POLICY_SET] = "a map, and no set",
                                         [POLICY_VERDICT_MAP] = "no map to verdicts",
                                         [POLICY_MARK_MAP] = "no map to marks"};
    const struct parse_shape wanted = parse_elements_shape(&match->key, maps_to, false);
    const struct parse_shape shape = parse_set_shape(set);
    char has[TYPES_BYTES], needs[TYPES_BYTES];

    if (set->maps_to != maps_to)
        return lexer_fail(&parser->lexer, place, "\"%s\": %s", set->name, causes[maps_to]);
    if (same_shape(&shape, &wanted))
        return 0;
    if (strcmp(type_names(&shape, has), type_names(&wanted, needs)) == 0)
        return lexer_fail(&parser->lexer, place,
                          "\"%s\": its fields have other sizes than the key's", set->name);
    return lexer_fail(&parser->lexer, place, "\"%s\": its type is %s, the key's %s", set->name, has,
                      needs);
}

/// Stores the index of the set that a match names, and checks the set's type. For a literal set,
/// finds the chains that the elements name.
static int resolve_match(struct parser *parser, uint32_t table, struct policy_match *match,
                         enum policy_maps_to maps_to) {
    struct policy_place place;
    int64_t known;

    if (match->right == POLICY_RIGHT_LITERAL)
        return resolve_targets(parser, table, &match->elements);
    if (match->right != POLICY_RIGHT_NAMED)
        return 0;
    place = parser->set_places[match->set];
    known = parse_find_name(parser, PARSE_SET, table, match->set_name, strlen(match->set_name));
    if (known == PARSE_NO_NAME)
        return lexer_fail(&parser->lexer, place, "\"%s\": no set or map of this name in the table",
                          match->set_name);
    match->set = (uint32_t)known;
    return check_set(parser, &parser->policy.tables[table].sets[known], match, maps_to, place);
}

/// Finds the sets and chains that a statement names, and stores their indexes.
static int resolve_statement(struct parser *parser, uint32_t table,
                             struct policy_statement *statement) {
    switch (statement->kind) {
    case POLICY_MATCH:
        return resolve_match(parser, table, statement->match, POLICY_SET);
    case POLICY_VMAP:
        return resolve_match(parser, table, statement->match, POLICY_VERDICT_MAP);
    case POLICY_MARK_SET:
        return statement->mark_set->has_map
                   ? resolve_match(parser, table, &statement->mark_set->map, POLICY_MARK_MAP)
                   : 0;
    case POLICY_VERDICT:
        return resolve_target(parser, table, statement->target);
    default:
        return 0;
    }
}

/// Finds the sets and chains that a chain's rules name, and stores their indexes.
static int resolve_chain(struct parser *parser, uint32_t table, struct policy_chain *chain) {
    for (uint32_t i = 0; i < chain->count; i++) {
        for (uint32_t j = 0; j < chain->rules[i].count; j++) {
            const int status = resolve_statement(parser, table, &chain->rules[i].statements[j]);

            if (status != 0)
                return status;
        }
    }
    return 0;
}

/// Finds the sets and chains that a table's sets and rules name, and stores their indexes. Checks
/// the elements of the table's sets.
static int resolve_table(struct parser *parser, uint32_t index) {
    struct policy_table *table = &parser->policy.tables[index];
    int status = 0;

    for (uint32_t i = 0; i < table->set_count && status == 0; i++) {
        struct policy_set *set = &table->sets[i];
        const struct parse_shape shape = parse_set_shape(set);

        status = overlap_check(parser, &shape, &set->elements, set->auto_merge);
        if (status == 0)
            status = resolve_targets(parser, index, &set->elements);
    }
    for (uint32_t i = 0; i < table->chain_count && status == 0; i++)
        status = resolve_chain(parser, index, &table->chains[i]);
    return status;
}

/// Step from one node to another: from a chain to a chain or a verdict map, or from a verdict map
/// to a chain. The nodes are the chains, numbered from 0, then the sets.
struct step {
    uint32_t to;
    struct policy_place place;
};

/// All steps of a table. The steps from node n are steps[starts[n]] to steps[starts[n + 1] - 1].
struct ways {
    struct parser *parser;
    const struct policy_table *table;
    uint32_t nodes;
    uint32_t *starts; // index in steps of each node's first step; one element more than nodes
    uint32_t count;
    struct step *steps;
};

static int add_step(struct ways *ways, uint32_t to, struct policy_place place) {
    struct step *steps = parse_room(ways->parser, ways->steps, ways->count, sizeof *ways->steps);

    if (!steps)
        return -ENOMEM;
    ways->steps = steps;
    steps[ways->count++] = (struct step){to, place};
    return 0;
}

static int add_target(struct ways *ways, const struct policy_target *target) {
    if (target->verdict != POLICY_JUMP && target->verdict != POLICY_GOTO)
        return 0;
    return add_step(ways, target->chain_index, target->place);
}

static int add_targets(struct ways *ways, const struct policy_elements *elements) {
    int status = 0;

    for (uint32_t i = 0; elements->targets && i < elements->count && status == 0; i++)
        status = add_target(ways, &elements->targets[i]);
    return status;
}

static int add_statement(struct ways *ways, const struct policy_statement *statement) {
    if (statement->kind == POLICY_VERDICT)
        return add_target(ways, statement->target);
    if (statement->kind != POLICY_VMAP)
        return 0;
    if (statement->match->right == POLICY_RIGHT_NAMED)
        return add_step(ways, ways->table->chain_count + statement->match->set, statement->place);
    return add_targets(ways, &statement->match->elements);
}

static int add_chain(struct ways *ways, const struct policy_chain *chain) {
    int status = 0;

    for (uint32_t i = 0; i < chain->count; i++)
        for (uint32_t j = 0; j < chain->rules[i].count && status == 0; j++)
            status = add_statement(ways, &chain->rules[i].statements[j]);
    return status;
}

/// Collects the steps of a table: from its chains by jump, goto and vmap, and from the elements of
/// its verdict maps.
static int collect_ways(struct ways *ways) {
    const struct policy_table *table = ways->table;
    uint32_t node = 0;
    int status = 0;

    ways->starts = calloc((size_t)ways->nodes + 1, sizeof *ways->starts);
    if (!ways->starts)
        return parse_no_memory(ways->parser);
    for (uint32_t i = 0; i < table->chain_count && status == 0; i++) {
        status = add_chain(ways, &table->chains[i]);
        ways->starts[++node] = ways->count;
    }
    for (uint32_t i = 0; i < table->set_count && status == 0; i++) {
        status = add_targets(ways, &table->sets[i].elements);
        ways->starts[++node] = ways->count;
    }
    return status;
}

/// Returns the name of the chain or set with a node's number.
static const char *step_name(const struct policy_table *table, uint32_t node) {
    return node < table->chain_count ? table->chains[node].name
                                     : table->sets[node - table->chain_count].name;
}

/// State of a node in the search: not reached, on the current path, or with all its paths followed.
struct node {
    enum { NODE_NEW, NODE_OPEN, NODE_DONE } state;
    uint32_t at; // index of the next step to follow
    // Number of chains on the longest followed path from this node. Includes the node itself only
    // in the state Done, and only if it is a chain.
    uint32_t length;
    uint32_t parent; // previous node on the current path, in the state NODE_OPEN
};

/// Follows all paths from a node. Fails if a path contains a loop or more than POLICY_WAY_MAX
/// chains.
static int walk(struct ways *ways, struct node *nodes, uint32_t root) {
    uint32_t node = root;

    nodes[root].state = NODE_OPEN;
    nodes[root].parent = UINT32_MAX;
    while (node != UINT32_MAX) {
        const uint32_t is_chain = node < ways->table->chain_count;
        const struct step *step;
        struct node *to;

        if (nodes[node].at == ways->starts[node + 1]) {
            nodes[node].state = NODE_DONE;
            nodes[node].length += is_chain;
            node = nodes[node].parent;
            continue;
        }
        step = &ways->steps[nodes[node].at];
        to = &nodes[step->to];
        if (to->state == NODE_OPEN)
            return lexer_fail(&ways->parser->lexer, step->place, "\"%s\": this closes a loop",
                              step_name(ways->table, step->to));
        if (to->state == NODE_NEW) {
            to->state = NODE_OPEN;
            to->parent = node;
            node = step->to;
            continue;
        }
        if (to->length > nodes[node].length)
            nodes[node].length = to->length;
        if (is_chain + nodes[node].length > POLICY_WAY_MAX)
            return lexer_fail(&ways->parser->lexer, step->place,
                              "\"%s\": a way of more than %d chains",
                              step_name(ways->table, step->to), POLICY_WAY_MAX);
        nodes[node].at++;
    }
    return 0;
}

/// Fails if a path through the chains contains a loop or more than POLICY_WAY_MAX chains.
static int check_ways(struct ways *ways) {
    struct node *nodes = calloc((size_t)ways->nodes + 1, sizeof *nodes);
    int status = 0;

    if (!nodes)
        return parse_no_memory(ways->parser);
    for (uint32_t i = 0; i < ways->nodes; i++)
        nodes[i].at = ways->starts[i];
    for (uint32_t i = 0; i < ways->nodes && status == 0; i++)
        if (nodes[i].state == NODE_NEW)
            status = walk(ways, nodes, i);
    free(nodes);
    return status;
}

/// Fails if a chain has a reject statement.
static int check_no_reject(struct ways *ways, const struct policy_chain *chain) {
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct policy_rule *rule = &chain->rules[i];

        for (uint32_t j = 0; j < rule->count; j++)
            if (rule->statements[j].kind == POLICY_REJECT)
                return lexer_fail(&ways->parser->lexer, rule->statements[j].place,
                                  "\"reject\": not in a chain that postrouting reaches");
    }
    return 0;
}

/// Fails if a chain that packets reach from the hook postrouting has a reject statement.
static int check_rejects(struct ways *ways) {
    const struct policy_table *table = ways->table;
    bool *reached = calloc((size_t)ways->nodes + 1, sizeof *reached);
    uint32_t *open = calloc((size_t)ways->nodes + 1, sizeof *open);
    uint32_t count = 0;
    int status = 0;

    if (!reached || !open) {
        status = parse_no_memory(ways->parser);
        goto cleanup;
    }
    for (uint32_t i = 0; i < table->chain_count; i++) {
        if (table->chains[i].is_base && table->chains[i].hook == POLICY_POSTROUTING) {
            reached[i] = true;
            open[count++] = i;
        }
    }
    while (count > 0) {
        const uint32_t node = open[--count];

        for (uint32_t i = ways->starts[node]; i < ways->starts[node + 1]; i++) {
            const uint32_t to = ways->steps[i].to;

            if (!reached[to]) {
                reached[to] = true;
                open[count++] = to;
            }
        }
    }
    for (uint32_t i = 0; i < table->chain_count && status == 0; i++)
        if (reached[i])
            status = check_no_reject(ways, &table->chains[i]);
cleanup:
    free(reached);
    free(open);
    return status;
}

/// Checks the paths through a table's chains: no loops, at most POLICY_WAY_MAX chains, no reject in
/// a chain that the hook postrouting reaches.
static int resolve_ways(struct parser *parser, const struct policy_table *table) {
    struct ways ways = {
        .parser = parser, .table = table, .nodes = table->chain_count + table->set_count};
    int status = collect_ways(&ways);

    if (status == 0)
        status = check_ways(&ways);
    if (status == 0)
        status = check_rejects(&ways);
    free(ways.starts);
    free(ways.steps);
    return status;
}

int resolve_policy(struct parser *parser) {
    int status = 0;

    for (uint32_t i = 0; i < parser->policy.table_count && status == 0; i++) {
        status = resolve_table(parser, i);
        if (status == 0)
            status = resolve_ways(parser, &parser->policy.tables[i]);
    }
    return status;
}
