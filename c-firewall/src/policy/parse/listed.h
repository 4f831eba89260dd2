// SPDX-License-Identifier: GPL-2.0-or-later
// Files of names of hosts, as block lists come: hosts files, plain lists, `||name^` of ad blockers,
// response policy zones, and what dnsmasq and unbound read.
#ifndef POLICY_PARSE_LISTED_H
#define POLICY_PARSE_LISTED_H

#include "policy/parse/state.h"

/// After `file` was taken: takes STRING [`with` `parents`] END and reads the file's names. Returns
/// 0, or -errno with the failure told.
int parse_listed_read(struct parser *parser, struct policy_listed *listed);

#endif
