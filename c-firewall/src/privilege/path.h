// SPDX-License-Identifier: GPL-2.0-or-later
// Paths that other users can't redirect: a file's folder is opened component by component, and the
// file is accessed within that folder, without following a link.
#ifndef PRIVILEGE_PATH_H
#define PRIVILEGE_PATH_H

/// Opens the folder of a file, for openat and similar calls. Follows a link only in a folder that
/// is owned by root or by this process's user, and that only the owner may write to.
/// - name: out: the last component of path, which need not exist.
/// - Returns a descriptor (O_PATH) or -errno: -ELOOP for a link that other users could have
///   created, -EISDIR for a path that ends with a slash.
int privilege_path_folder(const char *path, const char **name);

#endif
