# SPDX-License-Identifier: GPL-2.0-or-later
"""HTTP/3 ends by aioquic.

http3.py serve CERTIFICATE KEY ADDRESS...   serves port 443 of each address, since a server at all addresses would answer
                                            from another one; prints `ready`; answers with `HOST here`
http3.py get NAME HOST                      requests HOST from NAME's server, over a connected socket, so that an ICMP error
                                            ends it; prints the answer
"""

import asyncio
import socket
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

PORT = 443
PATIENCE_SECONDS = 60


class Served(QuicConnectionProtocol):
    """The server's part of a connection."""

    http = None

    def quic_event_received(self, event):
        self.http = self.http or H3Connection(self._quic)
        for got in self.http.handle_event(event):
            if isinstance(got, HeadersReceived):
                host = dict(got.headers)[b":authority"]
                self.http.send_headers(got.stream_id, [(b":status", b"200")])
                self.http.send_data(got.stream_id, host + b" here\n", end_stream=True)
                self.transmit()


async def serve_all(certificate, key, *addresses):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(certificate, key)
    for address in addresses:
        await serve(address, PORT, configuration=configuration, create_protocol=Served)
    print("ready", flush=True)
    await asyncio.Event().wait()


class Asking(QuicConnectionProtocol):
    """The client's part of a connection."""

    def __init__(self, quic):
        super().__init__(quic)
        self.http = H3Connection(quic)
        self.body = b""
        self.answer = asyncio.get_running_loop().create_future()

    def error_received(self, error):
        if not self.answer.done():
            self.answer.set_exception(error)

    def quic_event_received(self, event):
        for got in self.http.handle_event(event):
            if isinstance(got, DataReceived):
                self.body += got.data
                if got.stream_ended and not self.answer.done():
                    self.answer.set_result(self.body.decode())


async def get(name, host):
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name=host)
    loop = asyncio.get_running_loop()
    family, _, _, _, address = (await loop.getaddrinfo(name, PORT, type=socket.SOCK_DGRAM))[0]
    transport, client = await loop.create_datagram_endpoint(
        lambda: Asking(QuicConnection(configuration=configuration)), family=family, remote_addr=address[:2]
    )
    client.connect(transport.get_extra_info("peername"))
    stream = client._quic.get_next_available_stream_id()
    headers = {":method": "GET", ":scheme": "https", ":authority": host, ":path": "/"}
    client.http.send_headers(stream, [(key.encode(), value.encode()) for key, value in headers.items()], end_stream=True)
    client.transmit()
    print(await asyncio.wait_for(client.answer, PATIENCE_SECONDS), end="")


asyncio.run(serve_all(*sys.argv[2:]) if sys.argv[1] == "serve" else get(*sys.argv[2:]))
