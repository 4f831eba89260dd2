# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# Results of a unit after a crash, a failed start, and beside another unit: --fail crash=open, restarts, runtime
# directories, conflicts, the order in the boot, priorities in the journal.
network
cp /usr/share/twinwall/policy/web-server.nft /etc/twinwall/web.nft
queue_all() {
    nft -f - <<'NFT'
table inet feed {
	chain input {
		type filter hook input priority filter
		iifname "veth0" ct state new counter
		iifname "veth0" queue num 0
	}
}
NFT
}

# has UNIT PROPERTY VALUE
has() {
    [ "$(property "$1" "$2")" = "$3" ]
}

# The web server answers while the unit waits for its restart, when only the guard can accept packets.
answers_after_a_crash() {
    systemctl kill --signal KILL --kill-whom main "$1"
    patiently has "$1" SubState auto-restart && web_answers && has "$1" SubState auto-restart
}

is_running() {
    systemctl is-active --quiet "$1" && ! has "$1" MainPID 0
}

fails_for_good() {
    not systemctl start "$1" && patiently has "$1" ActiveState failed && same 0 property "$1" NRestarts
}

still_asked() {
    fwctl --socket "$1" status
}

# runs_as_another UNIT PID
runs_as_another() {
    is_running "$1" && ! has "$1" MainPID "$2"
}

crashes_and_comes_back() {
    local before
    for _ in 1 2 3 4 5; do
        before=$(property "$1" MainPID)
        systemctl kill --signal KILL --kill-whom main "$1"
        patiently runs_as_another "$1" "$before" || systemctl status "$1" || return 1
    done
}

journal_has() {
    journalctl --quiet --unit "$1" --priority "$2..$2" --output cat | grep -qE -- "$3"
}

no_complaint() {
    ! journalctl --quiet --unit "$1" --output cat | grep -i "libcap-ng"
}

for twin in rust c; do
    unit=twinwall-$twin@web
    nft flush ruleset
    queue_all
    instance web "--queue 0 --policy /etc/twinwall/web.nft --fail crash=open"
    # Long enough to check the state meanwhile.
    mkdir -p /etc/systemd/system/$unit.service.d
    printf '[Service]\nRestartSec=30\n' >/etc/systemd/system/$unit.service.d/slow.conf
    systemctl daemon-reload
    check $twin-starts systemctl start $unit
    check $twin-is-behind-its-own-folder test -S /run/twinwall/$twin-web/control
    check $twin-has-no-complaint no_complaint $unit
    check $twin-crash-open-lets-pass answers_after_a_crash $unit
    check $twin-comes-back patiently is_running $unit
    check $twin-decides-again patiently port_is_closed 23
    check $twin-http patiently web_answers
    # A limit that a few crashes would reach, if the unit had not disabled it.
    printf '[Unit]\nStartLimitBurst=2\n' >/etc/systemd/system/$unit.service.d/slow.conf
    systemctl daemon-reload
    check $twin-crashes-however-often crashes_and_comes_back $unit
    rm -r /etc/systemd/system/$unit.service.d
    systemctl daemon-reload
    check $twin-http-after-that patiently web_answers
    check $twin-stops systemctl stop $unit
    check $twin-leaves-no-guard not pgrep firewall-guard
    check $twin-leaves-no-directory not test -e /run/twinwall/$twin-web
done

# A bad command line is not retried.
instance wrong "--queue 3 --no-such-option"
check a-bad-command-line-is-tried-once fails_for_good twinwall-c@wrong
check its-error-has-the-priority patiently journal_has twinwall-c@wrong 3 no-such-option
check it-is-not-told-as-information not journal_has twinwall-c@wrong 6 no-such-option

# Another instance of the same queue leaves the running one unchanged, and tries again, since that one may end.
instance web "--queue 0 --policy /etc/twinwall/web.nft"
instance same "--queue 0"
check web-starts systemctl start twinwall-rust@web
check the-same-queue-fails not systemctl start twinwall-c@same
check it-is-tried-again patiently same activating property twinwall-c@same ActiveState
check web-can-still-be-asked still_asked /run/twinwall/rust-web/control
systemctl stop twinwall-c@same
# The other program of an instance replaces it.
check the-other-program-starts systemctl start twinwall-c@web
check the-first-has-ended same inactive property twinwall-rust@web ActiveState
check the-other-can-be-asked still_asked /run/twinwall/c-web/control
check http-by-the-other patiently web_answers
systemctl stop twinwall-c@web

# The order in the boot, and the drop-in that changes it.
check before-the-network says network-pre.target property twinwall-rust@web Before
mkdir -p /etc/systemd/system/twinwall-rust@web.service.d
cat >/etc/systemd/system/twinwall-rust@web.service.d/10-network.conf <<'CONF'
[Unit]
Wants=network-online.target
After=network-online.target
CONF
systemctl daemon-reload
check behind-the-network says network-online.target property twinwall-rust@web After
check not-before-it not says network-pre.target property twinwall-rust@web Before
# A service that brings the network up, as on any machine: between the two targets.
cat >/etc/systemd/system/some-network.service <<'UNIT'
[Unit]
Wants=network.target
Before=network.target
After=network-pre.target
[Service]
Type=oneshot
ExecStart=/bin/true
UNIT
mkdir -p /etc/systemd/system/network-online.target.wants
ln -s ../some-network.service /etc/systemd/system/network-online.target.wants
no_circle() {
    ! systemd-analyze verify --man=no "$1.service" 2>&1 | grep 'ordering cycle'
}
check no-circle no_circle twinwall-rust@web
# Under another name the drop-in only adds to the unit's order: the check detects cycles.
mv /etc/systemd/system/twinwall-rust@web.service.d/{10-network,more}.conf
check a-circle-by-another-name not no_circle twinwall-rust@web
rm -r /etc/systemd/system/{some-network.service,network-online.target.wants}
