// SPDX-License-Identifier: GPL-2.0-or-later
//! Raw bindings to libnetfilter_queue and libmnl, and to the kernel headers behind them
//! (`linux/netlink.h`, `linux/netfilter.h`, `linux/netfilter/nfnetlink.h` and
//! `linux/netfilter/nfnetlink_queue.h`): functions, structs and constants as C has them, with
//! nothing on top and nothing typed by hand. Multi-byte fields are in the byte order that the
//! header gives (`__be32` is network order, `__u32` the host's).
//!
//! # How it is pinned
//!
//! `src/bindings.rs` is committed. `./regenerate` makes it from `wrapper.h` with the bindgen that
//! `Cargo.toml` names exactly, for the Rust that the workspace names as its oldest; the allow-list
//! is `examples/regenerate.rs`. The head of `src/bindings.rs` says which bindgen and which Debian
//! packages it came from. `./regenerate --check` makes it again in a temporary file and fails,
//! with a diff, if anything below that head differs. Both need `libclang-dev`; a normal build needs
//! `libnetfilter-queue-dev` and `libmnl-dev` only.
//!
//! Sizes and offsets are asserted while the crate compiles (by bindgen) and, for the structs that
//! go over the wire, once more in `tests/layout.rs` against the figures of the kernel's interface.

// C names its types in small letters.
#[allow(non_camel_case_types)]
mod bindings;

pub use bindings::*;
