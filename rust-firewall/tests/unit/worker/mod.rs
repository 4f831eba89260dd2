// SPDX-License-Identifier: GPL-2.0-or-later

mod elements;
mod event;
mod reject;
mod stats;
mod tracked;
mod wait;
