// SPDX-License-Identifier: GPL-2.0-or-later
//! The program on real interfaces, in namespaces of its own.

// The place of capture's tests; these use a part of it.
#[allow(dead_code)]
#[path = "../../../capture/tests/program/place.rs"]
mod place;
mod tools;

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_capture-lab")
}
