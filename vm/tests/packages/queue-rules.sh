# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The shipped nft rules: loaded twice they exist once; a policy with `ct state` receives states; they are removed
# without a trace.
network
instance web "--queue 0 --policy /usr/share/twinwall/policy/web-server.nft"
rules=/usr/share/twinwall/queue

times_loaded() {
    nft list tables | grep -c twinwall_queue
}

for name in input host; do
    check $name-loads nft -f $rules/$name.nft
    check $name-loads-again nft -f $rules/$name.nft
    check $name-is-there-once same 1 times_loaded
    check $name-passes-while-nothing-runs web_answers
done
check iptables-rules-load says 'unload takes them back' /usr/share/twinwall/load loopback-9999
check iptables-rules-are-there says 'NFQUEUE' iptables -S TWINWALL
check iptables-rules-go /usr/share/twinwall/unload
check starts systemctl start twinwall-rust@web
check http web_answers
check other-ports-are-closed port_is_closed 23
check connections-are-followed says '^ *[1-9]' cat /proc/sys/net/netfilter/nf_conntrack_count
nft delete table inet twinwall_queue
check goes-without-a-trace same '' nft list ruleset
