// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/options.toml: the command line.
#ifndef SPEC_OPTION_H
#define SPEC_OPTION_H

#include <stdbool.h>
#include <stdint.h>

/// Limits that several options share, or that other modules use.
enum {
    OPTION_BATCH_MAX = 1024,
    OPTION_COPY_BYTES_FAST = 128,
    OPTION_INTERFACE_BYTES_MAX = 15,
    OPTION_QUEUES_MAX = 256,
    OPTION_SOCKET_BYTES_MAX = 107,
};

/// Command: the first argument, if it is a command's name; otherwise ARGUMENTS_RUN.
enum arguments_command {
    ARGUMENTS_RUN,
    ARGUMENTS_CHECK,
    ARGUMENTS_EXPLAIN,
    ARGUMENTS_COMMAND_COUNT
};

enum { ARGUMENTS_WORDS_MAX = 2 }; // maximum number of words of a command

/// Properties of a command.
struct command_facts {
    const char *name;
    uint32_t words;    // number of words (arguments that are not options) after the command's name
    const char *needs; // description of the command's words for messages, e.g. "a policy"
};

/// All commands, indexed by enum arguments_command.
extern const struct command_facts command_facts[ARGUMENTS_COMMAND_COUNT];

/// Backend of a queue (--backend).
enum queue_kind {
    QUEUE_CLASSIC, // the callback API of libnetfilter_queue
    QUEUE_MNL,     // libmnl and libnetfilter_queue's message API
    QUEUE_RAW,     // netlink without a library
    QUEUE_KIND_COUNT
};

/// Profile: a set of defaults for the options (--profile).
enum options_profile {
    OPTIONS_FAST,  // sleep when idle, receive and answer in batches
    OPTIONS_PAPER, // the published experiment: classic backend, busy loop, one packet a call; it
                   // loses packets
    OPTIONS_PROFILE_COUNT
};

/// Failures for which --fail sets a mode.
enum options_situation {
    OPTIONS_OVERLOAD,  // the queue or its socket is full
    OPTIONS_STALL,     // packets wait, and none gets a verdict
    OPTIONS_CRASH,     // the firewall ends unexpectedly
    OPTIONS_MALFORMED, // the packet's headers are invalid
    OPTIONS_TRUNCATED, // bytes that a rule reads are missing
    OPTIONS_UNKNOWN,   // a name that a rule reads can't be read
    OPTIONS_SITUATION_COUNT
};

/// Source of ct state (--conntrack): attribute of messages, packet mark, or auto (attribute, if the
/// kernel has it).
enum options_conntrack {
    OPTIONS_CONNTRACK_AUTO,
    OPTIONS_CONNTRACK_ATTRIBUTE,
    OPTIONS_CONNTRACK_MARK,
    OPTIONS_CONNTRACK_COUNT
};

/// Log level: messages of this level and of those before it are written.
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };

/// All options except --help and --version, in the order of the help text, in which their values
/// are checked.
enum arguments_option {
    OPTION_QUEUE,
    OPTION_PIN,
    OPTION_BACKEND,
    OPTION_PROFILE,
    OPTION_COPY_BYTES,
    OPTION_BATCH,
    OPTION_RECEIVE_BUFFER,
    OPTION_QUEUE_LENGTH,
    OPTION_GSO,
    OPTION_SPIN,
    OPTION_COALESCE,
    OPTION_POLICY,
    OPTION_DEFAULT,
    OPTION_MALFORMED,
    OPTION_CONNTRACK,
    OPTION_UNDECIDED,
    OPTION_CONNECTIONS,
    OPTION_HELLO_MEMORY,
    OPTION_HELLO_TIMEOUT,
    OPTION_LEARNED,
    OPTION_STAGE,
    OPTION_SETTLED,
    OPTION_FAIL,
    OPTION_DEADLINE,
    OPTION_STATS,
    OPTION_JSON,
    OPTION_EVENTS,
    OPTION_EVENTS_RATE,
    OPTION_LOG_LEVEL,
    OPTION_CONTROL,
    OPTION_CONTROL_MODE,
    OPTION_CONTROL_OWNER,
    OPTION_TAKE_OVER,
    OPTION_USER,
    OPTION_SANDBOX,
    OPTION_PRINT,
    OPTION_HOOK,
    OPTION_IIF,
    OPTION_OIF,
    OPTION_MARK,
    OPTION_UID,
    OPTION_GID,
    OPTION_CT_STATE,
    OPTION_CT_MARK,
    OPTION_EXPECT,
    OPTION_COUNT
};

/// Properties of an option.
struct option_facts {
    const char *name; // name without its hyphens
    // Commands that accept the option, as bits 1 << enum arguments_command.
    uint32_t commands;
    bool has_value;
    // Description of the value for messages; "" = the option has no value, or accepts any.
    const char *expected;
    uint32_t min, max; // range of a number
    bool zero;         // true if a number may also be 0
    uint32_t bytes;    // maximum length of a text in bytes
    // Names of the values of a choice, ended by NULL; NULL = the option has no choice.
    const char *const *choices;
    // Defaults by profile: a number, or the index of a choice's value.
    uint32_t defaults[OPTIONS_PROFILE_COUNT];
};

/// An option of older releases.
struct option_gone {
    const char *name;    // with its hyphens
    const char *instead; // program or option that takes its place, as an order to the user
};

enum { OPTION_GONE_COUNT = 1 };
extern const struct option_gone option_gone[OPTION_GONE_COUNT];

/// Properties of all options, indexed by enum arguments_option.
extern const struct option_facts option_facts[OPTION_COUNT];

/// Returns the name of a value on the command line.
const char *options_backend_name(enum queue_kind backend);

/// Returns the name of a value on the command line.
const char *options_profile_name(enum options_profile profile);

/// Returns the name of a value on the command line.
const char *options_situation_name(enum options_situation situation);

/// Returns the name of a value on the command line.
const char *options_conntrack_name(enum options_conntrack conntrack);

/// Returns the name of a value on the command line.
const char *options_log_level_name(enum log_level log_level);

/// Returns the name of a value on the command line: "closed" for false, "open" for true.
const char *options_mode_name(bool mode);

#endif
