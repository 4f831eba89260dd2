# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Kernel of --debug: built from Debian's sources, the minimum that boots, with debug options (vm/debug.config). Sources
# and objects stay in build/vm, since modules are built against them.

debug_source=$KEPT/debug-source
debug_build=$KEPT/debug-build

debug_make() {
    nice -n 10 make --no-print-directory -C "$debug_source" O="$debug_build" "$@" >"$KEPT/debug.log" 2>&1 ||
        fail "$BROKEN" "the debug kernel can't be built: make's words are in $KEPT/debug.log"
}

unpack_debug_source() {
    local package tree=$KEPT/debug-package
    [ ! -e "$debug_source/Makefile" ] || return 0
    package=$(package_of vm-kernel-debug linux-source)
    rm -rf "$tree" "$debug_source.new"
    mkdir -p "$tree" "$debug_source.new"
    unpack "$tree" "$package"
    tar --extract --directory "$debug_source.new" --strip-components=1 --file "$tree/usr/src/$package.tar.xz"
    mv "$debug_source.new" "$debug_source"
    rm -rf "$tree"
}

# Fails if the sources don't support an option any more, or another option disables it.
check_debug_config() {
    local line
    while read -r line; do
        grep -qx "$line" "$debug_build/.config" || fail "$BROKEN" "vm/debug.config: the kernel's sources don't take $line"
    done < <(grep '^CONFIG_' "$VM/debug.config")
}

# Fills a kernel's folder like unpack_kernel.
build_debug_kernel() {
    local folder=$1 new=$1.new release file
    need vm-debug flex bison bc
    unpack_debug_source
    mkdir -p "$debug_build"
    debug_make tinyconfig
    "$debug_source/scripts/kconfig/merge_config.sh" -m -O "$debug_build" "$debug_build/.config" "$VM/debug.config" \
        >"$KEPT/debug.log" 2>&1
    debug_make olddefconfig
    check_debug_config
    echo "vm/run: building the debug kernel, once: some 8 minutes of a processor" >&2
    debug_make --jobs="$(nproc)" bzImage modules
    release=$(<"$debug_build/include/config/kernel.release")
    rm -rf "$folder" "$new"
    mkdir -p "$new/boot" "$new/lib/modules/$release"
    cp "$debug_build/arch/x86/boot/bzImage" "$new/boot/vmlinuz-$release"
    cp "$debug_build/.config" "$new/boot/config-$release"
    for file in modules.order modules.builtin modules.builtin.modinfo; do
        cp "$debug_build/$file" "$new/lib/modules/$release"
    done
    depmod --basedir "$new" "$release"
    echo "$release $release" >"$new/version"
    mv "$new" "$folder"
}
