// SPDX-License-Identifier: GPL-2.0-or-later

mod asked;
mod checksum;
mod follow;
mod many;
mod openers;
mod opening;
mod queries;
mod stream;
mod table;
