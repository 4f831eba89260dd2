# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=functions
# The commands of docs/RUN.md, unchanged: a host is protected, also after a boot, and has its other rules when the
# packages are removed.
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

# Simulates a boot: no rules are loaded, and enabled units start.
boot() {
    systemctl stop nftables 'twinwall-*@*.service'
    nft flush ruleset
    systemctl start sysinit.target multi-user.target
}

decides_packets() {
    local before
    before=$(fwctl status --json | jq '.queues[0].received') && web_answers &&
        [ "$(fwctl status --json | jq '.queues[0].received')" -gt "$before" ]
}

loads_other_rules() {
    systemctl restart nftables && nft list table inet own
}

# The examples are installed as on a fresh host, whatever ran before.
check as-installed sh -c 'dpkg --force-confmiss --install /usr/local/share/vm/*.deb'
cp /etc/nftables.conf /run/nftables.conf
commands Install | grep -vE '^(make|apt|deps/install) ' | run_all install
commands "Before the start" | grep nft | run_all rules
cat >>/etc/nftables.conf <<'NFT'
table inet own {
}
NFT
check decides-packets decides_packets
check boots boot
check decides-packets-after-a-boot patiently decides_packets
sed -i 's/input\*/input/' /etc/nftables.conf
check a-broken-include-is-told says 'nftables.conf has a line that nft fails at' dpkg --purge twinwall-fleet twinwall-rust twinwall-c \
    twinwall-scanner twinwall-common
check nft-fails-without-the-file not nft -f /etc/nftables.conf
sed -i 's/input.nft/input*.nft/' /etc/nftables.conf
check boots-without-the-packages boot
check other-rules-are-loaded loads_other_rules
check the-host-answers web_answers
check comes-again sh -c 'dpkg --install /usr/local/share/vm/*.deb'
mv /run/nftables.conf /etc/nftables.conf
systemctl disable nftables 2>/dev/null
