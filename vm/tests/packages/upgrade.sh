# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# An upgrade under the unit: the new firewall starts within it, as systemd's child, with the unit's filters and limits
# and none of the shell's; systemd restarts and stops it like the old one.
network
cp /usr/share/twinwall/policy/web-server.nft /etc/twinwall/web.nft
instance web "--queue 0:1 --policy /etc/twinwall/web.nft"
nft -f - <<'NFT'
table inet feed {
	chain input {
		type filter hook input priority filter
		iifname "veth0" ct state new counter
		iifname "veth0" queue num 0-1
	}
}
NFT
unit=twinwall-rust@web.service
socket=/run/twinwall/rust-web/control

main_pid() {
    property $unit MainPID
}

# Prints a process's properties that the unit sets: filters, capabilities, limits, umask, namespaces.
born() {
    grep -E '^(Umask|Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' "/proc/$1/status"
    cat "/proc/$1/limits" "/proc/$1/cgroup" "/proc/$1/oom_score_adj"
    ps -o ni= -p "$1"
    readlink "/proc/$1/ns/net" "/proc/$1/ns/user"
    grep -c ' /sys ro' "/proc/$1/mounts"
}

variables() {
    tr '\0' '\n' <"/proc/$1/environ" | sed 's/=.*//' | sort | tr '\n' ' '
}

# Upgrades from a shell with other settings.
upgrade() (
    umask 0
    ulimit -n 512
    echo 500 >/proc/self/oom_score_adj
    LD_DEBUG=none nice -n 7 fwctl --socket $socket upgrade "$@"
)

parent() {
    ps -o ppid= -p "$1" | tr -d ' '
}

# Prints the unit's log since $since.
told() {
    journalctl --unit $unit --output cat --since "$since"
}

since=$(date '+%F %T')
check starts systemctl start $unit
before=$(main_pid)
was=$(born "$before")
check is-upgraded upgrade /usr/sbin/c-firewall
after=$(main_pid)
check main-pid-is-another not same "$before" main_pid
check runs-the-binary same /usr/sbin/c-firewall readlink "/proc/$after/exe"
check is-called-by-its-name same c-firewall cat "/proc/$after/comm"
check is-systemds-child same 1 parent "$after"
check is-born-as-the-first-was same "$was" born "$after"
check has-the-units-variables same 'INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET PATH WATCHDOG_USEC ' variables "$after"
check is-no-alien not says 'not our child' told
check http web_answers
check policy-is-reloaded systemctl reload $unit

# Refused changes are reported, and the old firewall continues.
echo nonsense >/etc/twinwall/web.nft
check a-bad-policy-is-told says 'the old firewall stays: /etc/twinwall/web.nft:1:1' upgrade /usr/sbin/rust-firewall
cp /usr/share/twinwall/policy/web-server.nft /etc/twinwall/web.nft
check arguments-are-the-units says 'are in its unit' upgrade /usr/sbin/c-firewall -- --queue 5
sleep 11
check goes-on-with-the-watchdog same "$after" main_pid

since=$(date '+%F %T')
check restarts systemctl restart $unit
check last-ledger-of-a-restart patiently says 'ledger: reconciled' told
check http-after-the-restart web_answers

# Without a binary, the unit's own is used.
second=$(main_pid)
check is-upgraded-to-its-own upgrade
check is-another-again not same "$second" main_pid
check runs-the-units-own same /usr/sbin/rust-firewall readlink "/proc/$(main_pid)/exe"
since=$(date '+%F %T')
check stops systemctl stop $unit
check stopped-cleanly same success property $unit Result
check last-ledger-of-a-stop patiently says 'ledger: reconciled' told
check nothing-was-killed not says 'SIGKILL|Killing process' told
check nothing-is-left not pgrep -x 'rust-firewall|c-firewall|firewall-guard'
check nobody-listens-for-upgrades same '' ls /run/twinwall-upgrade

# A unit that can't upgrade reports it.
mkdir -p /etc/systemd/system/$unit.d
printf '[Service]\nExecReload=\nExecReload=/bin/true\n' >/etc/systemd/system/$unit.d/reload.conf
systemctl daemon-reload
systemctl start $unit
check a-unit-that-cannot-is-told says 'start another firewall in its place' upgrade
