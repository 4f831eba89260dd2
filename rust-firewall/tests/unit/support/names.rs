// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of the parsers of names for some bytes, as a line of JSON. The C twin's tests/names.c prints the same lines.

use rust_firewall::names::answer::{self, Answer};
use rust_firewall::names::body::{self, NamesBody, NamesChunk};
use rust_firewall::names::progress::NamesProgress;
use rust_firewall::names::quic::{QuicFrameKind, QuicHeader, QuicKeys, QuicKind};
use rust_firewall::names::{client, dns, hello, host, http, quic};
use rust_firewall::names::{Names, NamesProtocol, NamesState};

/// Values of the line "ask" of a vector: each selects a parser.
pub const ASKS: [&str; 11] = [
    "fold",
    "hello",
    "client",
    "client-whole",
    "query",
    "framed",
    "quic",
    "frames",
    "answer",
    "request",
    "chunk",
];

/// Returns bytes as a JSON string. A byte that is no printable ASCII character is written as an escape with its
/// hexadecimal number.
fn text(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b' '..=b'~' if !b"\"\\".contains(byte) => text.push(char::from(*byte)),
            _ => text += &format!("\\u{byte:04x}"),
        }
    }
    text + "\""
}

fn protocols(names: &Names) -> String {
    let mut left = &names.alpn[..names.alpn_length.into()];
    let mut protocols = Vec::new();
    while let [length, rest @ ..] = left {
        let (protocol, behind) = rest.split_at((*length).into());
        protocols.push(text(protocol));
        left = behind;
    }
    protocols.join(",")
}

fn state_text(state: NamesState) -> &'static str {
    match state {
        NamesState::None => "none",
        NamesState::Undecided => "undecided",
        NamesState::Known => "known",
        NamesState::Unreadable => "unreadable",
    }
}

fn line(names: &Names) -> String {
    let state = state_text(names.state);
    let protocol = match names.protocol {
        NamesProtocol::Other => "other",
        NamesProtocol::Tls => "tls",
        NamesProtocol::Quic => "quic",
        NamesProtocol::Http => "http",
        NamesProtocol::Dns => "dns",
    };
    if names.state != NamesState::Known {
        let blank = Names {
            state: names.state,
            protocol: names.protocol,
            ..Names::default()
        };
        assert_eq!(*names, blank, "fields without Known");
    }
    format!(
        "{{\"state\":\"{state}\",\"protocol\":\"{protocol}\",\"host\":{},\"method\":{},\"alpn\":[{}],\
         \"version\":{},\"ech\":{},\"type\":{}}}",
        text(&names.host[..names.host_length.into()]),
        text(&names.method[..names.method_length.into()]),
        protocols(names),
        names.version,
        names.ech,
        names.dns_type,
    )
}

/// ClientHello that is joined from CRYPTO frames. Missing bytes are 0.
struct Crypto {
    bytes: Vec<u8>,
    end: usize,
}

/// Returns the frames of a plaintext as JSON. Copies the data of CRYPTO frames to their offsets in `crypto`.
fn frames(plain: &[u8], crypto: &mut Crypto) -> String {
    let mut frames = Vec::new();
    let mut at = 0;
    while (at as usize) < plain.len() {
        let frame = quic::frame(plain, at);
        assert!(frame.next > at && frame.next as usize <= plain.len());
        let kind = match frame.kind {
            QuicFrameKind::Bad => "bad",
            QuicFrameKind::Padding => "padding",
            QuicFrameKind::Ping => "ping",
            QuicFrameKind::Ack => "ack",
            QuicFrameKind::Crypto => "crypto",
            QuicFrameKind::Close => "close",
        };
        frames.push(match frame.kind {
            QuicFrameKind::Crypto => format!("\"crypto {}+{}\"", frame.offset, frame.data_bytes),
            _ => format!("\"{kind}\""),
        });
        let data = &plain[frame.data as usize..][..frame.data_bytes as usize];
        let end = frame.offset.saturating_add(data.len() as u64);
        if end <= crypto.bytes.len() as u64 {
            crypto.bytes[frame.offset as usize..end as usize].copy_from_slice(data);
            crypto.end = crypto.end.max(end as usize);
        }
        at = frame.next;
    }
    frames.join(",")
}

/// Returns the plaintext of an Initial packet of QUIC; empty if it can't be decrypted. Uses the keys of earlier
/// packets, or else derives keys from this packet.
fn open(datagram: &[u8], header: &QuicHeader, keys: &mut QuicKeys) -> Vec<u8> {
    let opener = quic::make();
    let mut plain = [0; hello::BYTES_MAX];
    let mut bytes = quic::open(&opener, keys, datagram, header, &mut plain);
    if bytes == 0 {
        let mut own = quic::derive(&opener, datagram, header);
        bytes = quic::open(&opener, &mut own, datagram, header, &mut plain);
        if bytes > 0 {
            *keys = own;
        }
    }
    plain[..bytes as usize].to_vec()
}

fn packet(
    datagram: &[u8],
    header: &QuicHeader,
    keys: &mut QuicKeys,
    crypto: &mut Crypto,
) -> String {
    let kind = match header.kind {
        QuicKind::Bad => "bad",
        QuicKind::Short => "short",
        QuicKind::Unknown => "unknown",
        QuicKind::Long => "long",
        QuicKind::Handshake => "handshake",
        QuicKind::Initial => "initial",
    };
    let connection = &datagram[header.connection as usize..][..header.connection_bytes.into()];
    let connection: String = connection
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let plain = match header.kind {
        QuicKind::Initial => open(datagram, header, keys),
        _ => Vec::new(),
    };
    format!(
        "{{\"kind\":\"{kind}\",\"version\":{},\"connection\":\"{connection}\",\"end\":{},\"plain\":{},\"next\":{},\
         \"frames\":[{}]}}",
        header.version,
        header.end,
        plain.len(),
        keys.next,
        frames(&plain, crypto),
    )
}

/// Returns the packets of a datagram as JSON, and the names of the ClientHello in them.
fn datagram(bytes: &[u8]) -> String {
    let mut keys = QuicKeys::default();
    let mut crypto = Crypto {
        bytes: vec![0; hello::BYTES_MAX],
        end: 0,
    };
    let mut names = Names::default();
    let mut packets = Vec::new();
    let mut at = 0;
    while packets.is_empty() || (at as usize) < bytes.len() {
        let header = quic::header(bytes, at);
        assert!(header.start == at && header.end >= at && header.end as usize <= bytes.len());
        assert!(header.end > at || bytes.is_empty());
        packets.push(packet(bytes, &header, &mut keys, &mut crypto));
        at = header.end;
    }
    hello::parse(&crypto.bytes[..crypto.end], NamesProtocol::Quic, &mut names);
    format!(
        "{{\"packets\":[{}],\"names\":{}}}",
        packets.join(","),
        line(&names)
    )
}

/// Maximum number of addresses of a DNS answer that a result lists.
const SHOWN: usize = 8;

/// Returns the question of a DNS message as JSON, and the addresses that an answer has for the question.
fn message(bytes: &[u8]) -> String {
    let mut read = Answer::default();
    let Some(offset) = answer::question(bytes, &mut read) else {
        return "{\"question\":0}".to_owned();
    };
    assert!(offset <= bytes.len(), "the question ends elsewhere");
    let is_read =
        read.is_answer && answer::asks_address(&read) && answer::parse(bytes, offset, &mut read);
    assert!(is_read || read.count == 0, "addresses of nothing");
    let told = SHOWN.min(read.count as usize);
    let addresses = read.addresses.iter().take(told);
    let addresses: Vec<String> = addresses.map(|one| format!("\"{one:032x}\"")).collect();
    format!(
        "{{\"question\":{offset},\"id\":{},\"answer\":{},\"host\":{},\"type\":{},\"class\":{},\"read\":{is_read},\"ttl\":{},\"count\":{},\
         \"addresses\":[{}]}}",
        read.id,
        read.is_answer,
        text(&read.host.bytes[..read.host.length.into()]),
        read.dns_type,
        read.class,
        if read.count > 0 { read.ttl } else { 0 },
        read.count,
        addresses.join(",")
    )
}

/// Returns the names of an HTTP request as JSON, and the kind of body after its header.
fn request(bytes: &[u8], progress: &mut NamesProgress) -> String {
    let (mut body, mut names) = (NamesBody::default(), Names::default());
    names.state = http::begins(bytes, progress);
    if names.state == NamesState::Known {
        http::parse(bytes, false, progress, &mut body, &mut names);
    }
    assert!(body.header_bytes as usize <= bytes.len());
    match names.state == NamesState::Known && names.protocol == NamesProtocol::Http {
        true => format!(
            "{{\"header\":{},\"length\":{},\"chunked\":{},\"tunnel\":{},\"names\":{}}}",
            body.header_bytes,
            body.length,
            body.is_chunked,
            body.switches,
            line(&names)
        ),
        false => format!("{{\"names\":{}}}", line(&names)),
    }
}

/// Returns the parsed head of a chunk of an HTTP body as JSON.
fn chunk(bytes: &[u8]) -> String {
    let mut chunk = NamesChunk::default();
    let state = state_text(body::chunk(bytes, &mut chunk));
    assert!(chunk.head_bytes as usize <= bytes.len());
    let (head, behind) = (chunk.head_bytes, chunk.bytes);
    format!("{{\"state\":\"{state}\",\"head\":{head},\"bytes\":{behind}}}")
}

/// Returns the parsers' result for some bytes.
/// - what: one of ASKS.
pub fn ask(what: &str, bytes: &[u8]) -> String {
    ask_from(what, bytes, &mut NamesProgress::default())
}

/// Parses a stream after each segment, once with the progress of earlier segments, and once from the stream's start.
/// Returns true if both results are the same after each segment.
/// - segment: size of the segments in bytes.
/// - what: client or request.
pub fn is_same_in_segments(what: &str, bytes: &[u8], segment: usize) -> bool {
    let mut progress = NamesProgress::default();
    for end in (segment..bytes.len()).step_by(segment).chain([bytes.len()]) {
        let whole = ask(what, &bytes[..end]);
        if ask_from(what, &bytes[..end], &mut progress) != whole {
            return false;
        }
        if !whole.contains("\"state\":\"undecided\"") {
            break;
        }
    }
    true
}

/// Returns the result of the parser that `what` selects, for some bytes.
/// - progress: in/out: progress of an earlier call with fewer of these bytes; the default before the first call.
fn ask_from(what: &str, bytes: &[u8], progress: &mut NamesProgress) -> String {
    let mut names = Names::default();
    let mut scratch = [0; hello::BYTES_MAX];
    let whole = what.ends_with("-whole");
    match what.trim_end_matches("-whole") {
        "fold" => {
            if host::fold(bytes, &mut names) {
                names.state = NamesState::Known;
            }
        }
        "hello" => {
            hello::parse(bytes, NamesProtocol::Tls, &mut names);
        }
        "client" => {
            client::parse(bytes, whole, &mut scratch, progress, &mut names);
        }
        "query" => {
            dns::query(bytes, &mut names);
        }
        "framed" => {
            let (_, taken) = dns::framed(bytes, &mut names);
            return format!("{{\"taken\":{taken},\"names\":{}}}", line(&names));
        }
        "quic" => return datagram(bytes),
        "request" => return request(bytes, progress),
        "chunk" => return chunk(bytes),
        "frames" => {
            let mut crypto = Crypto {
                bytes: Vec::new(),
                end: 0,
            };
            return format!("[{}]", frames(bytes, &mut crypto));
        }
        "answer" => return message(bytes),
        _ => panic!("nobody knows {what}"),
    }
    line(&names)
}
