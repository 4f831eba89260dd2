// SPDX-License-Identifier: GPL-2.0-or-later
// Snapshots of a firewall's state, equal in the tests of both twins. The vectors contain the twins'
// outputs for them.
#ifndef SNAPSHOTS_H
#define SNAPSHOTS_H

#include <stdint.h>

#include "base/counts.h"
#include "control/process.h"
#include "state/snapshot.h"

/// Returns a snapshot with two queues and a policy of three rules. One queue has lost packets and
/// does not reconcile. The caller must not free it.
const struct snapshot *snapshots_full(void);

/// Returns a snapshot with one idle queue and no policy.
const struct snapshot *snapshots_idle(void);

/// Returns a value for each of the process's counts (enum count): ten times its index, plus one.
const uint64_t *snapshots_counts(void);

const struct control_self *snapshots_self(void);

/// Returns the text of a file in ../tests/corpus/vectors, with every PROGRAM, VERSION and TWIN
/// replaced by this twin's. The caller frees the text.
char *snapshots_vector(const char *name);

#endif
