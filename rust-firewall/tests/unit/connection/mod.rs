// SPDX-License-Identifier: GPL-2.0-or-later

mod follow;
mod many;
mod stream;
mod table;
