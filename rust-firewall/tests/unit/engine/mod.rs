// SPDX-License-Identifier: GPL-2.0-or-later

mod candidates;
mod decide;
mod decide_random;
mod flow;
mod hostnames;
mod interface;
mod learned;
mod lookup;
mod lookup_hash;
mod set;
