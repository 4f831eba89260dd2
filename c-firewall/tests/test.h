// SPDX-License-Identifier: GPL-2.0-or-later
// Includes of every test program: cmocka.h, after the headers that it requires.
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
