# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# doctor's findings on a host that the next boot would leave unprotected, and its cures as printed.
network
network_at_boot port_is_closed 23
cp /usr/share/twinwall/policy/web-server.nft /etc/twinwall/web.nft
cp /etc/nftables.conf $kept/nftables.conf
instance web "--queue 0 --policy /etc/twinwall/web.nft"

# cure PATTERN: prints the cure of a finding; fails if there is none.
cure() {
    fwctl doctor --json | jq -r --arg what "$1" 'select(.what // "" | test($what)) | .cure' | sed 's/^sudo //' | grep .
}

# cures PATTERN: succeeds if a finding's cure, run as printed, removes the finding.
cures() {
    local command
    # doctor has no finding about rules if nft takes too long.
    command=$(patiently cure "$1") && bash -c "$command" && not says "$1" fwctl doctor
}

check starts systemctl start twinwall-rust@web
check without-a-rule cures 'no rule leads packets to queue 0'
check decides patiently web_answers
check other-ports-are-closed port_is_closed 23
check unit-is-not-enabled cures 'twinwall-rust@web.service is not enabled'
check rules-are-not-kept cures '/etc/nftables.conf leads no packet to a queue'
reboot_machine
check decides-before-the-network was_first nftables twinwall-rust@web
check decides-after-a-boot web_answers
check other-ports-are-closed-after-a-boot port_is_closed 23
systemctl disable --quiet nftables
check rules-are-off cures 'nftables.service is off'
chmod 600 /etc/twinwall/web.nft
check policy-is-root-s-alone says 'the next reload would fail: .*Permission denied' fwctl doctor
mv $kept/nftables.conf /etc/nftables.conf
systemctl disable --quiet nftables
