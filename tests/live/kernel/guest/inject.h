// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Fault injection in the kernel: each allocation and copy of a task fails once, by
/// /proc/thread-self/fail-nth.
#pragma once

/// Calls `run` once for each possible fault, and once without a fault. Calls `check` without a
/// fault after each of these calls. Does nothing if the kernel has no fault injection.
void with_faults(void (*run)(void), void (*check)(void));
