# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# A mistake over SSH is reverted; the policy loaded by a restart before and after the confirmation; a policy that can't
# be checked at boot.
network
ssh_server
mkdir -p /run/apply
input() {
    printf 'table inet host {\n\tchain input {\n\t\ttype filter hook input priority filter; policy %s;\n%s\t}\n}\n' "$1" "$2"
}
input accept '' >/etc/twinwall/policy.nft
input drop $'\t\ttcp dport 2222 accept\n' >/run/apply/mistake.nft
input accept $'\t\tudp dport 7777 drop\n' >/run/apply/other.nft

rules() {
    nft list ruleset
}

# The same session throughout: one connection, in which commands run.
held=/run/apply/held
long_session() {
    timeout 5 ip netns exec client ssh -S "$held" root@192.0.2.1 "$1"
}

# heals SECONDS
heals() {
    local is_cut=1
    long_session "fwctl apply --confirm $1 /run/apply/mistake.nft" || true
    patiently says "dport 2222" rules || return 1
    not long_session true && not session true && is_cut=0
    patiently session true && patiently long_session true && [ $is_cut = 0 ]
}

# Simulates a restart for apply: no rule, no unit, another boot id.
restarts() {
    systemctl stop twinwall.service twinwall-revert.timer 2>/dev/null
    nft flush ruleset
    cat /proc/sys/kernel/random/uuid >/run/apply/boot_id
    umount /proc/sys/kernel/random/boot_id 2>/dev/null
    mount --bind /run/apply/boot_id /proc/sys/kernel/random/boot_id
    systemctl start twinwall.service
}

clean=$(rules)
check applies fwctl apply --now
good=$(rules)
patiently ip netns exec client ssh "${ssh_options[@]}" -M -S "$held" -f -N root@192.0.2.1
check session-runs patiently long_session true
check a-mistake-heals within_a_confirm heals
check rules-are-as-before same "$good" rules
check says-why says "reverted: not confirmed in time" fwctl history
check pending fwctl apply --confirm 600 /run/apply/other.nft
check restarts-before-confirm restarts
check unconfirmed-is-not-loaded not says "dport 7777" rules
check the-good-one-is says "type filter hook input" nft list table inet host
check pending-again fwctl apply --confirm 600 /run/apply/other.nft
check confirms fwctl confirm
check restarts-after-confirm restarts
check confirmed-is-loaded says "dport 7777" rules
check the-file-again fwctl apply --now
echo nonsense >/etc/twinwall/policy.nft
check a-bad-file-fails-the-unit not restarts
check the-last-good-one-is-loaded says "type filter hook input" nft list table inet host
check the-journal-says-so patiently says "policy.nft:1: \"nonsense\" is no command" journalctl --unit twinwall.service --no-pager
check still-there patiently session true
check unapplies fwctl unapply
check no-rule same "$clean" rules
systemctl stop twinwall.service 2>/dev/null
systemctl reset-failed twinwall.service 2>/dev/null
umount /proc/sys/kernel/random/boot_id
ip netns exec client ssh -S "$held" -O exit root@192.0.2.1 2>/dev/null
rm -r /run/apply /etc/twinwall/policy.nft
