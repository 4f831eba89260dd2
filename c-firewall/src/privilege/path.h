// SPDX-License-Identifier: GPL-2.0-or-later
// Ways to files that others can't bend: the folder of a file is opened component by component, and
// what is done with the file is done in that folder, without following a link.
#ifndef PRIVILEGE_PATH_H
#define PRIVILEGE_PATH_H

/// Opens the folder of a file, for use with openat and its like. A link on the way is followed only
/// in a folder that nobody may write to but its owner, and that is root or who runs the program.
/// - name: set to the last part of path, which may be anything, or nothing at all.
/// - Returns a descriptor (O_PATH) or -errno: -ELOOP for a link that others could have made,
///   -EISDIR for a path that ends with a slash.
int privilege_path_folder(const char *path, const char **name);

#endif
