// SPDX-License-Identifier: GPL-2.0-or-later
//! The program against real servers, in namespaces of its own.

mod connect;
mod fallback;
mod formats;
mod hostile;
mod loss;
mod place;
mod probes;
mod resume;
mod syn;
mod terminal;
mod usage;
mod verify;
