// SPDX-License-Identifier: GPL-2.0-or-later
// Parser of statements with state: counter, limit, quota, log. Each function parses the part after
// its word, fills in a zeroed struct, and returns 0 or -EINVAL.
#ifndef POLICY_PARSE_COUNT_H
#define POLICY_PARSE_COUNT_H

#include "policy/parse/state.h"

int parse_count_counter(struct parser *parser, struct policy_counter *counter);
int parse_count_limit(struct parser *parser, struct policy_limit *limit);
int parse_count_quota(struct parser *parser, struct policy_quota *quota);
int parse_count_log(struct parser *parser, struct policy_log *log);

#endif
