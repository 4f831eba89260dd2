# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Disk of `vm/run --system`: a Debian base, made once, and this project's packages, installed whenever they change.

# Prints the sources of Debian's packages that apt of this machine uses, as lines of sources.list.
debian_sources() {
    apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
        sort --unique
}

release_of_this_machine() {
    sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
}

# Prints the packages of the base: Debian's packages of the list, and the first alternatives of our packages'
# dependencies.
base_packages() {
    local package
    "$ROOT/deps/install" --list vm-image
    for package in "${packages[@]}"; do
        dpkg-deb --field "$package" Depends
    done | tr ',' '\n' | sed -E 's/^ *([a-z0-9.+-]+).*/\1/; /^(twinwall-|systemd$)/d'
}

# Sets `image`. Makes it by installing the packages of a folder into a base; that takes seconds.
find_image() {
    local base packages list
    packages=("$ROOT"/build/deb/*.deb)
    [ -e "${packages[0]}" ] || fail "$BROKEN" "there are no packages in build/deb: run make deb"
    list=$(base_packages | sort --unique | paste -sd ,)
    base=$KEPT/base-$({
        echo "$list $(<"$KEPT/kernel-$flavour/version") $(release_of_this_machine)"
        cat "$VM/lib/image.sh" "$VM"/guest/agent*
    } | sha256sum | cut -c 1-16).tar
    image=$KEPT/image-$(echo "$base" | cat - "${packages[@]}" | sha256sum | cut -c 1-16).ext4
    exec {lock}>"$KEPT/lock"
    flock "$lock"
    if [ ! -e "$image" ]; then
        [ "$EUID" -eq 0 ] || fail "$CANNOT_RUN" "only root can make the disk: run this by sudo once"
        need vm mmdebstrap mke2fs
        [ -e "$base" ] || make_base "$base" "$list"
        rm -f "$KEPT"/image-*
        make_image "$base" "${packages[@]}"
    fi
    exec {lock}>&-
}

make_base() {
    local base=$1 list=$2 sources tree=$work/base
    sources=$(debian_sources)
    [ -n "$sources" ] || fail "$CANNOT_RUN" "apt knows no source of Debian's packages: run apt-get update"
    echo "vm/run: making a Debian ($base), once" >&2
    rm -f "$KEPT"/base-*
    mmdebstrap --quiet --variant=minbase --include="$list" "$(release_of_this_machine)" "$tree" - <<<"$sources" >&2 ||
        fail "$CANNOT_RUN" "mmdebstrap can't make a Debian (its messages are above)"
    furnish "$tree"
    tar --create --directory="$tree" --xattrs --file "$base.new" .
    mv "$base.new" "$base"
    rm -r "$tree"
}

# Adds the machine's own files: modules, the agent, names. Masks units that only delay the boot, and servers on ports of
# the tests.
furnish() {
    local tree=$1 unit
    mkdir -p "$tree/usr/lib/modules"
    cp -a "$modules_folder" "$tree/usr/lib/modules/"
    # Programs that search the kernel's configuration find it.
    cp "$KEPT/kernel-$flavour/boot/config-$kernel_version" "$tree/boot/"
    install -D -t "$tree/usr/local/lib/vm" "$VM/guest/agent"
    install -D -m 644 -t "$tree/etc/systemd/system" "$VM/guest/agent.service"
    ln -s ../agent.service -t "$(mkdir -p "$tree/etc/systemd/system/multi-user.target.wants" && echo "$_")"
    ln -sf /lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
    echo vm >"$tree/etc/hostname"
    printf '127.0.0.1 localhost vm\n::1 localhost\n' >"$tree/etc/hosts"
    echo '/dev/vda / ext4 defaults 0 0' >"$tree/etc/fstab"
    # Otherwise files of --file below /tmp would be deleted at boot.
    mkdir -p "$tree/etc/tmpfiles.d"
    ln -s /dev/null "$tree/etc/tmpfiles.d/tmp.conf"
    mkdir -p "$tree/var/log/journal"
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        etcd.service fstrim.timer getty@tty1.service nginx.service serial-getty@ttyS0.service systemd-pstore.service; do
        ln -sf /dev/null "$tree/etc/systemd/system/$unit"
    done
}

# make_image BASE PACKAGE...
make_image() {
    local base=$1 tree=$work/image
    shift
    mkdir "$tree"
    tar --extract --directory="$tree" --xattrs --xattrs-include='*' --file "$base"
    # They remain, for tests that remove and reinstall them.
    install -D -m 644 -t "$tree/usr/local/share/vm" "$@"
    chroot "$tree" sh -c 'dpkg --install /usr/local/share/vm/*.deb' >"$work/dpkg" 2>&1 || {
        cat "$work/dpkg" >&2
        fail "$BROKEN" "our packages can't be installed (dpkg's words stand above)"
    }
    mke2fs -q -t ext4 -E lazy_itable_init=1 -d "$tree" "$image.new" 3G >/dev/null
    mv "$image.new" "$image"
    rm -rf "$tree"
}
