// SPDX-License-Identifier: GPL-2.0-or-later
// What every test program includes: cmocka, in the order that it asks for.
#ifndef TEST_H
#define TEST_H

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#endif
