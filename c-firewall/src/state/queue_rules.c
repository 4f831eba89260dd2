// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/queue_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/wait.h"

enum {
    READ_STEP_BYTES = 65536, // step by which a tool's output is read, in bytes
    OUTPUT_BYTES_MAX = 1 << 26,
    WORD_BYTES = 64, // maximum size of a word of a rule; longer words equal no keyword
    NS_PER_MS = 1000000,
};

void queue_rules_begin(struct queue_rules *queue_rules, uint16_t first, uint16_t last) {
    *queue_rules = (struct queue_rules){.first = first, .last = last};
}

/// Adds a rule that sends packets to these queues, if this firewall has any of them.
static void add_rule(struct queue_rules *queue_rules, uint32_t first, uint32_t last, bool bypass) {
    if (last < queue_rules->first || first > queue_rules->last)
        return;
    for (uint32_t number = queue_rules->first; number <= queue_rules->last; number++)
        if (number >= first && number <= last)
            queue_rules->reached[number - queue_rules->first] = true;
    if (bypass)
        queue_rules->bypass = true;
    else
        queue_rules->plain = true;
}

/// Stores the tool that could not be read, with the reason; the first one stays.
static void set_unknown(struct queue_rules *queue_rules, const char *tool, const char *why) {
    if (queue_rules->unknown[0] == '\0')
        snprintf(queue_rules->unknown, sizeof queue_rules->unknown, "%s %s", tool, why);
}

/// Removes a word from a line; it ends at a blank outside quotes. Returns false at the line's end.
static bool take_word(const char **at, char word[static WORD_BYTES]) {
    size_t length = 0;
    bool quoted = false;

    *at += strspn(*at, " ");
    if (**at == '\0' || **at == '\n')
        return false;
    for (; **at != '\0' && **at != '\n' && (quoted || **at != ' '); (*at)++) {
        if (quoted && **at == '\\' && (*at)[1] != '\0' && (*at)[1] != '\n')
            (*at)++;
        else if (**at == '"')
            quoted = !quoted;
        // The quote stays in the word, so that a quoted word equals no keyword.
        if (length < WORD_BYTES - 1)
            word[length++] = **at;
    }
    word[length] = '\0';
    return true;
}

/// Parses a line "-A CHAIN …", and adds its rule if the target is NFQUEUE.
static void take_save_line(struct queue_rules *queue_rules, const char *at) {
    char word[WORD_BYTES], before[WORD_BYTES] = "";
    unsigned int first = 0, last = 0;
    bool queue = false, bypass = false;

    while (take_word(&at, word)) {
        if (strcmp(before, "-j") == 0)
            queue = strcmp(word, "NFQUEUE") == 0;
        if (strcmp(before, "--queue-num") == 0 && sscanf(word, "%u", &first) == 1)
            last = first;
        if (strcmp(before, "--queue-balance") == 0 && sscanf(word, "%u:%u", &first, &last) != 2)
            last = first;
        bypass = bypass || strcmp(word, "--queue-bypass") == 0;
        memcpy(before, word, sizeof before);
    }
    if (queue)
        add_rule(queue_rules, first, last, bypass);
}

void queue_rules_take_save(struct queue_rules *queue_rules, const char *text) {
    while (*text != '\0') {
        if (strncmp(text, "-A ", 3) == 0)
            take_save_line(queue_rules, text);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
}

static bool is_bypass(const json_t *flag) {
    return json_is_string(flag) && strcmp(json_string_value(flag), "bypass") == 0;
}

/// Returns true if the flags of a queue statement (a string, or an array of strings) contain
/// bypass.
static bool has_bypass(const json_t *flags) {
    for (size_t i = 0; i < json_array_size(flags); i++)
        if (is_bypass(json_array_get(flags, i)))
            return true;
    return is_bypass(flags);
}

/// Parses a queue statement. If the queue is an expression, the rule may send packets to any queue.
static void take_queue(struct queue_rules *queue_rules, const json_t *queue) {
    const json_t *num = json_object_get(queue, "num");
    const json_t *range = json_object_get(num, "range");
    const bool bypass = has_bypass(json_object_get(queue, "flags"));

    if (json_is_integer(num))
        add_rule(queue_rules, (uint32_t)json_integer_value(num), (uint32_t)json_integer_value(num),
                 bypass);
    else if (json_array_size(range) == 2)
        add_rule(queue_rules, (uint32_t)json_integer_value(json_array_get(range, 0)),
                 (uint32_t)json_integer_value(json_array_get(range, 1)), bypass);
    else if (num)
        add_rule(queue_rules, 0, UINT16_MAX, bypass);
    else
        add_rule(queue_rules, 0, 0, bypass);
}

int queue_rules_take_nft(struct queue_rules *queue_rules, const char *text) {
    json_t *root = json_loads(text, 0, NULL);
    const json_t *items = json_object_get(root, "nftables"), *item, *statement;
    size_t i, j;

    if (!json_is_array(items)) {
        json_decref(root);
        return -EBADMSG;
    }
    json_array_foreach(items, i, item) {
        const json_t *expressions = json_object_get(json_object_get(item, "rule"), "expr");

        json_array_foreach(expressions, j, statement) {
            const json_t *queue = json_object_get(statement, "queue");

            if (queue)
                take_queue(queue_rules, queue);
            if (json_object_get(statement, "xt"))
                queue_rules->of_iptables = true;
        }
    }
    json_decref(root);
    return 0;
}

/// Starts a tool. Returns 0 with its output readable from *fd, or -errno.
static int start_tool(const char *const *argv, pid_t *pid, int *fd) {
    posix_spawn_file_actions_t actions;
    int ends[2];
    int error;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    error = posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return -error;
    }
    *fd = ends[0];
    return 0;
}

/// Reads a tool's output to its end, as a string that the caller frees. Returns NULL if it is too
/// long or too late, or there is no memory.
static char *read_output(int fd, uint64_t due_ns) {
    char *text = NULL;
    size_t length = 0;

    for (;;) {
        const uint64_t now_ns = wait_clock();
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        char *grown = realloc(text, length + READ_STEP_BYTES + 1);
        ssize_t got;

        if (!grown)
            break;
        text = grown;
        if (now_ns >= due_ns || poll(&readable, 1, (int)((due_ns - now_ns) / NS_PER_MS) + 1) != 1)
            break;
        got = read(fd, text + length, READ_STEP_BYTES);
        if (got < 0 || length + (size_t)got > OUTPUT_BYTES_MAX)
            break;
        if (got == 0) {
            text[length] = '\0';
            return text;
        }
        length += (size_t)got;
    }
    free(text);
    return NULL;
}

/// Runs a tool and returns its output, as a string that the caller frees. If the tool fails it
/// returns NULL and stores the reason, except for a tool that may be missing.
static char *run_tool(struct queue_rules *queue_rules, const char *const *argv, bool may_miss,
                      uint64_t due_ns) {
    char *text;
    pid_t pid = -1;
    int status = 0, fd = -1;
    const int started = start_tool(argv, &pid, &fd);
    pid_t ended;

    if (started == -ENOENT && may_miss)
        return NULL;
    if (started < 0) {
        set_unknown(queue_rules, argv[0], started == -ENOENT ? "is not there" : "can't be started");
        return NULL;
    }
    text = read_output(fd, due_ns);
    close(fd);
    if (!text)
        kill(pid, SIGKILL);
    do
        ended = waitpid(pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (!text) {
        set_unknown(queue_rules, argv[0], "did not end in time");
        return NULL;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        set_unknown(queue_rules, argv[0], "failed");
        free(text);
        return NULL;
    }
    return text;
}

static void run_save(struct queue_rules *queue_rules, const char *tool, bool may_miss,
                     uint64_t due_ns) {
    const char *const argv[] = {tool, NULL};
    char *text = run_tool(queue_rules, argv, may_miss, due_ns);

    if (text)
        queue_rules_take_save(queue_rules, text);
    free(text);
}

static void run_nft(struct queue_rules *queue_rules, uint64_t due_ns) {
    const char *const argv[] = {"nft", "-j", "list", "ruleset", NULL};
    char *text = run_tool(queue_rules, argv, false, due_ns);

    if (text && queue_rules_take_nft(queue_rules, text) < 0)
        set_unknown(queue_rules, argv[0], "failed");
    free(text);
}

/// Returns true if a file has any text. It is used on the kernel's list of tables of the old
/// iptables: while there are none, starting the tool would load its modules.
static bool has_text(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char byte;
    bool found;

    if (fd < 0)
        return false;
    found = read(fd, &byte, 1) == 1;
    close(fd);
    return found;
}

void queue_rules_read(struct queue_rules *queue_rules, const struct options *options) {
    const uint64_t due_ns = wait_clock() + (uint64_t)QUEUE_RULES_MS_MAX * NS_PER_MS;
    bool may_miss;

    queue_rules_begin(queue_rules, options->queue_first, options->queue_last);
    run_nft(queue_rules, due_ns);
    // If nft has listed all rules, and none is of iptables, a missing iptables has no rules either.
    may_miss = *queue_rules->unknown == '\0' && !queue_rules->of_iptables;
    run_save(queue_rules, "iptables-save", may_miss, due_ns);
    run_save(queue_rules, "ip6tables-save", may_miss, due_ns);
    if (has_text("/proc/net/ip_tables_names"))
        run_save(queue_rules, "iptables-legacy-save", false, due_ns);
    if (has_text("/proc/net/ip6_tables_names"))
        run_save(queue_rules, "ip6tables-legacy-save", false, due_ns);
}

/// Appends numbers of queues to a list: "3" or "3-5".
static void put_run(FILE *out, uint32_t first, uint32_t last) {
    fprintf(out, ftell(out) > 0 ? ", %u" : "%u", first);
    if (last > first)
        fprintf(out, "-%u", last);
}

void queue_rules_warn(const struct queue_rules *queue_rules) {
    const uint32_t count = queue_rules->last - (uint32_t)queue_rules->first + 1;
    char numbers[OPTION_QUEUES_MAX * sizeof "65535, "] = "";
    FILE *out = fmemopen(numbers, sizeof numbers, "w");

    if (!out)
        return;
    for (uint32_t i = 0, end; i < count; i = end + 1) {
        for (end = i; end < count && !queue_rules->reached[end]; end++)
            ;
        if (end > i)
            put_run(out, queue_rules->first + i, queue_rules->first + end - 1);
    }
    fclose(out);
    if (*numbers && *queue_rules->unknown)
        log_warn(
            "it is not known whether a rule leads packets to queue %s: %s: `fwctl doctor` looks "
            "again",
            numbers, queue_rules->unknown);
    else if (*numbers)
        log_warn("no rule leads packets to queue %s: until one does the firewall sees none of them "
                 "(`fwctl doctor` names one)",
                 numbers);
}
