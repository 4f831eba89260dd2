// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// What the ways by D-Bus have in common: the names of the lab's object, and a daemon of its own.
#pragma once

#define DBUS_LAB_NAME "org.twinwall.Lab"
#define DBUS_LAB_PATH "/lab"

/// The calculator's methods, by enum service_operation.
extern const char *const dbus_operations[];

/// Starts a dbus-daemon that ends with this process: its address.
const char *dbus_daemon_start(void);
void dbus_daemon_end(void);
