# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# Rules for units with names (docs/UNITS.md): the examples of a slice and of a drop-in, with restarts, another apply and a
# boot; what nft does with a unit that has ended.
network
instance twinwall ""
examples=/usr/share/doc/twinwall-common/examples
policy=/etc/twinwall/policy.nft
cat >$policy <<'NFT'
table inet host {
	set allowed { type hostname; elements = { "allowed.example" } }
	set units { type cgroupsv2; }
	chain output {
		type filter hook output priority filter; policy accept;
		tcp dport 443 socket cgroupv2 level 1 "confined.slice" tls sni @allowed accept
		tcp dport 443 socket cgroupv2 level 2 @units tls sni @allowed accept
		tcp dport 443 counter reject with tcp reset
	}
}
NFT

# server: starts a server of TLS in the client's namespace.
server() {
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=allowed.example -days 2 \
        -keyout $kept/key -out $kept/certificate 2>/dev/null
    cat >$kept/server <<'PYTHON'
import http.server, ssl, sys
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(sys.argv[1], sys.argv[2])
class Server(http.server.ThreadingHTTPServer):
    def finish_request(self, request, address):
        super().finish_request(context.wrap_socket(request, server_side=True), address)
Server(("", 443), http.server.SimpleHTTPRequestHandler).serve_forever()
PYTHON
    setsid ip netns exec client python3 $kept/server $kept/certificate $kept/key >/dev/null 2>&1 &
    tls=$!
    patiently ip netns exec client curl -sk -o /dev/null https://127.0.0.1/
}

# unit NAME LINE: makes a unit that visits the host in /run/host with each start.
unit() {
    cat >"/etc/systemd/system/$1.service" <<UNIT
[Service]
Type=oneshot
$2
EnvironmentFile=/run/host
ExecStart=/usr/bin/curl -sk -m \${SECONDS_AT_MOST} -o /dev/null --resolve \${NAME}:443:192.0.2.2 https://\${NAME}/
UNIT
}

# visits UNIT NAME SECONDS: succeeds if a start of the unit reaches the host within this time.
visits() {
    printf 'NAME=%s\nSECONDS_AT_MOST=%s\n' "$2" "$3" >/run/host
    systemctl start "$1"
}

# decides: succeeds if the units in the slice and in the set reach the allowed name only, and another unit no name.
decides() {
    local name
    for name in slice-a slice-b in-set; do
        visits $name allowed.example 60 || return 1
        ! visits $name other.example 5 || return 1
    done
    ! visits elsewhere allowed.example 5
}

server
check reaches-all-without-a-policy curl -sk -m 60 -o /dev/null --resolve other.example:443:192.0.2.2 https://other.example/
cp $examples/confined.slice /etc/systemd/system
mkdir -p /etc/systemd/system/in-set.service.d
cp $examples/unit-in-set.conf /etc/systemd/system/in-set.service.d
unit slice-a Slice=confined.slice
unit slice-b Slice=confined.slice
unit in-set ""
unit elsewhere ""
systemctl daemon-reload
check slice-is-there systemctl enable --now confined.slice
check applies fwctl apply --now
check decides decides
check decides-after-restarts decides
check no-element-is-left not says system.slice nft list set inet host units
systemctl enable --quiet twinwall
reboot_machine
network
server
check slice-is-there-after-a-boot systemctl is-active confined.slice
check policy-is-loaded-at-boot patiently systemctl is-active twinwall
check decides-after-a-boot decides
check applies-again fwctl apply --now
check decides-after-an-apply decides
kill "$tls"
fwctl unapply
systemctl disable --quiet --now twinwall confined.slice
rm -rf /etc/systemd/system/{slice-a,slice-b,in-set,elsewhere}.service{,.d} /etc/systemd/system/confined.slice $policy /run/host
systemctl daemon-reload
