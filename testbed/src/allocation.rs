// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts a thread's allocations. A test program installs the allocator:
//! `#[global_allocator] static ALLOCATOR: Counting = Counting;`

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of allocations for threads that enable it.
pub struct Counting;

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count() {
    COUNTED.with(|counted| counted.set(counted.get().map(|count| count + 1)));
}

// SAFETY: it forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Runs `run`. Returns its result, and the number of allocations of this thread meanwhile. Panics if `Counting` is not
/// the program's allocator.
pub fn counted<T>(run: impl FnOnce() -> T) -> (T, u64) {
    COUNTED.with(|counted| counted.set(Some(0)));
    drop(std::hint::black_box(Box::new(0)));
    let noticed = COUNTED.with(|counted| counted.replace(Some(0)));
    assert_eq!(
        noticed,
        Some(1),
        "allocation::Counting is not the allocator"
    );
    let value = run();
    let allocated = COUNTED.with(Cell::take);
    (value, allocated.unwrap_or(0))
}
