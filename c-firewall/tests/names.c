// SPDX-License-Identifier: GPL-2.0-or-later
#include "names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names/answer.h"
#include "names/body.h"
#include "names/client.h"
#include "names/dns.h"
#include "names/hello.h"
#include "names/host.h"
#include "names/http.h"
#include "names/quic.h"

static const char *const states[] = {"none", "undecided", "known", "unreadable"};

enum {
    SHOWN = 8, // maximum number of addresses of a DNS answer that a result lists
};

static void must(bool condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "names: %s\n", what);
    abort();
}

/// Prints bytes as a JSON string. A byte that is no printable ASCII character is written as an
/// escape with its hexadecimal number.
static void put_text(const uint8_t *bytes, uint32_t length, FILE *out) {
    fputc('"', out);
    for (uint32_t i = 0; i < length; i++) {
        if (bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '"' && bytes[i] != '\\')
            fputc(bytes[i], out);
        else
            fprintf(out, "\\u%04x", bytes[i]);
    }
    fputc('"', out);
}

static void put_protocols(const struct names *names, FILE *out) {
    for (uint32_t at = 0; at < names->alpn_length; at += 1U + names->alpn[at]) {
        must(at + 1U + names->alpn[at] <= names->alpn_length, "a protocol is cut");
        fputs(at > 0 ? "," : "", out);
        put_text(names->alpn + at + 1, names->alpn[at], out);
    }
}

static void put_line(const struct names *names, FILE *out) {
    static const char *const protocols[] = {"other", "tls", "quic", "http", "dns"};

    must(names->state == NAMES_KNOWN ||
             (names->host_length == 0 && names->method_length == 0 && names->alpn_length == 0 &&
              names->version == 0 && !names->ech && names->dns_type == 0),
         "fields without NAMES_KNOWN");
    fprintf(out, "{\"state\":\"%s\",\"protocol\":\"%s\",\"host\":", states[names->state],
            protocols[names->protocol]);
    put_text(names->host, names->host_length, out);
    fputs(",\"method\":", out);
    put_text(names->method, names->method_length, out);
    fputs(",\"alpn\":[", out);
    put_protocols(names, out);
    fprintf(out, "],\"version\":%u,\"ech\":%s,\"type\":%u}", names->version,
            names->ech ? "true" : "false", names->dns_type);
}

/// ClientHello that is joined from CRYPTO frames. Missing bytes are 0.
struct crypto {
    uint8_t bytes[NAMES_HELLO_BYTES_MAX];
    uint32_t end;
};

/// Prints the frames of a plaintext as JSON. Copies the data of CRYPTO frames to their offsets in
/// crypto.
static void put_frames(const uint8_t *plain, uint32_t length, struct crypto *crypto, FILE *out) {
    static const char *const kinds[] = {"bad", "padding", "ping", "ack", "crypto", "close"};
    uint32_t at = 0;

    while (at < length) {
        const struct names_quic_frame frame = names_quic_frame(plain, length, at);

        must(frame.next > at && frame.next <= length, "a frame ends elsewhere");
        must(frame.data + frame.data_bytes <= length, "data is elsewhere");
        fprintf(out, "%s\"%s", at > 0 ? "," : "", kinds[frame.kind]);
        if (frame.kind == NAMES_QUIC_FRAME_CRYPTO)
            fprintf(out, " %llu+%u", (unsigned long long)frame.offset, frame.data_bytes);
        fputc('"', out);
        if (frame.offset + frame.data_bytes <= sizeof crypto->bytes) {
            memcpy(crypto->bytes + frame.offset, plain + frame.data, frame.data_bytes);
            if (frame.offset + frame.data_bytes > crypto->end)
                crypto->end = (uint32_t)frame.offset + frame.data_bytes;
        }
        at = frame.next;
    }
}

/// Decrypts an Initial packet of QUIC. Uses the keys of earlier packets, or else derives keys from
/// this packet. Returns the number of bytes in plain; 0 if the packet can't be decrypted.
static uint32_t open_initial(const uint8_t *datagram, const struct names_quic_header *header,
                             struct names_quic_keys *keys,
                             uint8_t plain[static NAMES_HELLO_BYTES_MAX]) {
    struct names_quic_opener opener;
    struct names_quic_keys own;
    uint32_t bytes;

    must(names_quic_make(&opener) == 0, "no opener");
    bytes = names_quic_open(&opener, keys, datagram, header, plain);
    if (bytes == 0) {
        own = names_quic_derive(&opener, datagram, header);
        bytes = names_quic_open(&opener, &own, datagram, header, plain);
        if (bytes > 0)
            *keys = own;
    }
    names_quic_free(&opener);
    return bytes;
}

static void put_packet(const uint8_t *datagram, const struct names_quic_header *header,
                       struct names_quic_keys *keys, struct crypto *crypto, FILE *out) {
    static const char *const kinds[] = {"bad", "short", "unknown", "long", "handshake", "initial"};
    static uint8_t plain[NAMES_HELLO_BYTES_MAX];
    uint32_t bytes = 0;

    if (header->kind == NAMES_QUIC_INITIAL)
        bytes = open_initial(datagram, header, keys, plain);
    fprintf(out, "{\"kind\":\"%s\",\"version\":%u,\"connection\":\"", kinds[header->kind],
            header->version);
    for (uint32_t i = 0; i < header->connection_bytes; i++)
        fprintf(out, "%02x", datagram[header->connection + i]);
    fprintf(out, "\",\"end\":%u,\"plain\":%u,\"next\":%llu,\"frames\":[", header->end, bytes,
            (unsigned long long)keys->next);
    put_frames(plain, bytes, crypto, out);
    fputs("]}", out);
}

/// Prints the packets of a datagram as JSON, and the names of the ClientHello in them.
static void put_datagram(const uint8_t *bytes, uint32_t length, FILE *out) {
    struct names_quic_keys keys = {0};
    struct crypto *crypto = calloc(1, sizeof *crypto);
    struct names names;
    uint32_t at = 0;

    must(crypto != NULL, "no memory");
    fputs("{\"packets\":[", out);
    do {
        const struct names_quic_header header = names_quic_header(bytes, length, at);

        must(header.start == at && header.end <= length, "a packet ends elsewhere");
        must(header.end > at || length == 0, "a packet has no end");
        fputs(at > 0 ? "," : "", out);
        put_packet(bytes, &header, &keys, crypto, out);
        at = header.end;
    } while (at < length);
    names_hello_parse(crypto->bytes, crypto->end, NAMES_QUIC, &names);
    fputs("],\"names\":", out);
    put_line(&names, out);
    fputc('}', out);
    free(crypto);
}

/// Prints the question of a DNS message as JSON, and the addresses that an answer has for the
/// question.
static void put_message(const uint8_t *bytes, uint32_t length, FILE *out) {
    struct answer read = {0};
    const uint32_t offset = names_answer_question(bytes, length, &read);
    bool is_read;

    if (offset == 0) {
        fputs("{\"question\":0}", out);
        return;
    }
    must(offset <= length, "the question ends elsewhere");
    is_read = read.is_answer && names_answer_asks_address(&read) &&
              names_answer_parse(bytes, length, offset, &read);
    must(is_read || read.count == 0, "addresses of nothing");
    fprintf(out, "{\"question\":%u,\"id\":%u,\"answer\":%s,\"host\":", offset, read.id,
            read.is_answer ? "true" : "false");
    put_text(read.host.bytes, read.host.length, out);
    fprintf(out, ",\"type\":%u,\"class\":%u,\"read\":%s,\"ttl\":%u,\"count\":%u,\"addresses\":[",
            read.dns_type, read.class, is_read ? "true" : "false", read.count > 0 ? read.ttl : 0,
            read.count);
    for (uint32_t i = 0; i < read.count && i < SHOWN; i++)
        fprintf(out, "%s\"%016llx%016llx\"", i > 0 ? "," : "",
                (unsigned long long)(read.addresses[i] >> 64),
                (unsigned long long)read.addresses[i]);
    fputs("]}", out);
}

/// Prints the names of an HTTP request as JSON, and the kind of body after its header.
static void put_request(const uint8_t *bytes, uint32_t length, struct names_progress *progress,
                        FILE *out) {
    struct names_body body = {0};
    struct names names = {0};

    names.state = names_http_begins(bytes, length, progress);
    if (names.state == NAMES_KNOWN)
        names_http_parse(bytes, length, false, progress, &body, &names);
    must(body.header_bytes <= length, "the header ends elsewhere");
    if (names.state == NAMES_KNOWN && names.protocol == NAMES_HTTP)
        fprintf(out, "{\"header\":%u,\"length\":%llu,\"chunked\":%s,\"tunnel\":%s,\"names\":",
                body.header_bytes, (unsigned long long)body.length,
                body.is_chunked ? "true" : "false", body.switches ? "true" : "false");
    else
        fputs("{\"names\":", out);
    put_line(&names, out);
    fputc('}', out);
}

/// Prints the parsed head of a body's chunk as JSON.
static void put_chunk(const uint8_t *bytes, uint32_t length, FILE *out) {
    struct names_chunk chunk = {0};
    const enum names_state state = names_body_chunk(bytes, length, &chunk);

    must(chunk.head_bytes <= length, "the head ends elsewhere");
    fprintf(out, "{\"state\":\"%s\",\"head\":%u,\"bytes\":%llu}", states[state], chunk.head_bytes,
            (unsigned long long)chunk.bytes);
}

/// Prints the names that a parser reads from some bytes.
/// - what: query that selects the parser: fold, hello, query, framed, client or client-whole.
static void put_names(const char *what, const uint8_t *bytes, uint32_t length,
                      struct names_progress *progress, FILE *out) {
    static uint8_t scratch[NAMES_HELLO_BYTES_MAX];
    const bool whole = strstr(what, "-whole") != NULL;
    struct names names = {0};
    uint32_t taken;

    if (strcmp(what, "fold") == 0) {
        if (names_host_fold(bytes, length, &names))
            names.state = NAMES_KNOWN;
    } else if (strcmp(what, "hello") == 0) {
        names_hello_parse(bytes, length, NAMES_TLS, &names);
    } else if (strcmp(what, "query") == 0) {
        names_dns_query(bytes, length, &names);
    } else if (strcmp(what, "framed") == 0) {
        names_dns_framed(bytes, length, &names, &taken);
        fprintf(out, "{\"taken\":%u,\"names\":", taken);
        put_line(&names, out);
        fputc('}', out);
        return;
    } else {
        must(strncmp(what, "client", 6) == 0, what);
        names_client_parse(bytes, length, whole, scratch, progress, &names);
    }
    put_line(&names, out);
}

/// Returns the result of the parser that `what` selects, for some bytes.
/// - progress: in/out: progress of an earlier call with fewer of these bytes; zeroed before the
///   first call.
static char *ask_from(const char *what, const uint8_t *bytes, uint32_t length,
                      struct names_progress *progress) {
    static struct crypto crypto;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    must(out != NULL, "no memory");
    if (strcmp(what, "quic") == 0) {
        put_datagram(bytes, length, out);
    } else if (strcmp(what, "frames") == 0) {
        fputc('[', out);
        put_frames(bytes, length, &crypto, out);
        fputc(']', out);
    } else if (strcmp(what, "request") == 0) {
        put_request(bytes, length, progress, out);
    } else if (strcmp(what, "chunk") == 0) {
        put_chunk(bytes, length, out);
    } else if (strcmp(what, "answer") == 0) {
        put_message(bytes, length, out);
    } else {
        put_names(what, bytes, length, progress, out);
    }
    fclose(out);
    return text;
}

char *names_ask(const char *what, const uint8_t *bytes, uint32_t length) {
    struct names_progress progress = {0};

    return ask_from(what, bytes, length, &progress);
}

bool names_is_same_in_segments(const char *what, const uint8_t *bytes, uint32_t length,
                               uint32_t segment) {
    struct names_progress progress = {0};
    bool is_same = true, is_undecided = true;

    for (uint32_t end = 0; end < length && is_same && is_undecided;) {
        char *whole, *got;

        end = length - end < segment ? length : end + segment;
        whole = names_ask(what, bytes, end);
        got = ask_from(what, bytes, end, &progress);
        is_same = strcmp(got, whole) == 0;
        is_undecided = strstr(whole, "\"state\":\"undecided\"") != NULL;
        free(whole);
        free(got);
    }
    return is_same;
}
