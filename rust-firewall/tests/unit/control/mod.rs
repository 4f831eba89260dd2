// SPDX-License-Identifier: GPL-2.0-or-later

mod answer;
mod client;
mod request;
