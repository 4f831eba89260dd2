// SPDX-License-Identifier: GPL-2.0-or-later
//! Values from small pools, so that rules, sets and packets match each other.

use super::super::field::{interface_value, names, Field, Kind, CT_STATES};
use super::super::random::Random;

/// Returns a random value of a field from a short list of values.
/// - interfaces: the list for fields of interfaces.
pub fn pool_value(random: &mut Random, field: Field, interfaces: &[&'static str]) -> u128 {
    const IPV4: [u32; 16] = [
        0x0a00_0001,
        0x0a00_0002,
        0x0a00_0000,
        0x0a00_00ff,
        0x0a00_0100,
        0x0aff_ffff,
        0x0b00_0000,
        0xc000_0201,
        0xc000_0280,
        0xc633_6407,
        0xcb00_71ff,
        0x0102_0304,
        0xac10_0001,
        0xc0a8_0101,
        0xc0a8_01fe,
        0x0808_0808,
    ];
    const IPV6: [u128; 10] = [
        0x2001_0db8 << 96 | 1,
        0x2001_0db8 << 96 | 2,
        0x2001_0db8 << 96,
        0x2001_0db8 << 96 | 0xffff_ffff,
        0x2001_0db8_0001 << 80 | 1,
        0x2001_0db8_ffff << 80 | 0xffff_ffff_ffff_ffff,
        0xfd77 << 112 | 1,
        0x2606_4700 << 96 | 0x1111,
        0x2001_0db9 << 96 | 1,
        0x0064_ff9b << 96 | 0x0a00_0001,
    ];
    const PORTS: [u128; 16] = [
        0, 1, 21, 22, 23, 53, 79, 80, 81, 443, 1023, 1024, 8080, 32768, 65534, 65535,
    ];
    const SMALL: [u128; 12] = [0, 1, 2, 5, 63, 64, 65, 127, 128, 254, 255, 32];
    const LENGTHS: [u128; 10] = [20, 28, 39, 40, 41, 44, 48, 60, 100, 1500];
    const FRAGMENTS: [u128; 8] = [0, 0x4000, 0x2000, 1, 0x2001, 0x1fff, 0x8000, 0x6000];
    const MARKS: [u128; 8] = [0, 1, 2, 0x100, 0xff, 0x8000_0000, 0xffff_ffff, 7];
    const IDS: [u128; 5] = [0, 33, 1000, 1001, 65534];
    let named = |random: &mut Random, kind| random.pick(names(kind)).1;
    let value = match field.kind() {
        Kind::Ipv4Addr => u128::from(*random.pick(&IPV4)),
        Kind::Ipv6Addr => *random.pick(&IPV6),
        Kind::InetService => *random.pick(&PORTS),
        Kind::InetProto if random.percent(50) => *random.pick(&[1, 6, 17, 58]),
        Kind::InetProto if random.percent(20) => {
            *random.pick(&[0, 43, 44, 51, 59, 60, 135, 253, 255])
        }
        Kind::TcpFlag => *random.pick(&[2, 0x12, 0x10, 4, 1, 0x11, 0, 0xff, 0xc2, 0x18]),
        Kind::Mark => *random.pick(&MARKS),
        Kind::Uid | Kind::Gid => *random.pick(&IDS),
        Kind::Ifname | Kind::IfaceIndex => interface_value(random.pick::<&str>(interfaces)),
        Kind::Boolean => u128::from(random.percent(50)),
        Kind::CtState => random.pick(&CT_STATES).1,
        Kind::Integer if field == Field::IpFragOff => *random.pick(&FRAGMENTS),
        Kind::Integer if matches!(field, Field::IpLength | Field::MetaLength) => {
            *random.pick(&LENGTHS)
        }
        Kind::Integer => *random.pick(&SMALL),
        kind if kind == Kind::NfProto || random.percent(70) => named(random, kind),
        _ => *random.pick(&SMALL),
    };
    match field.kind() {
        // The value of an interface index is the interface's name until the policy is loaded.
        Kind::IfaceIndex => value,
        _ => value & field.max(),
    }
}
