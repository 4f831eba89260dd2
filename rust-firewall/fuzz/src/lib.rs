// SPDX-License-Identifier: GPL-2.0-or-later
//! Code that the fuzz targets share.

pub mod content;
pub mod guarded;
pub mod server;
