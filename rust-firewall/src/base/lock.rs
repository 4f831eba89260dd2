// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks: a thread that panics ends the process, so nobody sees a value that is half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// State guarded by a lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
