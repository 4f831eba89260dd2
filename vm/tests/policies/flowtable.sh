# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# A flowtable of a policy with names: its connections skip the chains, and a policy that denies them ends that.
network
instance twinwall ""
ip netns add server
ip link add veth2 type veth peer name veth3 netns server
ip address add 198.51.100.1/24 dev veth2
ip link set veth2 up
ip -n server address add 198.51.100.2/24 dev veth3
ip -n server link set veth3 up
ip -n server route add default via 198.51.100.1
ip -n client route add default via 192.0.2.1
sysctl -q net.ipv4.ip_forward=1
mkdir -p /run/flow
# policy RULE: writes a policy whose chain begins with the rule.
policy() {
    cat >/run/flow/policy.nft <<NFT
table inet host {
	set denied { type hostname; elements = { "denied.example" } }
	flowtable fast { hook ingress priority 0; devices = { veth0, veth2 }; }
	chain forward {
		type filter hook forward priority filter; policy accept;
		$1
		tcp dport 443 tls sni @denied drop
		ct state established flow add @fast
	}
}
NFT
}

# arrives TEXT: sends a line over the connection, and waits until it arrives.
arrives() {
    echo "$1" >&"$line"
    patiently grep -q "$1" /run/flow/seen
}

is_offloaded() {
    conntrack -L -p tcp --dport 443 2>/dev/null | grep -q OFFLOAD
}


# ends TEXT: sends a line that the policy drops: it passes the chain, which counts it, and does not arrive.
ends() {
    echo "$1" >&"$line"
    patiently says 'counter packets [1-9]' nft list chain inet host forward && ! grep -q "$1" /run/flow/seen
}

setsid ip netns exec server socat -u TCP-LISTEN:443,reuseaddr CREATE:/run/flow/seen &
server=$!
mkfifo /run/flow/sent
policy ""
check applies fwctl apply --now /run/flow/policy.nft
patiently ip netns exec server sh -c 'ss -ltn | grep -q :443'
setsid ip netns exec client socat -u PIPE:/run/flow/sent TCP:198.51.100.2:443 &
client=$!
exec {line}>/run/flow/sent
check arrives arrives first
check is-offloaded patiently is_offloaded
nft insert rule inet host forward tcp dport 443 counter drop
check an-offloaded-connection-skips-the-chain arrives second
check its-packets-are-not-counted not says 'counter packets [1-9]' nft list chain inet host forward
policy "tcp dport 443 counter drop"
check applies-what-denies fwctl apply --now /run/flow/policy.nft
check the-flow-ends ends third
exec {line}>&-
kill "$server" "$client"
fwctl unapply

# A flowtable of another table, which takes connections past the policy.
nft -f - <<'NFT'
table inet other {
	flowtable past { hook ingress priority 0; devices = { veth0, veth2 }; }
	chain forward {
		type filter hook forward priority 10; policy accept;
		ct state established flow add @past
	}
}
NFT
sed -i '/fast/d' /run/flow/policy.nft
conf=/etc/twinwall/twinwall.conf
cp "$conf" /run/flow/conf
check warns-at-split says 'table inet other, chain forward: flow add @past' fwctl split --check /run/flow/policy.nft
check refuses-flows-of-others says 'nft delete rule inet other forward handle [0-9]' fwctl apply --now /run/flow/policy.nft
check loads-nothing not nft list table inet host
echo FLOWTABLES=allow >>"$conf"
check allows-them says 'warning: .*flow add @past' fwctl apply --now /run/flow/policy.nft
check the-doctor-knows says 'puts connections into a flowtable' fwctl doctor
cp /run/flow/conf "$conf"
fwctl unapply
nft delete table inet other
ip netns delete server
rm -r /run/flow
