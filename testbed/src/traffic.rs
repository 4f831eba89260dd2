// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic through plain sockets. Servers run on threads that end with the case's process.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::netns::Namespace;
use anyhow::{ensure, Context};

use crate::place::PORT;
use crate::wait::{pause_for, until, watch_silence, PATIENCE};

/// Time to wait for traffic that must not arrive: long compared with a packet's delay on this machine.
pub const VAIN: Duration = Duration::from_millis(400);
/// Time to wait for surplus datagrams after all expected ones have arrived.
const TOO_MANY: Duration = Duration::from_millis(50);
/// Bytes per write to a stream.
const CHUNK_BYTES: usize = 128 * 1024;

/// Checksum over every byte and its position, independent of how the bytes are split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self
                .0
                .wrapping_mul(0x0100_0000_01b3)
                .wrapping_add(u64::from(*byte) + 1);
        }
    }
}

/// A pseudo-random byte sequence of period 2^64 - 1 words (xorshift).
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_ne_bytes()[..word.len()]);
        }
    }
}

/// Repeats an interrupted call: calls with a timeout are interrupted if the machine freezes its processes for a while.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}

/// Sends `bytes` bytes from client to server over one TCP connection; fails unless they arrive unchanged.
/// - address: address of the server.
pub fn tcp_transfer(
    client: &Namespace,
    server: &Namespace,
    address: IpAddr,
    bytes: u64,
) -> anyhow::Result<()> {
    let listener = server.enter(|| TcpListener::bind((address, PORT)))?;
    let receiver = thread::spawn(move || -> io::Result<(u64, Sum)> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (mut count, mut sum) = (0, Sum::default());
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match uninterrupted(|| stream.read(&mut buffer))? {
                0 => return Ok((count, sum)),
                read => {
                    count += read as u64;
                    sum.add(&buffer[..read]);
                }
            }
        }
    });
    let mut stream = tcp_connect(client, address, PATIENCE).context("connect")?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut noise, mut sum) = (Noise(0x7477_696e_7761_6c6c), Sum::default());
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let piece = &mut buffer[..left.min(CHUNK_BYTES as u64) as usize];
        noise.fill(piece);
        sum.add(piece);
        stream.write_all(piece).context("send")?;
        left -= piece.len() as u64;
    }
    drop(stream);
    let (received, received_sum) = receiver
        .join()
        .expect("the receiver does not panic")
        .context("receive")?;
    ensure!(received == bytes, "sent {bytes} bytes, received {received}");
    ensure!(
        received_sum == sum,
        "the bytes that arrived are not those that were sent"
    );
    Ok(())
}

/// Opens a TCP connection to the port of the rules ([`PORT`]), within the time `limit`.
/// - address: address of the server.
pub fn tcp_connect(
    namespace: &Namespace,
    address: IpAddr,
    limit: Duration,
) -> io::Result<TcpStream> {
    namespace.enter(|| TcpStream::connect_timeout(&(address, PORT).into(), limit))
}

/// Opens a TCP connection from the address `from` to the port of the rules ([`PORT`]) at the address `to`.
pub fn tcp_connect_from(namespace: &Namespace, from: IpAddr, to: IpAddr) -> io::Result<TcpStream> {
    namespace.enter(|| {
        let domain = if from.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        // std can't bind a stream before connecting.
        let socket = crate::packets::socket(domain, libc::SOCK_STREAM, 0)?;
        crate::packets::bind(&socket, SocketAddr::new(from, 0))?;
        crate::packets::connect(&socket, SocketAddr::new(to, PORT))?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

/// Starts a TCP server that echoes each byte. It serves one connection after another.
pub fn tcp_echo(namespace: &Namespace, address: IpAddr) -> io::Result<()> {
    let listener = namespace.enter(|| TcpListener::bind((address, PORT)))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that disconnects ends only its own connection.
            let _ = echo(stream);
        }
    });
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut byte = [0];
    while uninterrupted(|| stream.read(&mut byte))? == 1 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// Sends a byte and waits for its echo.
pub fn tcp_ask(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

/// A UDP server that counts datagrams, and echoes them if `answers` was set.
pub struct UdpServer {
    count: Arc<AtomicU64>,
    socket: Arc<UdpSocket>,
}

impl UdpServer {
    /// Binds the port of the rules ([`PORT`]) at an address of a namespace. Fails if the port is in use.
    /// - answers: true: the server echoes each datagram; false: it only counts them.
    pub fn start(
        namespace: &Namespace,
        address: IpAddr,
        answers: bool,
    ) -> anyhow::Result<UdpServer> {
        let socket = Arc::new(namespace.enter(|| UdpSocket::bind((address, PORT)))?);
        // More than net.core.rmem_max, so that no datagram of a flood is lost at the server's socket.
        crate::packets::force_receive_buffer(&*socket, 256 << 20)?;
        let count = Arc::new(AtomicU64::new(0));
        let server = UdpServer {
            count: count.clone(),
            socket: socket.clone(),
        };
        thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok((read, from)) = socket.recv_from(&mut buffer) {
                if answers {
                    // The client notices a reply that can't be sent.
                    let _ = socket.send_to(&buffer[..read], from);
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(server)
    }

    /// Returns the number of datagrams that arrived, including those dropped at the server's full socket.
    pub fn arrived(&self) -> anyhow::Result<u64> {
        let dropped = crate::packets::socket_drops(self.socket.as_raw_fd())?;
        Ok(self.count.load(Ordering::Relaxed) + u64::from(dropped))
    }

    /// Waits until `expected` datagrams have arrived, and checks that no more arrive.
    pub fn check_arrived(&self, expected: u64) -> anyhow::Result<()> {
        let all = until("all datagrams arrive", PATIENCE, || {
            Ok(self.arrived()? >= expected)
        });
        watch_silence(TOO_MANY);
        let arrived = self.arrived()?;
        all.with_context(|| format!("{arrived} of {expected} datagrams arrived"))?;
        ensure!(
            arrived == expected,
            "{arrived} datagrams arrived instead of {expected}"
        );
        Ok(())
    }
}

/// Opens a UDP socket connected to the port of the rules ([`PORT`]) at the server's address.
pub fn udp_client(namespace: &Namespace, address: IpAddr) -> io::Result<UdpSocket> {
    udp_client_to(namespace, (address, PORT).into())
}

/// Opens a UDP socket connected to an address and port.
pub fn udp_client_to(namespace: &Namespace, to: SocketAddr) -> io::Result<UdpSocket> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = namespace.enter(|| UdpSocket::bind(any))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends datagrams without waiting for replies.
pub fn udp_send(client: &UdpSocket, count: u64, payload_bytes: usize) -> anyhow::Result<()> {
    let payload = vec![0x55; payload_bytes];
    for _ in 0..count {
        client.send(&payload).context("send a datagram")?;
    }
    Ok(())
}

/// Sends requests one at a time, each after the reply to the previous one. Fails unless each reply equals its request.
pub fn udp_exchange(client: &UdpSocket, count: u64) -> anyhow::Result<()> {
    for number in 0..count {
        let request = number.to_be_bytes();
        client.send(&request).context("send a request")?;
        let mut answer = [0; 64];
        let read = uninterrupted(|| client.recv(&mut answer))
            .with_context(|| format!("the answer to request {number}"))?;
        ensure!(
            answer[..read] == request,
            "the answer to request {number} is another"
        );
    }
    Ok(())
}

/// A thread that sends datagrams without waiting for replies, until it is stopped.
pub struct UdpFlood {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl UdpFlood {
    /// Starts a flood without pauses, from a connected socket.
    pub fn start(client: UdpSocket) -> UdpFlood {
        UdpFlood::paced(client, Duration::ZERO)
    }

    /// Starts a flood with a pause after each burst of 64 datagrams, so that a firewall that gets no CPU time for whole
    /// seconds does not overflow the kernel's queue.
    pub fn paced(client: UdpSocket, pause: Duration) -> UdpFlood {
        const BURST: u64 = 64;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            let mut sent = 0;
            while !told.load(Ordering::Relaxed) {
                // A datagram refused by a full socket does not count.
                sent += u64::from(client.send(&[0x55; 18]).is_ok());
                if sent % BURST == 0 && !pause.is_zero() {
                    pause_for(pause);
                }
            }
            sent
        });
        UdpFlood { stop, thread }
    }

    /// Ends the flood; returns the number of datagrams sent.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sender does not panic")
    }
}
