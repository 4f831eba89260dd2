# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The logrotate file, with a failed instance and a running one: each file is rotated, and the running instance
# continues.
nft add table inet feed
cp /usr/share/twinwall/policy/monitor.nft /etc/twinwall/web.nft
instance web "--queue 7 --policy /etc/twinwall/web.nft --events /var/log/twinwall/web/web.json"
instance bad "--queue 8 --no-such-option"
log=/var/log/twinwall/web/web.json

# Succeeds if the events have a line about a reload.
told_anew() {
    systemctl reload twinwall-c@web
    [ -s $log ]
}

check starts systemctl start twinwall-c@web
check another-fails not systemctl start twinwall-rust@bad
systemctl stop twinwall-rust@bad
check first-lines patiently told_anew
check rotates logrotate --force /etc/logrotate.d/twinwall
check the-old-lines-are-kept test -s $log.1
check goes-on-in-the-new-file patiently told_anew
check belongs-to-the-firewall same 'twinwall 640' stat --format '%U %a' $log
check still-runs systemctl is-active twinwall-c@web
