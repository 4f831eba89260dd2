# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Debian's kernels and their headers, unpacked from their packages into build/vm. No package is installed on this
# machine.

# Prints the packages of a group in deps/debian.txt that match a pattern.
package_of() {
    "$ROOT/deps/install" --list "$1" | grep -- "$2"
}

# Prints a package's dependencies that match a pattern, by apt's lists.
depends_of() {
    apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$1" |
        sed -n 's/^  Depends: //p' | grep -- "$2"
}

# unpack FOLDER PACKAGE[=VERSION]...
unpack() {
    local folder=$1 fetched package
    shift
    fetched=$(mktemp -d "$KEPT/fetch.XXXXXX")
    (cd "$fetched" && apt-get --quiet=2 -o APT::Sandbox::User=root download "$@") ||
        fail "$CANNOT_RUN" "apt-get can't fetch $* (its messages are above): apt-get update"
    for package in "$fetched"/*.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
    rm -r "$fetched"
}

# Sets kernel, modules_folder and kernel_version; unpacks them once. A lock per kernel allows one process at a time:
# that of --debug takes minutes to build.
find_kernel() {
    [ -z "$kernel" ] || {
        kernel_version=${modules_folder##*/}
        return 0
    }
    local folder=$KEPT/kernel-$flavour
    need vm depmod modprobe modinfo
    exec {lock}>"$KEPT/lock-$flavour"
    flock "$lock"
    if [ "$flavour" = debug ]; then
        [ "$folder/version" -nt "$VM/debug.config" ] || build_debug_kernel "$folder"
    else
        [ -e "$folder/version" ] || unpack_kernel "$folder"
    fi
    exec {lock}>&-
    kernel_version=$(cut -d ' ' -f 1 "$folder/version")
    kernel=$folder/boot/vmlinuz-$kernel_version
    modules_folder=$folder/lib/modules/$kernel_version
}

# The file `version` has the versions of the kernel and of its package; the headers must have the same.
unpack_kernel() {
    local folder=$1 name version new=$1.new
    rm -rf "$folder" "$new"
    mkdir -p "$new"
    name=$(depends_of "$(package_of "vm-kernel-$flavour" linux-image)" '^linux-image-[0-9]') ||
        fail "$CANNOT_RUN" "apt knows no kernel: run apt-get update"
    version=$(apt-cache show --no-all-versions "$name" | sed -n 's/^Version: //p')
    unpack "$new" "$name=$version"
    depmod --basedir "$new" "${name#linux-image-}"
    echo "${name#linux-image-} $version" >"$new/version"
    mv "$new" "$folder"
}

print_headers() {
    find_kernel
    if [ "$flavour" = debug ]; then
        echo "$debug_build"
        return
    fi
    local folder=$KEPT/headers-$flavour new=$KEPT/headers-$flavour.new version package
    version=$(cut -d ' ' -f 2 "$KEPT/kernel-$flavour/version")
    exec {lock}>"$KEPT/lock-$flavour"
    flock "$lock"
    if [ ! -e "$folder/version" ]; then
        rm -rf "$folder" "$new"
        mkdir -p "$new"
        local packages=("linux-headers-$kernel_version=$version")
        for package in $(depends_of "linux-headers-$kernel_version" '^linux-headers'); do
            packages+=("$package=$version")
        done
        # The headers depend on its version or a later one.
        mapfile -t -O ${#packages[@]} packages < <(depends_of "linux-headers-$kernel_version" '^linux-kbuild')
        unpack "$new" "${packages[@]}"
        # The headers' Makefile and links refer to each other by the paths of an installed package.
        find "$new/usr" -type l -lname '/usr/*' -printf '%p %l\n' | while read -r link target; do
            ln -sfn "$folder$target" "$link"
        done
        grep -rlE '(^|[ =])/usr/(src|lib)/linux-' "$new/usr/src" --include=Makefile |
            xargs --no-run-if-empty sed -i "s|/usr/src/linux-|$folder/usr/src/linux-|; s|/usr/lib/linux-|$folder/usr/lib/linux-|"
        echo "$version" >"$new/version"
        mv "$new" "$folder"
    fi
    exec {lock}>&-
    echo "$folder/usr/src/linux-headers-$kernel_version"
}

# Prints the files of a module and of its dependencies, in load order.
module_files() {
    local said
    said=$(modprobe --dirname "${modules_folder%/lib/modules/*}" --set-version "$kernel_version" \
        --ignore-install --show-depends "$1" 2>&1) || fail 2 "--module $1: $said"
    sed -n 's/^insmod \([^ ]*\).*/\1/p' <<<"$said"
}
