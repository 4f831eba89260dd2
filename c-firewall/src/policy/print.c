// SPDX-License-Identifier: GPL-2.0-or-later
// Theory of operation: each table is printed as one block, unless the declarations of base chains
// alternate between tables. The order of declaration decides which of two base chains with the same
// priority runs first. Therefore such tables are printed in several blocks, which keep this order.
#include "policy/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/value.h"

enum {
    ICMP_PORT_UNREACHABLE = 3,   // code of ICMP type 3 for an unreachable port
    ICMPV6_PORT_UNREACHABLE = 4, // code of ICMPv6 type 1 for an unreachable port
    LEVEL_WARN = 4,              // level of a log without `level`
};

static void print_key(FILE *out, const struct policy_key *key) {
    for (uint32_t i = 0; i < key->count; i++)
        fprintf(out, "%s%s", i > 0 ? " . " : "", policy_field_facts(key->fields[i])->text);
}

void print_range(FILE *out, const struct hostnames *hostnames, enum policy_type type,
                 const struct policy_range *values) {
    if (type != POLICY_HOSTNAME) {
        value_print_range(out, type, values);
        return;
    }
    putc('"', out);
    hostname_put_text(out, hostnames, (uint32_t)values->low);
    putc('"', out);
}

/// Returns the text of a match's operator; "" if the match has the same meaning without an
/// operator.
static const char *op_text(const struct policy_match *match, enum policy_type type) {
    const bool exact = value_is_flags(type) && match->right == POLICY_RIGHT_RANGE;

    switch (match->op) {
    case POLICY_EQ:
        return match->masked || exact ? " ==" : "";
    case POLICY_NE:
        return " !=";
    case POLICY_LT:
        return " <";
    case POLICY_GT:
        return " >";
    case POLICY_LE:
        return " <=";
    case POLICY_GE:
        return " >=";
    default:
        return "";
    }
}

static void print_target(FILE *out, const struct policy_target *target) {
    static const char *const words[] = {
        [POLICY_ACCEPT] = "accept", [POLICY_DROP] = "drop",  [POLICY_CONTINUE] = "continue",
        [POLICY_RETURN] = "return", [POLICY_JUMP] = "jump ", [POLICY_GOTO] = "goto ",
    };

    fprintf(out, "%s%s", words[target->verdict], target->chain);
}

static void print_elements(FILE *out, const struct hostnames *hostnames,
                           const enum policy_type *types, const struct policy_elements *elements) {
    const struct policy_range *range = elements->ranges;

    fputs("{ ", out);
    for (uint32_t i = 0; i < elements->count; i++) {
        fputs(i > 0 ? ", " : "", out);
        for (uint32_t field = 0; field < elements->fields; field++) {
            fputs(field > 0 ? " . " : "", out);
            print_range(out, hostnames, types[field], range++);
        }
        if (elements->targets) {
            fputs(" : ", out);
            print_target(out, &elements->targets[i]);
        }
        if (elements->marks)
            fprintf(out, " : 0x%08" PRIx32, elements->marks[i]);
    }
    fputs(" }", out);
}

/// Prints the right side of a match, or the map of a lookup.
static void print_right(FILE *out, const struct hostnames *hostnames,
                        const struct policy_match *match, const enum policy_type *types) {
    switch (match->right) {
    case POLICY_RIGHT_NAMED:
        fprintf(out, "@%s", match->set_name);
        break;
    case POLICY_RIGHT_LITERAL:
        print_elements(out, hostnames, types, &match->elements);
        break;
    default:
        if (match->op == POLICY_BITS_ANY)
            value_print(out, *types, match->range.low, ",");
        else
            print_range(out, hostnames, *types, &match->range);
    }
}

static void print_match(FILE *out, const struct hostnames *hostnames,
                        const struct policy_match *match) {
    enum policy_type types[POLICY_KEY_FIELDS_MAX] = {0};

    policy_key_types(&match->key, types);
    print_key(out, &match->key);
    if (match->masked) {
        fputs(" & ", out);
        value_print_mask(out, *types, match->mask);
    }
    fprintf(out, "%s ", op_text(match, *types));
    print_right(out, hostnames, match, types);
}

/// Prints a lookup: `KEY map @NAME`, `KEY vmap { … }`.
static void print_map(FILE *out, const struct hostnames *hostnames,
                      const struct policy_match *match, const char *word) {
    enum policy_type types[POLICY_KEY_FIELDS_MAX] = {0};

    policy_key_types(&match->key, types);
    print_key(out, &match->key);
    fprintf(out, " %s ", word);
    print_right(out, hostnames, match, types);
}

static void print_limit(FILE *out, const struct policy_limit *limit) {
    fprintf(out, "limit rate %s%" PRIu64 "%s/%s", limit->over ? "over " : "", limit->rate,
            limit->of_bytes ? " bytes" : "", value_unit_name(limit->unit_s));
    if (!limit->of_bytes)
        fprintf(out, " burst %" PRIu64 " packets", limit->burst);
    else if (limit->burst > 0)
        fprintf(out, " burst %" PRIu64 " bytes", limit->burst);
}

static void print_quota(FILE *out, const struct policy_quota *quota) {
    fprintf(out, "quota %s%" PRIu64 " bytes", quota->over ? "over " : "", quota->bytes);
    if (quota->used > 0)
        fprintf(out, " used %" PRIu64 " bytes", quota->used);
}

static void print_log(FILE *out, const struct policy_log *log) {
    fputs("log", out);
    if (*log->prefix)
        fprintf(out, " prefix \"%s\"", log->prefix);
    if (log->level != LEVEL_WARN)
        fprintf(out, " level %s", value_level_name(log->level));
}

static void print_bits(FILE *out, uint32_t keep, uint32_t toggle) {
    if (keep == 0)
        fprintf(out, "0x%08" PRIx32, toggle);
    else if (toggle == 0)
        fprintf(out, "meta mark & 0x%08" PRIx32, keep);
    else if (toggle == ~keep)
        fprintf(out, "meta mark | 0x%08" PRIx32, toggle);
    else if (keep == UINT32_MAX)
        fprintf(out, "meta mark ^ 0x%08" PRIx32, toggle);
    else
        fprintf(out, "meta mark & 0x%08" PRIx32 " ^ 0x%08" PRIx32, keep, toggle);
}

static void print_mark_set(FILE *out, const struct hostnames *hostnames,
                           const struct policy_mark_set *mark_set) {
    fputs("meta mark set ", out);
    if (mark_set->has_map)
        print_map(out, hostnames, &mark_set->map, "map");
    else
        print_bits(out, mark_set->keep, mark_set->toggle);
}

/// Returns the reject that `reject` without `with` means in a table of this family.
static struct policy_reject default_reject(enum policy_family family) {
    switch (family) {
    case POLICY_IP:
        return (struct policy_reject){POLICY_REJECT_ICMP, ICMP_PORT_UNREACHABLE};
    case POLICY_IP6:
        return (struct policy_reject){POLICY_REJECT_ICMPV6, ICMPV6_PORT_UNREACHABLE};
    default:
        return (struct policy_reject){POLICY_REJECT_ICMPX, POLICY_ICMPX_PORT_UNREACHABLE};
    }
}

static void print_reject(FILE *out, const struct policy_table *table,
                         const struct policy_reject *reject) {
    static const char *const kinds[] = {
        [POLICY_REJECT_TCP_RESET] = "tcp reset",
        [POLICY_REJECT_ICMP] = "icmp",
        [POLICY_REJECT_ICMPV6] = "icmpv6",
        [POLICY_REJECT_ICMPX] = "icmpx",
    };
    const struct policy_reject usual = default_reject(table->family);
    const char *name = value_reject_name(reject->kind, reject->code);

    fputs("reject", out);
    if (reject->kind == usual.kind && reject->code == usual.code)
        return;
    fprintf(out, " with %s", kinds[reject->kind]);
    if (name)
        fprintf(out, " %s", name);
    else if (reject->kind != POLICY_REJECT_TCP_RESET)
        fprintf(out, " %u", reject->code);
}

static void put_statement(FILE *out, const struct hostnames *hostnames,
                          const struct policy_table *table,
                          const struct policy_statement *statement) {
    switch (statement->kind) {
    case POLICY_MATCH:
        print_match(out, hostnames, statement->match);
        break;
    case POLICY_COUNTER:
        fprintf(out, "counter packets %" PRIu64 " bytes %" PRIu64, statement->counter.packets,
                statement->counter.bytes);
        break;
    case POLICY_LIMIT:
        print_limit(out, &statement->limit);
        break;
    case POLICY_QUOTA:
        print_quota(out, &statement->quota);
        break;
    case POLICY_LOG:
        print_log(out, statement->log);
        break;
    case POLICY_MARK_SET:
        print_mark_set(out, hostnames, statement->mark_set);
        break;
    case POLICY_VERDICT:
        print_target(out, statement->target);
        break;
    case POLICY_REJECT:
        print_reject(out, table, &statement->reject);
        break;
    case POLICY_VMAP:
        print_map(out, hostnames, statement->match, "vmap");
        break;
    }
}

static void put_rule(FILE *out, const struct hostnames *hostnames, const struct policy_table *table,
                     const struct policy_rule *rule) {
    for (uint32_t i = 0; i < rule->count; i++) {
        fputs(i > 0 ? " " : "", out);
        put_statement(out, hostnames, table, &rule->statements[i]);
    }
    if (rule->comment)
        fprintf(out, " comment \"%s\"", rule->comment);
}

static void print_chain(FILE *out, const struct hostnames *hostnames,
                        const struct policy_table *table, const struct policy_chain *chain) {
    fprintf(out, "\tchain %s {\n", chain->name);
    if (*chain->comment)
        fprintf(out, "\t\tcomment \"%s\"\n", chain->comment);
    if (chain->is_base)
        fprintf(out, "\t\ttype filter hook %s priority %" PRId32 "; policy %s;\n",
                policy_hook_name(chain->hook), chain->priority,
                chain->policy == POLICY_DROP ? "drop" : "accept");
    for (uint32_t i = 0; i < chain->count; i++) {
        fputs("\t\t", out);
        put_rule(out, hostnames, table, &chain->rules[i]);
        fputc('\n', out);
    }
    fputs("\t}\n", out);
}

static void print_set_type(FILE *out, const struct policy_set *set) {
    fputs("\t\t", out);
    if (set->is_typeof) {
        fputs("typeof ", out);
        print_key(out, &set->key);
    } else {
        for (uint32_t i = 0; i < set->elements.fields; i++)
            fprintf(out, "%s%s", i > 0 ? " . " : "type ", policy_type_name(set->types[i]));
    }
    switch (set->maps_to) {
    case POLICY_VERDICT_MAP:
        fputs(" : verdict\n", out);
        break;
    case POLICY_MARK_MAP:
        fputs(set->is_typeof ? " : meta mark\n" : " : mark\n", out);
        break;
    default:
        fputc('\n', out);
    }
}

static void print_learned(FILE *out, const struct hostnames *hostnames,
                          const struct policy_elements *learned) {
    static const enum policy_type hostname = POLICY_HOSTNAME;

    fputs("\t\tlearn dns ", out);
    if (learned->count == 1)
        print_range(out, hostnames, hostname, learned->ranges);
    else
        print_elements(out, hostnames, &hostname, learned);
    fputc('\n', out);
}

static void print_set(FILE *out, const struct hostnames *hostnames, const struct policy_set *set) {
    fprintf(out, "\t%s %s {\n", set->maps_to == POLICY_SET ? "set" : "map", set->name);
    if (*set->comment)
        fprintf(out, "\t\tcomment \"%s\"\n", set->comment);
    print_set_type(out, set);
    if (set->constant || set->interval)
        fprintf(out, "\t\tflags %s%s%s\n", set->constant ? "constant" : "",
                set->constant && set->interval ? "," : "", set->interval ? "interval" : "");
    if (set->auto_merge)
        fputs("\t\tauto-merge\n", out);
    for (uint32_t i = 0; i < set->listed.file_count; i++)
        fprintf(out, "\t\tfile \"%s\"%s\n", set->listed.files[i].path,
                set->listed.files[i].with_parents ? " with parents" : "");
    if (policy_set_learns(set))
        print_learned(out, hostnames, &set->learned);
    if (set->elements.count > 0) {
        fputs("\t\telements = ", out);
        print_elements(out, hostnames, set->types, &set->elements);
        fputc('\n', out);
    }
    fputs("\t}\n", out);
}

/// Parts of a table that are already printed. opened is true if the comment and the sets are
/// printed; chains is the number of printed chains.
struct printed {
    bool opened;
    uint32_t chains;
};

/// Prints a block with those parts of a table that are not printed yet, up to a chain.
/// - printed: in/out: parts that are already printed.
/// - end: index of the first chain that is not printed.
static void print_block(FILE *out, const struct hostnames *hostnames,
                        const struct policy_table *table, struct printed *printed, uint32_t end) {
    const char *between = "";

    fprintf(out, "table %s %s {\n", policy_family_name(table->family), table->name);
    if (!printed->opened && *table->comment) {
        fprintf(out, "\tcomment \"%s\"\n", table->comment);
        between = "\n";
    }
    for (uint32_t i = 0; !printed->opened && i < table->set_count; i++) {
        fputs(between, out);
        print_set(out, hostnames, &table->sets[i]);
        between = "\n";
    }
    for (uint32_t i = printed->chains; i < end; i++) {
        fputs(between, out);
        print_chain(out, hostnames, table, &table->chains[i]);
        between = "\n";
    }
    fputs("}\n", out);
    *printed = (struct printed){.opened = true, .chains = end};
}

/// Indexes of a base chain (of its table, and in its table), and its position in the order in which
/// the text declares base chains.
struct declared {
    uint32_t declared, table, chain;
};

static int compare_declared(const void *a, const void *b) {
    const uint32_t one = ((const struct declared *)a)->declared;
    const uint32_t other = ((const struct declared *)b)->declared;

    return (one > other) - (one < other);
}

/// Stores the base chains in list, if it is not NULL, in the order of declaration. Returns their
/// number.
static size_t declared_chains(const struct policy *policy, struct declared *list) {
    size_t count = 0;

    for (uint32_t table = 0; table < policy->table_count; table++)
        for (uint32_t i = 0; i < policy->tables[table].chain_count; i++) {
            const struct policy_chain *chain = &policy->tables[table].chains[i];

            if (chain->is_base && list)
                list[count] = (struct declared){chain->declared, table, i};
            count += chain->is_base;
        }
    if (list)
        qsort(list, count, sizeof *list, compare_declared);
    return count;
}

static bool has_base_chain(const struct policy_table *table) {
    for (uint32_t i = 0; i < table->chain_count; i++)
        if (table->chains[i].is_base)
            return true;
    return false;
}

/// Prints the tables from index `from` to index `end` (excluded); nothing of them was printed
/// before. Prints a table without base chains completely. Prints only the name of a table with base
/// chains, because its blocks come later.
static void mention_tables(FILE *out, const struct policy *policy, uint32_t from, uint32_t end) {
    for (uint32_t i = from; i < end; i++) {
        const struct policy_table *table = &policy->tables[i];

        if (has_base_chain(table))
            fprintf(out, "table %s %s\n", policy_family_name(table->family), table->name);
        else
            print_block(out, policy->hostnames, table, &(struct printed){0}, table->chain_count);
    }
}

/// Prints the tables.
/// - list: count base chains in the order of declaration.
/// - printed: zeroed array with an element per table.
/// - last: zeroed array with an element per table; each becomes the index in list of the table's
///   last base chain.
static void print_tables(FILE *out, const struct policy *policy, const struct declared *list,
                         size_t count, struct printed *printed, size_t *last) {
    uint32_t mentioned = 0;

    for (size_t i = 0; i < count; i++)
        last[list[i].table] = i;
    for (size_t i = 0; i < count; i++) {
        const uint32_t index = list[i].table;
        const struct policy_table *table = &policy->tables[index];

        if (i + 1 < count && list[i + 1].table == index)
            continue;
        mention_tables(out, policy, mentioned, index);
        mentioned = mentioned > index ? mentioned : index + 1;
        print_block(out, policy->hostnames, table, &printed[index],
                    last[index] == i ? table->chain_count : list[i].chain + 1);
    }
    mention_tables(out, policy, mentioned, policy->table_count);
}

/// A text that is built in memory.
struct text {
    char *bytes;
    size_t count;
    FILE *out;
};

static bool text_open(struct text *text) {
    *text = (struct text){0};
    text->out = open_memstream(&text->bytes, &text->count);
    return text->out != NULL;
}

/// Closes a text. Returns its bytes, or NULL if there was no memory.
static char *text_close(struct text *text) {
    const bool failed = ferror(text->out);

    if (fclose(text->out) == 0 && !failed)
        return text->bytes;
    free(text->bytes);
    return NULL;
}

char *print_policy(const struct policy *policy) {
    const size_t count = declared_chains(policy, NULL);
    struct declared *list = calloc(count + 1, sizeof *list);
    struct printed *printed = calloc(policy->table_count + 1, sizeof *printed);
    size_t *last = calloc(policy->table_count + 1, sizeof *last);
    char *bytes = NULL;
    struct text text;

    if (!list || !printed || !last || !text_open(&text))
        goto cleanup;
    declared_chains(policy, list);
    if (policy->flush)
        fputs("flush ruleset\n", text.out);
    print_tables(text.out, policy, list, count, printed, last);
    bytes = text_close(&text);

cleanup:
    free(list);
    free(printed);
    free(last);
    return bytes;
}

char *print_rule(const struct policy *policy, const struct policy_table *table,
                 const struct policy_rule *rule) {
    struct text text;

    if (!text_open(&text))
        return NULL;
    put_rule(text.out, policy->hostnames, table, rule);
    return text_close(&text);
}

char *print_value(enum policy_type type, policy_value value) {
    struct text text;

    if (!text_open(&text))
        return NULL;
    value_print(text.out, type, value, ",");
    return text_close(&text);
}
