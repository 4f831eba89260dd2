// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/options.toml.
#include "spec/option.h"

#include <stddef.h>

const struct command_facts command_facts[ARGUMENTS_COMMAND_COUNT] = {
    [ARGUMENTS_RUN] = {"", 0, ""},
    [ARGUMENTS_CHECK] = {"check", 1, "a policy"},
    [ARGUMENTS_EXPLAIN] = {"explain", 2, "a policy and a capture"},
};

static const char *const backend_names[] = {
    "classic",
    "mnl",
    "raw",
    NULL,
};

static const char *const profile_names[] = {
    "fast",
    "paper",
    NULL,
};

static const char *const situation_names[] = {
    "overload", "stall", "crash", "malformed", "truncated", "unknown", NULL,
};

static const char *const conntrack_names[] = {
    "auto",
    "attribute",
    "mark",
    NULL,
};

static const char *const log_level_names[] = {
    "error", "warning", "info", "debug", NULL,
};

static const char *const default_names[] = {
    "accept",
    "drop",
    NULL,
};

static const char *const malformed_names[] = {
    "fail",
    "policy",
    NULL,
};

static const char *const mode_names[] = {
    "closed",
    "open",
    NULL,
};

static const char *const switch_names[] = {
    "off",
    "on",
    NULL,
};

const struct option_facts option_facts[OPTION_COUNT] =
    {
        [OPTION_QUEUE] =
            {
                .name = "queue",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "N or N:M, 0 <= N <= M <= 65535, at most 256 queues",
                .min = 0,
                .max = 65535U,
                .defaults = {0, 0},
            },
        [OPTION_PIN] =
            {
                .name = "pin",
                .commands = 1 << ARGUMENTS_RUN,
                .expected = "",
                .defaults = {0, 0},
            },
        [OPTION_BACKEND] =
            {
                .name = "backend",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "classic, mnl or raw",
                .choices = backend_names,
                .defaults = {2, 0},
            },
        [OPTION_PROFILE] =
            {
                .name = "profile",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "fast or paper",
                .choices = profile_names,
                .defaults = {0, 1},
            },
        [OPTION_COPY_BYTES] =
            {
                .name = "copy-bytes",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 0 to 65535",
                .min = 0,
                .max = 65535U,
                .defaults = {128, 65535},
            },
        [OPTION_BATCH] =
            {
                .name = "batch",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 1 to 1024",
                .min = 1,
                .max = 1024U,
                .defaults = {64, 1},
            },
        [OPTION_RECEIVE_BUFFER] =
            {
                .name = "receive-buffer",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 0 to 1073741823",
                .min = 0,
                .max = 1073741823U,
                .defaults = {67108864, 0},
            },
        [OPTION_QUEUE_LENGTH] =
            {
                .name = "queue-length",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 1 to 4294967295",
                .min = 1,
                .max = 4294967295U,
                .defaults = {131072, 1024},
            },
        [OPTION_GSO] =
            {
                .name = "gso",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "on or off",
                .choices = switch_names,
                .defaults = {1, 0},
            },
        [OPTION_SPIN] =
            {
                .name = "spin",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 0 to 1000",
                .min = 0,
                .max = 1000U,
                .defaults = {50, 0},
            },
        [OPTION_COALESCE] =
            {
                .name = "coalesce",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 0 to 1000",
                .min = 0,
                .max = 1000U,
                .defaults = {60, 0},
            },
        [OPTION_POLICY] =
            {
                .name = "policy",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "",
                .defaults = {0, 0},
            },
        [OPTION_DEFAULT] =
            {
                .name = "default",
                .commands = 1 << ARGUMENTS_RUN | 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "accept or drop",
                .choices = default_names,
                .defaults = {0, 0},
            },
        [OPTION_MALFORMED] =
            {
                .name = "malformed",
                .commands = 1 << ARGUMENTS_RUN | 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "fail or policy",
                .choices = malformed_names,
                .defaults = {0, 0},
            },
        [OPTION_CONNTRACK] =
            {
                .name = "conntrack",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "auto, attribute or mark",
                .choices = conntrack_names,
                .defaults = {0, 0},
            },
        [OPTION_UNDECIDED] =
            {
                .name = "undecided",
                .commands = 1 << ARGUMENTS_RUN | 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "accept, drop, or accept:BYTES with at least 1024",
                .min = 1024,
                .max = 4294967295U,
                .defaults = {32768, 32768},
            },
        [OPTION_CONNECTIONS] =
            {
                .name = "connections",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 16 to 16777216",
                .min = 16,
                .max = 16777216U,
                .defaults = {65536, 65536},
            },
        [OPTION_HELLO_MEMORY] =
            {
                .name = "hello-memory",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 16384 to 4294967295",
                .min = 16384,
                .max = 4294967295U,
                .defaults = {33554432, 33554432},
            },
        [OPTION_HELLO_TIMEOUT] =
            {
                .name = "hello-timeout",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 1 to 3600",
                .min = 1,
                .max = 3600U,
                .defaults = {10, 10},
            },
        [OPTION_LEARNED] =
            {
                .name = "learned",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 64 to 1048576",
                .min = 64,
                .max = 1048576U,
                .defaults = {65536, 65536},
            },
        [OPTION_STAGE] =
            {
                .name = "stage",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a mask of at least 5 bits in a row, decimal or 0x hexadecimal",
                .defaults = {0, 0},
            },
        [OPTION_SETTLED] =
            {
                .name = "settled",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a mask, decimal or 0x hexadecimal",
                .defaults = {0, 0},
            },
        [OPTION_FAIL] =
            {
                .name = "fail",
                .commands = 1 << ARGUMENTS_RUN | 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "open or closed, or a list like overload=open,crash=closed of "
                            "overload, stall, crash, malformed, truncated and unknown",
                .defaults = {0, 0},
            },
        [OPTION_DEADLINE] =
            {
                .name = "deadline",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "0 or a whole number from 10 to 60000",
                .min = 10,
                .max = 60000U,
                .zero = true,
                .defaults = {1000, 0},
            },
        [OPTION_STATS] =
            {
                .name = "stats",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 1 to 86400",
                .min = 1,
                .max = 86400U,
                .defaults = {0, 0},
            },
        [OPTION_JSON] =
            {
                .name = "json",
                .commands = 1 << ARGUMENTS_RUN | 1 << ARGUMENTS_EXPLAIN,
                .expected = "",
                .defaults = {0, 0},
            },
        [OPTION_EVENTS] =
            {
                .name = "events",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a file, - or unix:PATH of at most 107 bytes",
                .bytes = 4095,
                .defaults = {0, 0},
            },
        [OPTION_EVENTS_RATE] =
            {
                .name = "events-rate",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a whole number from 1 to 1000000",
                .min = 1,
                .max = 1000000U,
                .defaults = {1000, 1000},
            },
        [OPTION_LOG_LEVEL] =
            {
                .name = "log-level",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "error, warning, info or debug",
                .choices = log_level_names,
                .defaults = {2, 2},
            },
        [OPTION_CONTROL] =
            {
                .name = "control",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a path of 1 to 107 bytes",
                .bytes = 107,
                .defaults = {0, 0},
            },
        [OPTION_CONTROL_MODE] =
            {
                .name = "control-mode",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "an octal mode from 0 to 0777",
                .min = 0,
                .max = 511U,
                .bytes = 4,
                .defaults = {384, 384},
            },
        [OPTION_CONTROL_OWNER] =
            {
                .name = "control-owner",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "USER or USER:GROUP",
                .bytes = 256,
                .defaults = {0, 0},
            },
        [OPTION_TAKE_OVER] =
            {
                .name = "take-over",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a path of 1 to 107 bytes",
                .bytes = 107,
                .defaults = {0, 0},
            },
        [OPTION_USER] =
            {
                .name = "user",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "a user's name",
                .bytes = 256,
                .defaults = {0, 0},
            },
        [OPTION_SANDBOX] =
            {
                .name = "sandbox",
                .commands = 1 << ARGUMENTS_RUN,
                .has_value = true,
                .expected = "on or off",
                .choices = switch_names,
                .defaults = {1, 1},
            },
        [OPTION_PRINT] =
            {
                .name = "print",
                .commands = 1 << ARGUMENTS_CHECK,
                .expected = "",
                .defaults = {0, 0},
            },
        [OPTION_HOOK] =
            {
                .name = "hook",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "input, output, forward, prerouting or postrouting",
                .defaults = {0, 0},
            },
        [OPTION_IIF] =
            {
                .name = "iif",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "an interface name of 1 to 15 bytes of UTF-8",
                .bytes = 15,
                .defaults = {0, 0},
            },
        [OPTION_OIF] =
            {
                .name = "oif",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "an interface name of 1 to 15 bytes of UTF-8",
                .bytes = 15,
                .defaults = {0, 0},
            },
        [OPTION_MARK] =
            {
                .name = "mark",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "a number from 0 to 4294967295, decimal or 0x hexadecimal",
                .min = 0,
                .max = 4294967295U,
                .defaults = {0, 0},
            },
        [OPTION_UID] =
            {
                .name = "uid",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "a whole number from 0 to 4294967294",
                .min = 0,
                .max = 4294967294U,
                .defaults = {0, 0},
            },
        [OPTION_GID] =
            {
                .name = "gid",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "a whole number from 0 to 4294967294",
                .min = 0,
                .max = 4294967294U,
                .defaults = {0, 0},
            },
        [OPTION_CT_STATE] =
            {
                .name = "ct-state",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "new, established, related, invalid or untracked",
                .defaults = {0, 0},
            },
        [OPTION_CT_MARK] =
            {
                .name = "ct-mark",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .has_value = true,
                .expected = "a number from 0 to 4294967295, decimal or 0x hexadecimal",
                .min = 0,
                .max = 4294967295U,
                .defaults = {0, 0},
            },
        [OPTION_EXPECT] =
            {
                .name = "expect",
                .commands = 1 << ARGUMENTS_EXPLAIN,
                .expected = "",
                .defaults = {0, 0},
            },
};

const struct option_gone option_gone[OPTION_GONE_COUNT] = {
    {"--metrics", "twinwall-exporter --control SOCKET --listen ADDR:PORT serves the metrics"},
};

const char *options_backend_name(enum queue_kind backend) { return backend_names[backend]; }

const char *options_profile_name(enum options_profile profile) { return profile_names[profile]; }

const char *options_situation_name(enum options_situation situation) {
    return situation_names[situation];
}

const char *options_conntrack_name(enum options_conntrack conntrack) {
    return conntrack_names[conntrack];
}

const char *options_log_level_name(enum log_level log_level) { return log_level_names[log_level]; }

const char *options_mode_name(bool mode) { return mode_names[mode]; }
