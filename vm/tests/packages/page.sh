# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The commands of docs/RUN.md, unchanged: a host is protected, also from a boot's first packet, and boots with its other
# rules when the packages are purged.
network
page=$(echo /usr/share/doc/twinwall-common/RUN.md*)

# commands SECTION: prints the lines of its code blocks.
commands() {
    zcat --force "$page" | sed -n "/^## $1\$/,/^## /s/^    \([a-z]\)/\1/p"
}

# run_all PREFIX: runs the commands on stdin, one after another.
run_all() {
    local line
    while read -r line; do
        check "$1: $line" bash -c "$line"
    done
}

decides_packets() {
    local before
    before=$(fwctl status --json | jq '.queues[0].received') && web_answers &&
        [ "$(fwctl status --json | jq '.queues[0].received')" -gt "$before" ]
}

failed_units() {
    systemctl list-units --failed --plain --no-legend
}

# Prints nft's tables, and our files, units and processes. The packages themselves are in /usr/local/share/vm.
remains() {
    nft list tables
    find /etc /usr /var /run -xdev -path '*twinwall*' -not -path '/usr/local/share/vm/*'
    systemctl list-units --all --plain --no-legend 'twinwall*'
    pgrep -l 'firewall|twinw'
}

# Debian's own table, and what the operator has made.
left='table inet filter
table inet own
/etc/twinwall
/etc/twinwall/web.conf'

# The examples are installed as on a fresh host, whatever ran before.
check as-installed sh -c 'dpkg --force-confmiss --install /usr/local/share/vm/*.deb'
cp /etc/nftables.conf $kept/nftables.conf
commands Install | grep -vE '^(make|apt|deps/install) ' | run_all install
commands "Before the start" | grep nft | run_all rules
cat >>/etc/nftables.conf <<'NFT'
table inet own {
}
NFT
network_at_boot decides_packets
check decides-packets decides_packets
reboot_machine
check decides-before-the-network was_first nftables twinwall-rust@web
check decides-packets-after-a-boot decides_packets
check no-unit-fails-in-the-boot same '' failed_units
sed -i 's/input\*/input/' /etc/nftables.conf
check a-broken-include-is-told says 'nftables.conf has a line that nft fails at' dpkg --purge twinwall-fleet twinwall-rust twinwall-c \
    twinwall-scanner twinwall-capture twinwall-common
check nft-fails-without-the-file not nft -f /etc/nftables.conf
sed -i 's/input.nft/input*.nft/' /etc/nftables.conf
reboot_machine
check nftables-is-healthy systemctl is-active nftables
check no-unit-fails-without-the-packages same '' failed_units
check only-other-rules-are-left same "$left" remains
check the-host-answers web_answers
check comes-again sh -c 'dpkg --install /usr/local/share/vm/*.deb'
mv $kept/nftables.conf /etc/nftables.conf
systemctl disable nftables 2>/dev/null
