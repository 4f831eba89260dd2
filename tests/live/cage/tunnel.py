# SPDX-License-Identifier: GPL-2.0-or-later
"""Data that a command in a cage can send over DNS and in hellos. Prints a line for each attempt."""
import socket
import ssl
import struct
import sys
import time

RESOLVER = ("169.254.53.53", 53)
GOOD = sys.argv[1]


def question(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def ask(own, name, kind):
    own.send(question(name, kind))
    return own.recv(4096)


def datagrams(seconds):
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.settimeout(seconds)
    own.connect(RESOLVER)
    return own


def repeat(attempt):
    """Repeats an attempt as long as neither an answer nor a refusal comes, since a busy machine may lose a packet.
    Returns the result in a word."""
    end = time.monotonic() + 120
    while True:
        try:
            attempt()
            return "answered"
        except OSError as error:
            if not isinstance(error, TimeoutError) or time.monotonic() > end:
                return type(error).__name__


def asked(name, kind):
    return repeat(lambda: ask(datagrams(5), name, kind))


def over_tcp(name):
    try:
        with socket.create_connection(RESOLVER, 20) as own:
            text = question(name, 1)
            own.sendall(struct.pack("!H", len(text)) + text)
            return "answered" if own.recv(100) else "closed"
    except OSError as error:
        return type(error).__name__


def flood(count):
    """Sends queries below a wildcard, each with data in its name, without waiting for answers; returns how many it sent
    before ten were refused, and the number of refusals."""
    own, sent, refused = datagrams(60), 0, 0
    while refused < 10:
        try:
            if sent < count:
                own.send(question(f"data{sent:08}.wild.example", 1))
                sent += 1
            else:
                own.recv(4096)
        except ConnectionRefusedError:
            refused += 1
        except TimeoutError:
            break
    return sent, refused


def hello(name, is_ech):
    """Returns OpenSSL's ClientHello. If is_ech, it has an extension encrypted_client_hello (RFC 9849, section 5) in the
    form that browsers send, with zeros as its key and payload."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    body = bytearray(out.read()[9:])
    at = 34 + 1 + body[34]
    at += 2 + struct.unpack_from("!H", body, at)[0]
    at += 1 + body[at]
    if is_ech:
        inner = struct.pack("!BHHBH", 0, 1, 1, 7, 32) + bytes(32) + struct.pack("!H", 144) + bytes(144)
        body += struct.pack("!HH", 0xFE0D, len(inner)) + inner
        struct.pack_into("!H", body, at, len(body) - at - 2)
    message = b"\1" + struct.pack("!I", len(body))[1:] + bytes(body)
    return b"\x16\3\1" + struct.pack("!H", len(message)) + message


def handshake(name, is_ech):
    try:
        with socket.create_connection((GOOD, 443), 60) as own:
            own.sendall(hello(name, is_ech))
            return "answered" if own.recv(100) else "closed"
    except OSError as error:
        return type(error).__name__


def datagram(address, port, bytes_sent):
    def attempt():
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.settimeout(5)
            own.connect((address, port))
            own.send(bytes_sent)
            own.recv(100)

    return repeat(attempt)


def echo(address):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as own:
            own.settimeout(1)
            own.connect((address, 0))
            own.send(b"\x08\0\0\0\0\0\0\x01data")
            own.recv(100)
            return "answered"
    except OSError as error:
        return type(error).__name__


print("ICMP to an allowed host:", echo(GOOD))
print("A of an allowed name:", asked("good.example", 1))
print("A of another name:", asked("secret.bad.example", 1))
print("TXT of an allowed name:", asked("good.example", 16))
print("HTTPS of an allowed name:", asked("good.example", 65))
print("another name, over TCP:", over_tcp("secret.bad.example"))
print("hello:", handshake("good.example", False))
print("hello with ECH:", handshake("good.example", True))
print("hello with another name:", handshake("other.example", False))
print("no QUIC at QUIC's port:", datagram(GOOD, 443, b"\0" * 100))
print("another resolver:", datagram("203.0.113.11", 53, question("good.example", 1)))
print("another host, IPv6:", datagram("2001:db8:2::11", 443, b"\xc0" * 1200))
print("flood: %d sent, %d refused" % flood(5000))
