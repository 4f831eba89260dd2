# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Contents of a machine: a folder with the machine's paths, and its archive.

# Prints the paths of the shared libraries that a program of this machine needs; nothing for other files.
libraries_of() {
    ldd "$1" 2>/dev/null | sed -nE 's/.*=> (\/[^ ]+) .*/\1/p; s/^\s*(\/[^ ]+) .*/\1/p'
}

# put FOLDER HERE[:THERE]: copies a file or folder with its libraries, unless the machine has its own.
put() {
    local folder=$1 here=${2%%:*} there
    there=$(realpath --no-symlinks "$here")
    [[ $2 != *:* ]] || there=${2#*:}
    [ -e "$here" ] || fail 2 "--file $here: there is no such file"
    [[ $there == /* ]] || fail 2 "--file $2: the path in the machine begins with /"
    mkdir -p "$folder$(dirname "$there")"
    if [ -d "$here" ]; then
        mkdir -p "$folder$there"
        cp --recursive --preserve=mode,links,timestamps "$here/." "$folder$there"
        return
    fi
    cp --dereference --preserve=mode,timestamps "$here" "$folder$there"
    [ "$mode" = initramfs ] || return 0
    local library
    for library in $(libraries_of "$here"); do
        [ -e "$folder$library" ] || install -D "$library" "$folder$library"
    done
}

# Copies all of --file into a folder.
put_files() {
    local file
    for file in "${files[@]}"; do
        put "$1" "$file"
    done
}

# Adds the files of a module and of its dependencies to `load`.
add_module() {
    mapfile -t -O ${#load[@]} load < <(module_files "$1")
    wait $! # what was said against it
}

# put_modules FOLDER NAME...: copies the modules, those of --ko, and their dependencies to FOLDER/vm/modules, numbered
# in load order.
put_modules() {
    local folder=$1/vm/modules name file number=100 load=()
    local -A known=()
    shift
    mkdir -p "$folder"
    for name in "$@"; do
        add_module "$name"
    done
    for file in "${ko_files[@]}"; do
        for name in $(modinfo --field depends "$file" | tr , ' '); do
            # The dependency may be an earlier --ko.
            [[ " ${ko_files[*]}" == *"/$name.ko"* ]] || add_module "$name"
        done
        load+=("$file")
    done
    for file in "${load[@]}"; do
        [ -z "${known[$file]:-}" ] || continue
        known[$file]=yes
        cp "$file" "$folder/$number-$(basename "$file")"
        number=$((number + 1))
    done
}

# archive FOLDER FILE: makes an archive in the kernel's format; all files belong to root.
archive() {
    (cd "$1" && find . -mindepth 1 -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >"$2"
}
