// SPDX-License-Identifier: GPL-2.0-or-later

use rust_firewall::base::clock::unix_ms;

#[test]
fn the_time_is_that_of_this_century_in_milliseconds() {
    assert!((946_684_800_000..4_102_444_800_000).contains(&unix_ms()));
}
