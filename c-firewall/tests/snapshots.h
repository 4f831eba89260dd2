// SPDX-License-Identifier: GPL-2.0-or-later
// A snapshot that both twins' tests make alike, of which the vectors tell what is said.
#ifndef SNAPSHOTS_H
#define SNAPSHOTS_H

#include <stdint.h>

#include "base/counts.h"
#include "control/process.h"
#include "state/snapshot.h"

/// Two queues, one of which lost packets and does not reconcile, and a policy of three rules.
/// Nothing of it is to be freed.
const struct snapshot *snapshots_full(void);

/// One idle queue and no policy.
const struct snapshot *snapshots_idle(void);

/// Each count is ten times its place, and one.
const uint64_t *snapshots_counts(void);

const struct control_self *snapshots_self(void);

/// The text of a file of ../tests/corpus/vectors, with every PROGRAM, VERSION and TWIN replaced by
/// this twin's. To be freed.
char *snapshots_vector(const char *name);

#endif
