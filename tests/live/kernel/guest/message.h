// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Functions for requests to /dev/twinwall-message, for tests. Each returns 0 or -errno, unless its
/// comment says otherwise.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "twinwall_message.h"

/// Port of /dev/twinwall-message (no network port) that a test uses; only one test runs at a time.
#define PORT 7

/// Opens the device. Returns the descriptor; fails the test on an error.
/// - flags: for open(2), besides O_RDWR.
int device_open(int flags);
int message_bind(int fd, uint32_t port, uint32_t queue, uint32_t flags);
int message_connect(int fd, uint32_t port);
/// Opens the device as a server or a client of PORT; only the test's own user or root can connect
/// to the server. Returns the descriptor; fails the test on an error.
/// - queue: maximum number of waiting requests.
int server_open(uint32_t queue);
int client_open(void);

/// Sends `length` bytes and waits for a reply. Returns the length of the reply, or -errno.
/// - seconds: time limit; 0 = none.
long message_call(int fd, const void *request, size_t length, void *room, size_t room_length,
                  double seconds);
long message_send(int fd, const void *request, size_t length);
/// Receives a request. Returns 0 or -errno.
/// - seconds: time limit; 0 = none.
/// - taken: out: description of the request.
int message_take(int fd, void *room, size_t room_length, double seconds,
                 struct twinwall_receive *taken);
int message_answer(int fd, uint64_t token, const void *answer, size_t length);
/// Replies to each request with the request's bytes, without end.
void serve_echo(int fd);
/// Returns the deadline in `seconds` from now (CLOCK_MONOTONIC, ns); 0 = none, if `seconds` is 0.
uint64_t deadline_in(double seconds);
/// Returns the number of pages that are pinned on the whole machine. Only root can call it, because
/// it makes the kernel update the count.
long long pinned_pages(void);
