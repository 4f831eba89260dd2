// SPDX-License-Identifier: GPL-2.0-or-later
//! The Rust twin's modules, for its program, its tests and its fuzzers.
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod packet;
