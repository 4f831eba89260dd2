// SPDX-License-Identifier: GPL-2.0-or-later
// Plays the scripts of packets that both twins share (tests/corpus/vectors/connection.txt), and
// compares the results.
#include "connection/follow.h"
#include "connection/lifetime.h"
#include "connection/listing.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection/table.h"
#include "connections.h"
#include "handover/connections.h"
#include "test.h"
#include "vectors.h"

enum {
    DATA_MAX = 96, // maximum number of named pieces of data
    NAME_BYTES = 32,
    PACKET_BYTES = 65536,
    TEXT_BYTES = 1024,
    OPTIONS_MAX = 8,
    CLIENT = 1,
    SERVER = 2,
    SECOND_NS = 1000000000,
};

struct data {
    char name[NAME_BYTES];
    uint8_t *bytes;
    size_t length;
};

/// Step of a script: a packet, by its parts.
struct step {
    bool from_client;
    const char *flags;
    uint32_t sequence;
    uint32_t acknowledged;
    const uint8_t *data;
    size_t length;
    char *options[OPTIONS_MAX];
    size_t option_count;
};

/// State of a script that is being played.
struct play {
    struct data data[DATA_MAX];
    size_t data_count;
    struct connection_settings settings;
    struct connections connections;
    bool is_made;
    struct followed last;
    // True if expected is known: the sequence number that the receiver of the last packet expects.
    bool is_expected;
    uint32_t expected;
    bool decides; // true if names may depend on the bytes of the last packet
    struct connection_input input;
    bool is_upgraded; // true if another firewall takes over before each packet
};

static uint32_t option(const struct step *step, const char *key, uint32_t otherwise) {
    for (size_t i = 0; i < step->option_count; i++) {
        const size_t length = strlen(key);

        if (strncmp(step->options[i], key, length) == 0 && step->options[i][length] == '=')
            return (uint32_t)strtoul(step->options[i] + length + 1, NULL, 10);
    }
    return otherwise;
}

/// Returns the interface that a step's option names: a number, or CONNECTION_INTERFACE_UNKNOWN for
/// `?`. Without the option returns CONNECTION_INTERFACE_HOST, which stands for this host.
static uint32_t interface(const struct step *step, const char *key) {
    for (size_t i = 0; i < step->option_count; i++) {
        const size_t length = strlen(key);

        if (strncmp(step->options[i], key, length) == 0 &&
            strcmp(step->options[i] + length, "=?") == 0)
            return CONNECTION_INTERFACE_UNKNOWN;
    }
    return option(step, key, CONNECTION_INTERFACE_HOST);
}

/// Returns the data with a name. Creates it if it does not exist.
static struct data *data_of(struct play *play, const char *name, size_t length) {
    for (size_t i = 0; i < play->data_count; i++) {
        struct data *data = &play->data[i];

        if (strlen(data->name) == length && memcmp(data->name, name, length) == 0)
            return data;
    }
    assert_true(play->data_count < DATA_MAX && length < NAME_BYTES);
    memcpy(play->data[play->data_count].name, name, length);
    return &play->data[play->data_count++];
}

static void append(struct data *data, unsigned int byte) {
    data->bytes = realloc(data->bytes, data->length + 1);
    data->bytes[data->length++] = (uint8_t)byte;
}

/// Appends a value to the data with a name.
/// - text: NAME VALUE. The value is hex digits (is_hex), or text with the escapes \r, \n and \xNN.
static void take_data(struct play *play, const char *text, bool is_hex) {
    const char *at = strchr(text, ' ');
    struct data *data = data_of(play, text, (size_t)(at - text));
    unsigned int byte;

    for (at++; *at; at++) {
        if (is_hex || (at[0] == '\\' && at[1] == 'x')) {
            at += is_hex ? 0 : 2;
            assert_int_equal(sscanf(at, "%2x", &byte), 1);
            append(data, byte);
            at++;
        } else if (*at == '\\') {
            at++;
            append(data, *at == 'r' ? '\r' : '\n');
        } else {
            append(data, (unsigned char)*at);
        }
    }
}

/// Appends a byte several times to the data with a name.
/// - text: NAME BYTE COUNT. BYTE has two hex digits.
static void repeat_data(struct play *play, const char *text) {
    const char *at = strchr(text, ' ');
    struct data *data = data_of(play, text, (size_t)(at - text));
    unsigned int byte;
    size_t count;

    assert_int_equal(sscanf(at, " %2x %zu", &byte, &count), 2);
    for (size_t i = 0; i < count; i++)
        append(data, byte);
}

/// Stores a pointer to the data that a step's word names in the step.
/// - text: the word: `-` (none), NAME, or NAME[FROM:TO] (offsets of the first byte and after the
///   last byte).
static void name_data(struct play *play, const char *text, struct step *step) {
    const char *part = strchr(text, '[');
    const size_t length = part ? (size_t)(part - text) : strlen(text);
    const struct data *data;
    size_t from = 0, to;

    if (strcmp(text, "-") == 0)
        return;
    data = data_of(play, text, length);
    to = data->length;
    assert_true(to > 0);
    if (part) {
        const char *colon = strchr(part, ':');

        from = strtoul(part + 1, NULL, 10);
        if (colon[1] != ']')
            to = strtoul(colon + 1, NULL, 10);
    }
    step->data = data->bytes + from;
    step->length = to - from;
}

/// Adds bytes to a checksum's sum (RFC 1071). In all calls but the last, their number must be even.
static uint32_t sum(uint32_t total, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        total += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    return total;
}

static void put16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

/// Writes the header and data of layer 4, without a checksum. Returns their length in bytes.
static size_t put_layer4(const struct step *step, uint8_t *at, bool is_udp) {
    static const char letters[] = "FSRPAU";
    const uint32_t client = option(step, "port", 40000), server = option(step, "dport", 443);
    const size_t header = is_udp ? 8 : 20;

    memset(at, 0, header);
    put16(at, step->from_client ? client : server);
    put16(at + 2, step->from_client ? server : client);
    memcpy(at + header, step->data ? step->data : at, step->length);
    if (is_udp) {
        put16(at + 4, option(step, "length", (uint32_t)step->length) + (uint32_t)header);
        return header + step->length;
    }
    put32(at + 4, step->sequence);
    put32(at + 8, step->acknowledged);
    at[12] = (uint8_t)((header + option(step, "options", 0)) / 4 << 4);
    for (size_t i = 0; letters[i]; i++)
        at[13] |= strchr(step->flags, letters[i]) ? (uint8_t)(1 << i) : 0;
    put16(at + 14, 0xffff);
    return header + step->length;
}

/// Writes the packet of a step. Returns its length in bytes.
static size_t put_packet(const struct step *step, uint8_t *packet) {
    const bool is_udp = strcmp(step->flags, "udp") == 0, is_ipv6 = option(step, "ip", 4) == 6;
    const uint8_t protocol = is_udp ? IPPROTO_UDP : IPPROTO_TCP;
    const uint8_t client = (uint8_t)option(step, "client", CLIENT);
    const size_t address = is_ipv6 ? 16 : 4, header = is_ipv6 ? 40 : 20;
    const size_t body = put_layer4(step, packet + header, is_udp);
    const uint8_t pseudo[] = {0, protocol, (uint8_t)(body >> 8), (uint8_t)body};
    uint8_t *ends = packet + (is_ipv6 ? 8 : 12);
    uint32_t total;

    memset(packet, 0, header);
    if (is_ipv6) {
        packet[0] = 0x60;
        put16(packet + 4, (uint32_t)body);
        packet[6] = protocol;
        packet[7] = 64;
    } else {
        packet[0] = 0x45;
        put16(packet + 2, (uint32_t)(body + header));
        packet[5] = 1;
        put16(packet + 6, option(step, "fragment", 0));
        packet[8] = 64;
        packet[9] = protocol;
    }
    ends[0] = ends[address] = 0x20;
    ends[address - 1] = step->from_client ? client : SERVER;
    ends[2 * address - 1] = step->from_client ? SERVER : client;
    total = sum(sum(sum(0, ends, 2 * address), pseudo, sizeof pseudo), packet + header, body);
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    total = (~total & 0xffff) ^ option(step, "spoil", 0);
    if (option(step, "unsummed", 0))
        total = 0;
    put16(packet + header + (is_udp ? 6 : 16), total);
    return header + body;
}

/// Writes the packet of a step: its data if they are the whole packet. Returns its length in bytes.
static size_t put_step(const struct step *step, uint8_t *packet) {
    if (strcmp(step->flags, "packet") != 0)
        return put_packet(step, packet);
    memcpy(packet, step->data, step->length);
    return step->length;
}

static void names_text(const struct names *names, char text[static TEXT_BYTES]) {
    static const char *const states[] = {"nothing", "undecided", "known", "unreadable"};
    static const char *const protocols[] = {"other", "tls", "quic", "http", "dns"};
    int length = snprintf(text, TEXT_BYTES, "%s", states[names->state]);

    if (names->state == NAMES_KNOWN)
        length +=
            snprintf(text + length, TEXT_BYTES - (size_t)length, " %s", protocols[names->protocol]);
    if (names->state == NAMES_KNOWN && names->host_length > 0)
        snprintf(text + length, TEXT_BYTES - (size_t)length, " %.*s", names->host_length,
                 (const char *)names->host);
}

/// Writes the result for the last packet (none, denied, or its names) to `text`, in the words of
/// the scripts.
static void told(const struct play *play, char text[static TEXT_BYTES]) {
    switch (play->last.kind) {
    case FOLLOWED_NONE:
        strcpy(text, "none");
        break;
    case FOLLOWED_DENIED:
        strcpy(text, "denied");
        break;
    case FOLLOWED_NAMES:
        names_text(connection_names(&play->connections, &play->last), text);
        if (play->last.slot == CONNECTION_SLOT_NONE)
            strcat(text, " alone");
    }
}

/// Appends a count that is not 0.
static void put_count(char text[static TEXT_BYTES], const char *group, const char *key,
                      uint64_t count) {
    const size_t length = strlen(text);

    if (count > 0)
        snprintf(text + length, TEXT_BYTES - length, "%s%s%s=%llu", length ? " " : "", group, key,
                 (unsigned long long)count);
}

/// Writes the counters that are not 0 to `text`, in the words of the scripts.
static void counts_text(const struct connection_counts *counts, char text[static TEXT_BYTES]) {
    static const char *const lists[] = {"opening",   "showing", "settling", "known",
                                        "datagrams", "closing", "silent"};
    static const char *const protocols[] = {"other", "tls", "quic", "http", "dns"};
    static const char *const causes[] = {"midstream", "ambiguous", "gaps",     "pool",
                                         "timeout",   "cut",       "fragment", "checksum",
                                         "parse",     "interface", "bound"};

    text[0] = '\0';
    put_count(text, "", "opened", counts->opened);
    for (size_t i = 0; i < CONNECTION_LIST_COUNT; i++)
        put_count(text, "now.", lists[i], counts->now[i]);
    for (size_t i = 0; i < CONNECTION_PROTOCOL_COUNT; i++)
        put_count(text, "decided.", protocols[i], counts->decided[i]);
    put_count(text, "", "denied", counts->denied);
    put_count(text, "", "evasion", counts->evasion);
    for (size_t i = 0; i < CONNECTION_CAUSE_COUNT; i++)
        put_count(text, "unreadable.", causes[i], counts->unreadable[i]);
    for (size_t i = 0; i < CONNECTION_LIST_COUNT; i++)
        put_count(text, "evicted.", lists[i], counts->evicted[i]);
    put_count(text, "", "unknown_version", counts->unknown_version);
}

/// Starts a script with an empty table.
static void begin(struct play *play) {
    if (play->is_made)
        connection_free(&play->connections);
    play->is_made = false;
    play->settings = (struct connection_settings){16, 65536, 10ULL * SECOND_NS, 8192};
    play->input = (struct connection_input){.generation = 1, .asks_requests = true};
    play->last = (struct followed){FOLLOWED_NONE, CONNECTION_SLOT_NONE};
}

static struct connections *made(struct play *play) {
    if (!play->is_made) {
        assert_int_equal(connection_make(&play->connections, &play->settings), 0);
        // The hash key is fixed, so that it does not depend on chance which clients share a place
        // in the table.
        play->connections.table.key = (struct siphash_key){{0}};
    }
    play->is_made = true;
    return &play->connections;
}

/// Writes the page of the connection listing that begins at a slot of the table to `text`, in the
/// words of the scripts.
static void listed_text(struct play *play, uint32_t from, bool undecided,
                        char text[static TEXT_BYTES]) {
    static const char *const states[] = {"undecided", "named", "missing", "denied", "unknown"};
    static const char *const protocols[] = {"other", "tls", "quic", "http", "dns"};
    static struct listing_page page;
    size_t length = 0;

    page.from = from;
    page.undecided = undecided;
    listing_fill(made(play), play->input.generation, play->input.now_ns, &page);
    text[0] = '\0';
    for (uint32_t i = 0; i < page.count; i++) {
        const struct listed *listed = &page.listed[i];

        length += (size_t)snprintf(
            text + length, TEXT_BYTES - length, "%s%s %s %u%s%.*s", i > 0 ? ", " : "",
            states[listed->state], protocols[listed->protocol],
            (unsigned)(listed->age_ns / SECOND_NS), listed->host_length > 0 ? " " : "",
            listed->host_length, (const char *)listed->host);
    }
    if (page.next != CONNECTION_SLOT_NONE)
        snprintf(text + length, TEXT_BYTES - length, "; next %u", page.next);
}

/// Replaces the table by another table, to which the connections are handed over as in an upgrade.
/// Copies the state that an upgrade does not transfer: counts, the next check for expired
/// connections, policies' verdicts on connections, and caches.
static void hand_over(struct play *play) {
    struct connections old = play->connections, *new;
    const uint64_t now_ns = play->input.now_ns;
    struct handover_connections_taken followed;
    size_t length, length_again;
    uint8_t *bytes, *again;

    if (!play->is_made)
        return;
    bytes = connections_written(&old, UINT64_MAX, now_ns, &length);
    play->is_made = false;
    new = made(play);
    assert_null(handover_connections_parse(bytes, length, new, now_ns, &followed));
    again = connections_written(new, UINT64_MAX, now_ns, &length_again);
    assert_int_equal(length, length_again);
    assert_memory_equal(bytes, again, length);
    new->counts = old.counts;
    new->expire_ns = old.expire_ns;
    for (uint32_t slot = 0; slot < new->table.used; slot++) {
        struct connection *connection = &new->table.slots[slot];
        const uint32_t found = connection_table_find(
            &old.table, &connection->key, connection_table_hash(&old.table, &connection->key));
        const struct connection *before = connection_table_at(&old.table, found);

        connection->denied = before->denied;
        connection->is_reset = before->is_reset;
        connection->cache = before->cache;
    }
    free(bytes);
    free(again);
    connection_free(&old);
}

static void set(struct play *play, const char *text) {
    const char *value = strchr(text, ' ') + 1;
    const uint32_t number = (uint32_t)strtoul(value, NULL, 10);

    if (strncmp(text, "memory ", 7) == 0)
        play->settings.hello_bytes = number;
    else if (strncmp(text, "undecided ", 10) == 0)
        play->settings.undecided_bytes = number;
    else if (strncmp(text, "at ", 3) == 0)
        play->input.now_ns = (uint64_t)number * SECOND_NS;
    else if (strncmp(text, "generation ", 11) == 0)
        play->input.generation = number;
    else if (strncmp(text, "asks-requests ", 14) == 0)
        play->input.asks_requests = number;
    else
        fail_msg("no setting: %s", text);
}

/// Sends the packet of a step: the words FLAGS SEQUENCE ACKNOWLEDGED DATA OPTIONS.
/// - text: out: results for the packet, one for each DNS query or HTTP request in it, in the words
///   of the scripts.
static void send_step(struct play *play, bool from_client, char *words,
                      char text[static TEXT_BYTES]) {
    static uint8_t room[PACKET_BYTES];
    struct connection_input input = play->input;
    struct step step = {.from_client = from_client};
    char *rest, *word = strtok_r(words, " ", &rest);
    struct packet packet;
    uint8_t *captured;
    size_t length, cut;

    step.flags = word;
    step.sequence = (uint32_t)strtoul(strtok_r(NULL, " ", &rest), NULL, 10);
    step.acknowledged = (uint32_t)strtoul(strtok_r(NULL, " ", &rest), NULL, 10);
    name_data(play, strtok_r(NULL, " ", &rest), &step);
    while ((word = strtok_r(NULL, " ", &rest)) && step.option_count < OPTIONS_MAX)
        step.options[step.option_count++] = word;
    length = put_step(&step, room);
    cut = option(&step, "cut", 0);
    // The packet is in a block of exactly its size, so that a sanitizer detects a read after its
    // end.
    captured = malloc(length - cut);
    memcpy(captured, room, length - cut);
    packet_parse(captured, (uint32_t)(length - cut), (uint32_t)length, &packet);
    input.segmented = option(&step, "segmented", 0) == 1;
    input.source_interface = interface(&step, "in");
    input.sink_interface = interface(&step, "out");
    if (option(&step, "verified", 0))
        input.checksum = CONNECTION_CHECKSUM_VERIFIED;
    if (option(&step, "pending", 0))
        input.checksum = CONNECTION_CHECKSUM_NOT_READY;
    if (play->is_upgraded)
        hand_over(play);
    play->last = connection_follow(made(play), &packet, &input);
    play->is_expected =
        connection_expected(&play->connections, &play->last, &packet, &play->expected);
    play->decides = connection_decides(&play->connections, &play->last, &packet);
    free(captured);
    told(play, text);
    while (connection_next(&play->connections)) {
        char next[TEXT_BYTES];

        told(play, next);
        assert_true(strlen(text) + strlen(next) + 3 < TEXT_BYTES);
        strcat(strcat(text, ", "), next);
    }
}

/// Plays a line of a script. Returns true if the caller must compare text with *expected.
static bool play_line(struct play *play, char *line, char text[static TEXT_BYTES],
                      const char **expected) {
    char *arrow = strstr(line, " -> ");
    char *rest = strchr(line, ' ');
    struct connection_counts counts;
    struct connection_cache *cache;

    if (line[0] == '\0' || line[0] == '#')
        return false;
    assert_non_null(rest);
    *rest++ = '\0';
    if (arrow)
        *arrow = '\0';
    *expected = arrow ? arrow + 4 : rest;
    if (strcmp(line, "name") == 0) {
        begin(play);
    } else if (strcmp(line, "data") == 0 || strcmp(line, "hex") == 0) {
        take_data(play, rest, line[0] == 'h');
    } else if (strcmp(line, "hexrepeat") == 0) {
        repeat_data(play, rest);
    } else if (strcmp(line, "set") == 0) {
        set(play, rest);
    } else if (strcmp(line, "deny") == 0) {
        connection_deny(made(play), &play->last, strtoul(rest, NULL, 10),
                        strstr(rest, " reset") != NULL);
    } else if (strcmp(line, "abandon") == 0) {
        lifetime_abandon_all(made(play), play->input.now_ns);
    } else if (strcmp(line, "reset") == 0) {
        snprintf(text, TEXT_BYTES, "none");
        if (play->is_expected && connection_is_reset(made(play), &play->last))
            snprintf(text, TEXT_BYTES, "%u", play->expected);
        return true;
    } else if (strcmp(line, "cache") == 0) {
        cache = connection_cache(made(play), &play->last);
        assert_non_null(cache);
        cache->generation = strtoul(rest, NULL, 10);
    } else if (strcmp(line, "final") == 0) {
        snprintf(text, TEXT_BYTES, "%s",
                 connection_is_settled(made(play), &play->last)  ? "both"
                 : connection_is_answer(made(play), &play->last) ? "one"
                                                                 : "no");
        return true;
    } else if (strcmp(line, "decides") == 0) {
        snprintf(text, TEXT_BYTES, "%s", play->decides ? "yes" : "no");
        return true;
    } else if (strncmp(line, "list", 4) == 0) {
        if (play->is_upgraded)
            return false; // another firewall has them at other places
        listed_text(play, (uint32_t)strtoul(rest, NULL, 10), strcmp(line, "list-undecided") == 0,
                    text);
        return true;
    } else if (strcmp(line, "cached") == 0) {
        cache = connection_cache(made(play), &play->last);
        snprintf(text, TEXT_BYTES, "none");
        if (cache)
            snprintf(text, TEXT_BYTES, "%llu", (unsigned long long)cache->generation);
        return true;
    } else if (strcmp(line, "counts") == 0) {
        counts = connection_counts(made(play));
        counts_text(&counts, text);
        return true;
    } else {
        assert_true(strcmp(line, ">") == 0 || strcmp(line, "<") == 0);
        send_step(play, line[0] == '>', rest, text);
        return true;
    }
    return false;
}

static void play_all(bool is_upgraded) {
    FILE *file = vectors_open("connection.txt");
    static struct play play;
    size_t size = 0, steps = 0, wrong = 0, number = 0;
    char *line = NULL;

    begin(&play);
    play.is_upgraded = is_upgraded;
    while (getline(&line, &size, file) >= 0) {
        char text[TEXT_BYTES];
        const char *expected = "";

        number++;
        line[strcspn(line, "\n")] = '\0';
        if (!play_line(&play, line, text, &expected))
            continue;
        steps++;
        if (strcmp(text, expected) == 0)
            continue;
        print_error("line %zu: %s\n  got %s\n", number, expected, text);
        wrong++;
    }
    free(line);
    fclose(file);
    begin(&play);
    for (size_t i = 0; i < play.data_count; i++)
        free(play.data[i].bytes);
    play = (struct play){0};
    assert_int_equal(wrong, 0);
    assert_true(steps > 200);
}

static void every_script_goes_as_it_says(void **state) {
    (void)state;
    play_all(false);
}

static void every_script_goes_as_it_says_over_upgrades(void **state) {
    (void)state;
    play_all(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_script_goes_as_it_says),
        cmocka_unit_test(every_script_goes_as_it_says_over_upgrades),
    };

    return cmocka_run_group_tests_name("follow", tests, NULL, NULL);
}
