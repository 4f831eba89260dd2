# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# A web server's policy under the unit: start, verdicts, reload, replacement, stop, kill.
network
cp /usr/share/twinwall/policy/web-server.nft /etc/twinwall/web.nft
instance web "--queue 0:1 --policy /etc/twinwall/web.nft --events /var/log/twinwall/web/web.json"
nft -f - <<'NFT'
table inet feed {
	chain input {
		type filter hook input priority filter
		iifname "veth0" ct state new counter
		iifname "veth0" queue num 0-1
	}
}
NFT
unit=twinwall-rust@web

is_another() {
    [ "$(property "$1" MainPID)" != "$2" ] && systemctl is-active --quiet "$1"
}

restarts_when_killed() {
    local before
    before=$(property "$1" MainPID)
    systemctl kill --signal KILL --kill-whom main "$1"
    patiently is_another "$1" "$before"
}

check starts systemctl start $unit
check is-active systemctl is-active $unit
check http web_answers
check other-ports-are-closed port_is_closed 23
check reloads systemctl reload $unit
check fwctl-finds-it says "^rust-firewall .* pid" fwctl status
check fwctl-knows-the-instance says "^rust-firewall .* pid" fwctl -i web status
check is-upgraded fwctl -i web upgrade /usr/sbin/c-firewall
check http-after-the-upgrade web_answers
check stops systemctl stop $unit
check stopped-cleanly same success property $unit Result
check the-other-twin-starts systemctl start twinwall-c@web
check is-restarted-when-killed restarts_when_killed twinwall-c@web
check http-after-the-restart patiently web_answers
