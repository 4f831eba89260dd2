// SPDX-License-Identifier: GPL-2.0-or-later

mod asked;
mod follow;
mod many;
mod stream;
mod table;
