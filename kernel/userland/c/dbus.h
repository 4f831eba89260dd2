// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Common parts of the D-Bus transports: the names of the lab's object, and a private daemon.
#pragma once

#define DBUS_LAB_NAME "org.twinwall.Lab"
#define DBUS_LAB_PATH "/lab"

/// The calculator's method names, indexed by enum service_operation.
extern const char *const dbus_operations[];

/// Starts a dbus-daemon that ends with this process, and adds it as a peer, whose CPU time is
/// counted; returns its address.
const char *dbus_daemon_start(void);
void dbus_daemon_end(void);
