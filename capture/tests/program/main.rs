// SPDX-License-Identifier: GPL-2.0-or-later
//! The program on real interfaces, in namespaces of its own; tshark and capinfos judge its files.

mod afxdp;
mod disk;
mod files;
mod interface;
mod loss;
mod nflog;
mod packets;
mod place;
mod refusals;
mod rights;

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_capture")
}
