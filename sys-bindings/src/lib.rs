// SPDX-License-Identifier: GPL-2.0-or-later
//! Raw bindings to libnetfilter_queue, libmnl, and kernel headers (`linux/netlink.h`, `linux/netfilter.h`, and of
//! `linux/netfilter/` `nfnetlink.h`, `nfnetlink_conntrack.h` and `nfnetlink_queue.h`): functions, structs and constants
//! as in C, without wrappers. Only constants that C computes in macros are declared by hand, in `wrapper.h`. Multi-byte
//! fields have the byte order of the header (`__be32`: network order, `__u32`: host order).
//!
//! # How it is pinned
//!
//! `src/bindings.rs` is committed. `./regenerate` generates it from `wrapper.h`, with the exact bindgen version of
//! `Cargo.toml`, for the workspace's oldest supported Rust; the allow-list is in `examples/regenerate.rs`. The head of
//! `src/bindings.rs` names the bindgen version and the Debian packages. `./regenerate --check` generates it again in a
//! temporary file and fails, with a diff, if anything below that head differs. Both need `libclang-dev`; a normal build
//! needs only `pkg-config`, `libnetfilter-queue-dev` and `libmnl-dev`.
//!
//! Sizes and offsets are asserted at compile time (by bindgen) and, for structs in messages, again in `tests/layout.rs`
//! against the values of the kernel's interface.

// C type names are in lower case.
#[allow(non_camel_case_types)]
mod bindings;

pub use bindings::*;
