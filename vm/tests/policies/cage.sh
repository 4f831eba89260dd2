# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source=../functions
# The example unit of a job in a cage, as a dynamic user; the queue rules in nft's form, which this kernel supports.
server=203.0.113.10
folder=/run/cage-test
mkdir -p $folder
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example -addext subjectAltName=DNS:example.org \
    -keyout $folder/key.pem -out $folder/cert.pem 2>/dev/null
echo hello >$folder/index.html
truncate --size 20M $folder/big
ip netns add client
ip link add veth0 type veth peer name veth1 netns client
ip address add 192.0.2.1/24 dev veth0
ip link set veth0 up
ip route add default via 192.0.2.2
ip -n client address add 192.0.2.2/24 dev veth1
ip -n client address add $server/32 dev lo
ip -n client link set veth1 up
ip -n client link set lo up
cp --dereference /etc/resolv.conf $folder/resolv.conf 2>/dev/null || : >$folder/resolv.conf
echo nameserver 192.0.2.2 >$folder/own.conf
: >>/etc/resolv.conf
mount --bind $folder/own.conf /etc/resolv.conf
ip netns exec client dnsmasq -C /dev/null --no-resolv --no-hosts --address=/example.org/$server --pid-file=$folder/dnsmasq.pid --user=root
cat >$folder/serve.py <<'PYTHON'
import http.server, ssl, sys
server = http.server.ThreadingHTTPServer((sys.argv[1], 443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
PYTHON
(cd $folder && exec setsid ip netns exec client python3 serve.py $server) >/dev/null 2>&1 &
# shellcheck disable=SC2034 # finish ends it
web=$!
patiently curl -s --cacert $folder/cert.pem --resolve example.org:443:$server -o /dev/null https://example.org/

# job NAME URL: writes the example's unit with a command that requests this page and trusts the test's server.
job() {
    sed -e "s;https://example.org/;$2;" -e "s;^\[Service\];&\nEnvironment=CURL_CA_BUNDLE=$folder/cert.pem;" \
        packaging/example/cage.service >"/etc/systemd/system/twinwall-$1.service"
    systemctl daemon-reload
    systemctl start "twinwall-$1"
    patiently is_over "twinwall-$1"
}

is_over() {
    case $(property "$1" ActiveState) in
        inactive | failed) ;;
        *) false ;;
    esac
}

# succeeds UNIT: prints its journal if it did not.
succeeds() {
    same success property "$1" Result || {
        journalctl --output cat --lines 4 --unit "$1"
        return 1
    }
}

in_cage() {
    nsenter --net="/proc/$(pgrep --full --oldest "^sleep 1234")/ns/net" "$@"
}

# Succeeds when the caged command sleeps; prints the output of its cage if that ends.
sleeps() {
    until pgrep --full '^sleep 1234'; do
        kill -0 "$caged" || {
            cat $folder/said
            return 1
        }
        sleep 0.2
    done
}

# Prints the number of packets queued so far: the eighth figure is the last packet's number.
queued() {
    in_cage cat /proc/self/net/netfilter/nfnetlink_queue | awk '{ print $8 }'
}

is_settled() {
    [ "$(queued)" -lt 150 ]
}

check job-runs job cage-allowed https://example.org/
check job-succeeds succeeds twinwall-cage-allowed
check job-has-its-page patiently says '^hello' journalctl --output cat --unit twinwall-cage-allowed
check another-job-runs job cage-denied https://other.example/
check another-job-fails same exit-code property twinwall-cage-denied Result
check its-name-is-denied patiently says 'denied: dns name other.example' journalctl --output cat --unit twinwall-cage-denied
systemctl reset-failed twinwall-cage-denied

for twin in rust c; do
    fwctl run --twin $twin --allow example.org -- sh -c \
        "curl -s --cacert $folder/cert.pem -o $folder/copy https://example.org/big; exec sleep 1234" >$folder/said 2>&1 &
    caged=$!
    check $twin-command-runs sleeps
    check $twin-has-its-download cmp $folder/big $folder/copy
    check $twin-rules-are-nfts says 'queue to 0' in_cage nft list table inet cage
    check $twin-connections-settle is_settled
    kill $caged
    wait $caged
    rm -f $folder/copy
done 2>/dev/null
kill "$(cat $folder/dnsmasq.pid)"
umount /etc/resolv.conf
rm -rf $folder
