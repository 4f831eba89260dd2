// SPDX-License-Identifier: GPL-2.0-or-later

mod clock;
mod counts;
mod log;
mod object;
mod pages;
