// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Faults in the kernel: each allocation and copy of a task fails once, by
/// /proc/thread-self/fail-nth.
#pragma once

/// Calls `run` once for each fault that it can meet and once without any, and `check` behind each
/// of them, without a fault. Does nothing where the kernel has no such faults.
void with_faults(void (*run)(void), void (*check)(void));
