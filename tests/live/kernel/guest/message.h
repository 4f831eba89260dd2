// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Access to /dev/twinwall-message for tests: one function per request; each returns 0 or -errno.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "twinwall_message.h"

/// The port that a test uses; tests run one after another.
#define PORT 7

/// An open file of the device; `flags` beside O_RDWR.
int device_open(int flags);
int message_bind(int fd, uint32_t port, uint32_t queue, uint32_t flags);
int message_connect(int fd, uint32_t port);
/// Opens a server and a client of PORT, which the test's own user may use.
int server_open(uint32_t queue);
int client_open(void);

/// Sends `length` bytes and waits for a reply: returns its length, or -errno. `seconds` is the
/// deadline from now, 0 for none.
long message_call(int fd, const void *request, size_t length, void *room, size_t room_length,
                  double seconds);
long message_send(int fd, const void *request, size_t length);
/// Receives a request: returns 0 or -errno. out: `taken` receives its description.
int message_take(int fd, void *room, size_t room_length, double seconds,
                 struct twinwall_receive *taken);
int message_answer(int fd, uint64_t token, const void *answer, size_t length);
/// Replies with the request itself, as long as there are callers and none is killed.
void serve_echo(int fd);
uint64_t deadline_in(double seconds);
/// Returns the pages that are still pinned on the whole machine; only root can have them counted
/// now.
long long pinned_pages(void);
