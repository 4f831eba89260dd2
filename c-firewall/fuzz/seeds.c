// SPDX-License-Identifier: GPL-2.0-or-later
// Program that writes test vectors as first inputs of the fuzzers. `seeds FOLDER` writes
// FOLDER/netlink/NAME, FOLDER/packet/NAME, FOLDER/print/NAME, FOLDER/names/NAME,
// FOLDER/server/NAME, FOLDER/handover/KIND-NUMBER and FOLDER/comment/NUMBER in the form that each
// target reads.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lines.h"
#include "names.h"
#include "vectors.h"

static FILE *create(const char *folder, const char *target, const char *name) {
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
    file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    return file;
}

static void make_folder(const char *folder, const char *target) {
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, target);
    mkdir(path, 0777);
}

static void write_netlink(const char *folder, const struct vector *vector) {
    FILE *file = create(folder, "netlink", vector->name);

    fwrite(vector->bytes, 1, vector->received, file);
    fclose(file);
}

static void write_packet(const char *folder, const struct vector *vector) {
    const size_t more =
        vector->original > vector->length ? (vector->original - vector->length) / 4 : 0;
    const uint8_t prefix[] = {0, 0, (uint8_t)more, (uint8_t)(more >> 8)};
    FILE *file = create(folder, "packet", vector->name);

    fwrite(prefix, 1, sizeof prefix, file);
    fwrite(vector->bytes, 1, vector->length, file);
    fclose(file);
}

/// Writes an input: metadata with a TLS client whose highest version, 0x0305, has no name, and then
/// a packet.
static void write_print(const char *folder, const struct vector *vector) {
    const uint8_t known[100] = {[1] = 0x10, [74] = 2, [75] = 1, [77] = 0x05, [78] = 0x03};
    FILE *file = create(folder, "print", vector->name);

    fwrite(known, 1, sizeof known, file);
    fwrite(vector->bytes, 1, vector->length, file);
    fclose(file);
}

/// Writes an input: the index of a parser of names in names_asks, and then the bytes of the
/// parser's vector.
static void write_names(const char *folder, const struct vector *vector) {
    FILE *file = create(folder, "names", vector->name);

    for (int i = 0; i < NAMES_ASKS; i++) {
        if (strcmp(names_asks[i], vector->ask) == 0)
            fputc(i, file);
    }
    fwrite(vector->bytes, 1, vector->length, file);
    fclose(file);
}

static void write_server(const char *folder, const struct vector *vector) {
    FILE *file = create(folder, "server", vector->name);

    fwrite(vector->bytes, 1, vector->length, file);
    fclose(file);
}

/// Writes pairs of hexadecimal digits as bytes.
static void write_hex(const char *digits, FILE *file) {
    unsigned int byte;

    for (; sscanf(digits, "%2x", &byte) == 1; digits += 2)
        fputc((int)byte, file);
}

/// Writes an input for each line of a file that begins with a keyword: the byte `first`, then the
/// rest of the line (decoded from hexadecimal digits unless `first` is 0).
static void write_lines(const char *folder, const char *name, const char *keyword, char first) {
    FILE *file = vectors_open(name);
    const size_t length = strlen(keyword);
    char *line = NULL, number[32];
    size_t room = 0;

    make_folder(folder, "handover");
    for (int i = 0; getline(&line, &room, file) > 0; i++) {
        FILE *seed;

        if (strncmp(line, keyword, length) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(number, sizeof number, "%d-%d", first, i);
        seed = create(folder, "handover", number);
        fputc(first, seed);
        if (first == 0)
            fputs(line + length, seed);
        else
            write_hex(line + length, seed);
        fclose(seed);
    }
    free(line);
    fclose(file);
}

/// Writes a fuzz input for each line with " -> " in a file: the unescaped comment before " -> ".
static void write_comments(const char *folder, const char *name) {
    FILE *file = vectors_open(name);
    char line[LINE_BYTES], number[32];

    make_folder(folder, "comment");
    for (int i = 0; lines_next(file, line); i++) {
        char *end = strstr(line, " -> ");
        FILE *seed;

        if (!end)
            continue;
        *end = '\0';
        snprintf(number, sizeof number, "%d", i);
        seed = create(folder, "comment", number);
        fwrite(line, 1, lines_unescape(line), seed);
        fclose(seed);
    }
    fclose(file);
}

static void write_all(const char *folder, const char *target, const char *name,
                      void (*write_one)(const char *, const struct vector *)) {
    FILE *file = vectors_open(name);
    struct vector vector = {0};

    make_folder(folder, target);
    while (vectors_next(file, &vector))
        write_one(folder, &vector);
    free(vector.bytes);
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: seeds FOLDER\n", stderr);
        return EXIT_FAILURE;
    }
    mkdir(argv[1], 0777);
    write_all(argv[1], "netlink", "netlink.txt", write_netlink);
    write_all(argv[1], "packet", "packets.txt", write_packet);
    write_all(argv[1], "print", "packets.txt", write_print);
    write_all(argv[1], "names", "names-hello.txt", write_names);
    write_all(argv[1], "names", "names-http.txt", write_names);
    write_all(argv[1], "names", "names-dns.txt", write_names);
    write_all(argv[1], "names", "names-quic.txt", write_names);
    write_all(argv[1], "names", "names-answer.txt", write_names);
    write_all(argv[1], "server", "server.txt", write_server);
    write_lines(argv[1], "handover.txt", "state ", 0);
    write_lines(argv[1], "handover-memory.txt", "rules ", 1);
    write_lines(argv[1], "handover-memory.txt", "connections ", 3);
    write_lines(argv[1], "handover-memory.txt", "learned ", 4);
    write_comments(argv[1], "comments.txt");
    return EXIT_SUCCESS;
}
