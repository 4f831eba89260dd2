// SPDX-License-Identifier: GPL-2.0-or-later

mod channel;
mod memory;
mod state;
