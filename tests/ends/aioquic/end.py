# SPDX-License-Identifier: GPL-2.0-or-later
"""QUIC ends by aioquic, versions 1 and 2.

end.py serve PORT CERTIFICATE KEY [retry]   prints `ready`, and for each client `hello PORT NAME` when its hello is complete
                                            and `done PORT NAME` when the handshake is; PORT is the client's. `retry`
                                            validates each client by a Retry packet
end.py serve PORT CERTIFICATE KEY again     does the same, but answers each first hello by a request for another one
end.py ask                                  connects concurrently for each input line: WAY HOST PORT NAME SECONDS, WAY = a
                                            version, 1 or 2, or 1-2 to begin in version 1 and continue in 2 (RFC 9369,
                                            section 4); prints for each `NUMBER yes VERSION`, or `NUMBER no` if the
                                            handshake was not complete in time, in any order
"""

import asyncio
import hashlib
import ssl
import sys

from aioquic import tls
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted
from aioquic.quic.packet import QuicProtocolVersion

VERSIONS = {"1": QuicProtocolVersion.VERSION_1, "2": QuicProtocolVersion.VERSION_2}
# Kinds of clients, with the versions that they accept, the preferred one first. The first digit of a kind's name is the
# version of its first packet.
WAYS = {"1": "1", "2": "2", "1-2": "21"}
# The first is the protocol of the tests' clients, the other that of browsers.
PROTOCOLS = ["spoken", "h3"]
# Time limit of a connection whose client is gone.
IDLE_SECONDS = 60.0


def say(*words):
    print(*words, flush=True)


class Served(QuicConnectionProtocol):
    """The server's part of a connection."""

    # The connection whose datagram is being read.
    reading = None

    def datagram_received(self, data, address):
        Served.reading = self
        self.port = address[1]
        super().datagram_received(data, address)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            say("done", self.port, self.name)
        super().quic_event_received(event)


pull_client_hello = tls.pull_client_hello


def pull_and_say(buffer):
    """Parses a complete hello like tls.pull_client_hello, and prints its name."""
    hello = pull_client_hello(buffer)
    reading = Served.reading
    reading.name = hello.server_name
    say("hello", reading.port, reading.name)
    return hello


handle_hello = tls.Context._server_handle_hello


def handle_second(context, input_buffer, initial_buffer, handshake_buffer):
    """Answers the first hello by HelloRetryRequest (RFC 8446, section 4.1.4), and handles the second like aioquic. Like
    OpenSSL and GnuTLS it compares no names."""
    if getattr(context, "has_asked", False):
        return handle_hello(context, input_buffer, initial_buffer, handshake_buffer)
    context.has_asked = True
    session = tls.pull_client_hello(input_buffer).legacy_session_id
    # Version 1.3, and the group secp256r1.
    extensions = bytes.fromhex("002b00020304" "003300020017")
    body = b"\x03\x03" + hashlib.sha256(b"HelloRetryRequest").digest() + bytes([len(session)]) + session
    body += bytes.fromhex("130100") + len(extensions).to_bytes(2, "big") + extensions
    initial_buffer.push_bytes(b"\x02" + len(body).to_bytes(3, "big") + body)


async def serve_all(port, certificate, key, *more):
    tls.pull_client_hello = pull_and_say
    if more == ("again",):
        tls.Context._server_handle_hello = handle_second
    configuration = QuicConfiguration(
        is_client=False,
        alpn_protocols=PROTOCOLS,
        idle_timeout=IDLE_SECONDS,
        supported_versions=list(VERSIONS.values()),
    )
    configuration.load_cert_chain(certificate, key)
    await serve("::", int(port), configuration=configuration, create_protocol=Served, retry=more == ("retry",))
    say("ready")
    await asyncio.Event().wait()


async def shake_hands(way, host, port, name):
    """Performs a handshake; returns the connection's final version."""
    configuration = QuicConfiguration(
        alpn_protocols=PROTOCOLS[:1],
        server_name=name,
        verify_mode=ssl.CERT_NONE,
        original_version=VERSIONS[way[0]],
        supported_versions=[VERSIONS[version] for version in WAYS[way]],
    )
    async with connect(host, int(port), configuration=configuration) as client:
        # There is no public accessor.
        return client._quic._version


async def ask(number, way, host, port, name, seconds):
    try:
        version = await asyncio.wait_for(shake_hands(way, host, port, name), float(seconds))
    except asyncio.TimeoutError:
        say(number, "no")
        return
    names = {known: digit for digit, known in VERSIONS.items()}
    say(number, "yes", names[version])


async def ask_all():
    questions = [line.split() for line in sys.stdin]
    await asyncio.gather(*(ask(number, *words) for number, words in enumerate(questions)))


if sys.argv[1] == "serve":
    asyncio.run(serve_all(*sys.argv[2:]))
else:
    asyncio.run(ask_all())
