# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# `fwctl apply` of a policy with names, with nft's queue and the firewall as a unit; the revert by systemd's timer; the
# boot; a reboot before and after confirm.
network
instance twinwall ""
unit=twinwall-rust@twinwall
policy() {
    cat >"$1" <<NFT
table inet host {
	set denied { type hostname; elements = { "$2" } }
	chain input {
		type filter hook input priority filter; policy accept;
		http host @denied counter drop
	}
}
NFT
}
mkdir -p /run/apply
policy /etc/twinwall/policy.nft denied.example
policy /run/apply/other.nft other.example

# answers NAME SECONDS: succeeds if the web server answers a request for a name within this time.
answers() {
    ip netns exec client curl -s -m "$2" -H "Host: $1" http://192.0.2.1/ | grep -q hello
}

# denies NAME OTHER: succeeds if only the first name is denied.
denies() {
    answers "$2" 20 && ! answers "$1" 3
}

rules() {
    nft list ruleset | sed -E 's/packets [0-9]+ bytes [0-9]+/packets N bytes N/'
}

# goes_back SECONDS
goes_back() {
    local before decided=0
    before=$(rules)
    fwctl apply --confirm "$1" /run/apply/other.nft
    denies other.example denied.example || decided=1
    patiently denies denied.example other.example
    patiently same "$before" rules && [ $decided = 0 ]
}

# Prints the rules without what differs between generations: each boot loads a new one.
policy_rules() {
    rules | sed -E 's/0x[0-9a-f]{8}/0xN/g; s/"generation [0-9]+"/"generation N"/'
}

clean=$(rules)
check applies fwctl apply --confirm 600
check kernel-queues says "queue( flags bypass)? to 0|queue num 0" nft list table inet host
check no-iptables not says "NFQUEUE" iptables-save
check unit-runs systemctl is-active $unit
check decides denies denied.example other.example
check confirms fwctl confirm
check status says "connections: .* settled" fwctl status
check goes-back within_a_confirm goes_back
check reverts-by-a-unit says "not confirmed in time" fwctl history
check a-dead-firewall-comes-back systemctl kill --signal KILL --kill-whom main $unit
check decides-again patiently denies denied.example other.example
nft flush ruleset
systemctl stop $unit
check boots systemctl start twinwall.service
check decides-after-the-boot denies denied.example other.example
systemctl enable --quiet twinwall
check doctor-knows-the-boot says 'twinwall.service loads the applied policy at boot' fwctl doctor
check doctor-keeps-no-applied-rules not says 'leads no packet to a queue' fwctl doctor
confirmed=$(policy_rules)
check applies-before-a-reboot fwctl apply --confirm 600 /run/apply/other.nft
check other-decides-before-the-reboot denies other.example denied.example
reboot_machine
network
check a-reboot-before-confirm-goes-back patiently denies denied.example other.example
check rules-are-as-before same "$confirmed" policy_rules
mkdir -p /run/apply
policy /run/apply/other.nft other.example
check applies-for-the-next-reboot fwctl apply --confirm 600 /run/apply/other.nft
check confirms-before-the-reboot fwctl confirm
confirmed=$(policy_rules)
reboot_machine
network
check a-reboot-after-confirm-keeps-it patiently denies other.example denied.example
check rules-are-as-confirmed same "$confirmed" policy_rules
mkdir -p /run/apply
check unapplies fwctl unapply
check leaves-no-rule same "$clean" rules
check leaves-no-firewall not systemctl is-active $unit
systemctl disable --quiet --now twinwall.service
rm -r /run/apply /etc/twinwall/policy.nft
