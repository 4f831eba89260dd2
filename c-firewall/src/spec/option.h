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

/// The command: the first argument, if it is a command's name.
enum arguments_command {
    ARGUMENTS_RUN,
    ARGUMENTS_CHECK,
    ARGUMENTS_EXPLAIN,
    ARGUMENTS_COMMAND_COUNT
};

enum { ARGUMENTS_WORDS_MAX = 2 }; // that any command takes

/// A command.
struct command_facts {
    const char *name;
    uint32_t words;    // that follow
    const char *needs; // what they are
};

/// Indexed by enum arguments_command.
extern const struct command_facts command_facts[ARGUMENTS_COMMAND_COUNT];

/// A backend.
enum queue_kind {
    QUEUE_CLASSIC, // the callback API of libnetfilter_queue
    QUEUE_MNL,     // libmnl and libnetfilter_queue's message API
    QUEUE_RAW,     // netlink without a library
    QUEUE_KIND_COUNT
};

/// A profile.
enum options_profile {
    OPTIONS_FAST,  // sleep when idle, receive and answer in batches
    OPTIONS_PAPER, // the published experiment: classic backend, busy loop, one packet a call; it
                   // loses packets
    OPTIONS_PROFILE_COUNT
};

/// Subjects of --fail.
enum options_situation {
    OPTIONS_OVERLOAD,  // the queue or its socket is full
    OPTIONS_STALL,     // packets wait, and none gets a verdict
    OPTIONS_CRASH,     // the firewall ends unexpectedly
    OPTIONS_MALFORMED, // the packet's headers are invalid
    OPTIONS_TRUNCATED, // bytes that a rule reads are missing
    OPTIONS_UNKNOWN,   // a name that a rule reads can't be read
    OPTIONS_SITUATION_COUNT
};

/// Source of ct state.
enum options_conntrack {
    OPTIONS_CONNTRACK_AUTO,
    OPTIONS_CONNTRACK_ATTRIBUTE,
    OPTIONS_CONNTRACK_MARK,
    OPTIONS_CONNTRACK_COUNT
};

/// Log level: messages of this level and of those before it are written.
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };

/// The options with a meaning of their own, in the order in which their values are checked, which
/// is that of the help text.
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
    const char *name;  // without its hyphens
    uint32_t commands; // that take it, as bits 1 << enum arguments_command
    bool has_value;
    const char *expected;       // of its value, in a sentence; "" = anything, or it has none
    uint32_t min, max;          // of a number
    bool zero;                  // a number may also be 0
    uint32_t bytes;             // of a text, at most
    const char *const *choices; // names of its values; NULL = it has no choice; ends with NULL
    uint32_t defaults[OPTIONS_PROFILE_COUNT]; // a number, or the place of a choice
};

/// An option of older releases.
struct option_gone {
    const char *name;    // with its hyphens
    const char *instead; // program or option that takes its place, as an order to the user
};

enum { OPTION_GONE_COUNT = 1 };
extern const struct option_gone option_gone[OPTION_GONE_COUNT];

/// Indexed by enum arguments_option.
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

/// Returns the name of a value on the command line.
const char *options_mode_name(bool mode);

#endif
