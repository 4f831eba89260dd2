// SPDX-License-Identifier: GPL-2.0-or-later
// Reader of files with host names in the formats of block lists: hosts files, plain lists,
// `||name^` of ad blockers, response policy zones, and files of dnsmasq and unbound.
#ifndef POLICY_PARSE_LISTED_H
#define POLICY_PARSE_LISTED_H

#include "policy/parse/state.h"

/// Parses the part after `file`: STRING [`with` `parents`] END, and reads the names in the file.
/// Returns 0, or -errno with the failure set, also if the file has no names but lines of an unknown
/// form.
int parse_listed_read(struct parser *parser, struct policy_listed *listed);

#endif
