# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The packages are removed while an instance runs and rules feed it: the host is not cut off, and no files or rules
# remain.
network
cp /usr/share/twinwall/policy/web-server.nft /etc/twinwall/web.nft
instance web "--queue 0 --policy /etc/twinwall/web.nft --events /var/log/twinwall/web/web.json"
# Like the host's own rules: without bypass.
sed 's/ bypass$//' /usr/share/twinwall/queue/input.nft | nft -f -
nft -f - <<'NFT'
table inet own {
	chain input {
		type filter hook input priority filter
		tcp dport 4711 queue num 1
	}
}
NFT
check starts systemctl enable --now twinwall-rust@web
check http web_answers
check warns-of-the-others-rule says 'warning: .*dport 4711 queue' dpkg --purge twinwall-fleet twinwall-rust twinwall-c twinwall-scanner \
    twinwall-common
check the-host-answers web_answers
check our-rules-are-gone not nft list table inet twinwall_queue
check nothing-enables-it same '' find /etc/systemd/system -name 'twinwall*'
check no-unit-is-left same '' systemctl list-units --all --plain --no-legend 'twinwall-*'
check logs-are-purged not test -e /var/log/twinwall
check comes-again sh -c 'dpkg --install /usr/local/share/vm/*.deb'
