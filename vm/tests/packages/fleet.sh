# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The package twinwall-fleet under systemd: the agent, and root's service with its socket, first with etcd, then with a
# folder; the record of the last minute.
network
store=http://127.0.0.1:2379
folder=/srv/fleet-test
mkdir -p $folder
setsid etcd --bcrypt-cost 4 --data-dir $folder/etcd --log-level error >$folder/etcd.log 2>&1 &
etcd=$!
patiently curl -s -o /dev/null $store/version

# policy PORT: writes a policy that drops TCP packets to a port.
policy() {
    cat >$folder/policy.nft <<NFT
table inet host {
	chain input {
		type filter hook input priority filter; policy accept;
		tcp dport $1 counter drop
	}
}
NFT
}

# fleet COMMAND...: runs `fwctl fleet` with the operator's login.
fleet() {
    fwctl fleet "$@" --etcd $store --login $folder/out/operator.login
}

push() {
    fleet push web $folder/policy.nft --sign $folder/out/fleet.key --observe 2 "$@"
}

# holds PORT: succeeds if the kernel has the policy for this port.
holds() {
    nft list table inet host | grep -q "tcp dport $1 "
}

has_generation() {
    jq -e ".phase == \"confirmed\" and .confirmed == $1" /var/lib/twinwall/fleet/state.json
}

# asks NAME: sends a request of the client to the web server of this machine.
asks() {
    ip netns exec client curl -s -o /dev/null -m 60 -H "Host: $1" http://192.0.2.1/
}

records() {
    grep -q --binary-files=text "$1" /run/twinwall-record/*
}

names() {
    policy 80
    sed -i 's/tcp dport 80/http host "denied.example"/' $folder/policy.nft
    fleet diff web $folder/policy.nft --sign $folder/out/fleet.key
}

check init fwctl fleet init web --etcd $store --host vm --out $folder/out --enable-auth
cp $folder/out/vm/* /etc/twinwall/
chown root:twinwall-agent /etc/twinwall/fleet.login
chmod 640 /etc/twinwall/fleet.login
check starts systemctl enable --now twinwall-fleet.socket twinwall-agent.service
agent=$(property twinwall-agent MainPID)
# systemd starts the process as root.
check agent-is-nobody-of-note patiently same twinwall-agent ps -o user= -p "$agent"
check agent-has-no-capability patiently says 'CapBnd:.*0000000000000000' cat "/proc/$agent/status"
policy 23
check push-is-confirmed says 'generation 1 is everywhere' push
check kernel-holds-it holds 23
check status says '1 hosts: 1 confirmed' fleet status web
check no-timer-is-left not systemctl is-active twinwall-revert.timer
policy 24
check second-push says 'generation 2 is everywhere' push
check kernel-holds-the-second holds 24
# This policy cuts the host off from the store.
policy 2379
check cut-off-goes-back says 'STOPPED: 1 went back' push --confirm 20
check the-earlier-policy-is-back holds 24
check agent-is-restarted systemctl kill --signal KILL --kill-whom main twinwall-agent
policy 25
check push-after-a-kill says 'generation 4 is everywhere' push
# A host whose lease has ended is silent: the push does not wait for it.
check kernel-holds-the-last patiently holds 25

check record-is-off not systemctl is-enabled --quiet twinwall-record
check record-starts systemctl start twinwall-record
check record-is-no-root not same root stat --format %U /run/twinwall-record
for name in allowed.example denied.example; do
    check asks-for-$name asks $name
done
check record-has-the-request patiently records denied.example
check diff-decides-the-last-minute says 'vm .* dropped by policy.nft:4: http host "denied.example"' names
check diff-says-so says '1 on their last 60 s' names
check record-stops systemctl stop twinwall-record
check record-leaves-no-rule not nft list table inet twinwall_record
check record-leaves-no-packet not test -e /run/twinwall-record

# A folder in place of etcd, for a host that used etcd before.
sed -i "s;^TWINWALL_FLEET_ETCD=.*;TWINWALL_FLEET_FOLDER=file://$folder/store;; /LOGIN/d" /etc/twinwall/fleet.conf
kill $etcd
chmod 755 $folder
for port in 26 27 28 29 30; do
    policy $port
    fwctl fleet push web $folder/policy.nft --into $folder/store --sign $folder/out/fleet.key --observe 2 >/dev/null
done
check restarts-with-a-folder systemctl restart twinwall-agent
check folder-is-confirmed patiently has_generation 5
check kernel-holds-that-of-the-folder holds 30

systemctl disable --now twinwall-fleet.socket twinwall-agent.service
fwctl unapply
rm -rf $folder /var/lib/twinwall/fleet
