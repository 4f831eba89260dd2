# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The commands of docs/FIRST.md, unchanged, over SSH: from the installation and the first policy to a mistake and the
# removal. Prints the time until the first policy is confirmed.
network
ssh_server
page=/run/FIRST.md
cp /usr/share/doc/twinwall-common/FIRST.md $page
held=/run/held

# commands SECTION: prints the lines of its code blocks.
commands() {
    sed -n "/^## $1\$/,/^## /s/^    \([a-z]\)/\1/p" "$page"
}

# remote COMMAND [SECONDS]: runs a command in the client's one session.
remote() {
    timeout "${2:-60}" ip netns exec client ssh -S "$held" root@192.0.2.1 "$1"
}

# run_all: runs the commands on stdin, one after another.
run_all() {
    local line
    while read -r line; do
        check "$line" remote "$line"
    done
}

# interactive COMMAND ANSWER...: runs a command at a terminal.
interactive() {
    local command=$1
    shift
    printf '%s\n' "$@" | timeout 60 ip netns exec client ssh -tt -S "$held" root@192.0.2.1 "$command"
}

answers_first() {
    interactive "$(commands "The first policy" | head -n 1)" 192.0.2.0/24 80 any y
}

# is_open PORT, is_closed PORT: whether a packet gets any answer.
is_open() {
    local code=0
    ip netns exec client curl -s -m 3 "http://192.0.2.1:$1/" >/dev/null || code=$?
    [ $code -eq 0 ] || [ $code -eq 7 ]
}
is_closed() {
    not is_open "$1"
}

rules() {
    nft list ruleset
}
policy() {
    nft --stateless list table inet host
}

loses_the_session() {
    remote "$(commands "A mistake" | sed -n 2p)" || true
    patiently is_closed 80
}

purges() {
    # shellcheck disable=SC2016,SC2046 # dpkg-query's format, words
    dpkg --purge $(dpkg-query --show --showformat '${Package} ' 'twinwall*')
    not command -v fwctl
}

# Installs the packages as the page says, on a host that has none.
installs() {
    [ "$(commands Install)" = "apt install ./twinwall-common_*.deb ./twinwall-rust_*.deb" ] &&
        remote "cd /usr/local/share/vm && DEBIAN_FRONTEND=noninteractive $(commands Install)" 600
}

clean=$(rules)
patiently ip netns exec client ssh "${ssh_options[@]}" -M -S "$held" -f -N root@192.0.2.1
check other-ports-are-open is_open 7777
check no-package-is-left purges
began=$SECONDS
check installs installs
echo "apt install: $((SECONDS - began)) s"
commands "The first policy" | sed -n '/--yes/,$p' | run_all
check the-web-is-open web_answers
check other-ports-are-closed is_closed 7777
echo "from apt install to a confirmed policy: $((SECONDS - began)) s"
check removes-the-alternative fwctl unapply
rm /etc/twinwall/policy.nft
check init says 'fwctl confirm' answers_first
check init-loads-it is_closed 7777
commands "The first policy" | sed -n '2,3p' | run_all
check boot-is-enabled systemctl is-enabled twinwall
commands Status | run_all
sed -i 's/tcp dport 80 /tcp dport { 80, 7777 } /' /etc/twinwall/policy.nft
commands Changes | run_all
check the-change-is-loaded is_open 7777
good=$(policy)
commands "A mistake" | head -n 1 | run_all
check a-mistake-cuts-off loses_the_session
check it-is-reverted patiently web_answers
check the-policy-is-as-before same "$good" policy
check the-session-continues remote true
commands "A mistake" | sed -n '3,$p' | run_all
check history-says-so says 'not confirmed in time' fwctl history
commands Removal | run_all
check no-rule same "$clean" rules
ip netns exec client ssh -S "$held" -O exit root@192.0.2.1 2>/dev/null
rm -f "$held" /root/mistake.nft $page
# The other packages, for other tests.
dpkg --force-confmiss --install /usr/local/share/vm/*.deb >/dev/null
