// SPDX-License-Identifier: GPL-2.0-or-later
//! What the fuzz targets share.

pub mod guarded;
