// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks: a thread that panics ends the process, so no thread can see a partly changed value.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. Its poisoning (by a thread that panicked with the lock) is ignored: a panic ends the process.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
