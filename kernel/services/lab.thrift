// SPDX-License-Identifier: GPL-2.0-or-later
// The services of the lab, as userland/c/service.h has them.
namespace cpp lab

struct Version {
    1: i32 major
    2: i32 minor
    3: i32 micro
}

struct Verdict {
    1: i32 accepted
    2: i32 mark
}

service Lab {
    string name()
    Version version()
    void ping()
    i32 add(1: i32 a, 2: i32 b)
    i32 subtract(1: i32 a, 2: i32 b)
    i32 multiply(1: i32 a, 2: i32 b)
    i32 divide(1: i32 a, 2: i32 b)
    /** Answered when the next tick has come: its time, CLOCK_MONOTONIC. */
    i64 tick()
    Verdict verdict(1: binary packet)
}
