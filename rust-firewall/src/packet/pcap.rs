// SPDX-License-Identifier: GPL-2.0-or-later
//! Reader of capture files as a stream: pcap (both byte orders, microseconds and nanoseconds) and pcapng. Frames that
//! are not IP are skipped and counted. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use nix::errno::Errno;

use crate::base::log::{failure_set, strerror, Failure, LogExit};
use crate::packet::pcap_link;

/// Maximum size of a packet or block in bytes; with a larger size the capture counts as damaged.
pub const BLOCK_MAX: usize = 16 << 20;
/// Maximum number of interfaces of a pcapng section.
pub const INTERFACES_MAX: usize = 4096;
/// Start of a packet's comment in a capture that contains its metadata and, if recorded, its verdict.
pub const COMMENT_BEGIN: &str = "twinwall:";

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// Block type of a Section Header Block, the same in both byte orders.
const MAGIC_NG: u32 = 0x0a0d_0d0a;
/// Byte-order magic in a Section Header Block.
const MAGIC_NG_ORDER: u32 = 0x1a2b_3c4d;
/// Size of the header of a pcap file.
const HEAD_BYTES: usize = 24;
/// Size of the header of each packet in a pcap file.
const RECORD_BYTES: usize = 16;
/// Size of type and length of a pcapng block.
const BLOCK_HEAD_BYTES: usize = 8;
/// Minimum size of a pcapng block: type, and length before and after its body.
const BLOCK_LEAST: usize = 12;
/// Minimum size of a Section Header Block's body.
const SECTION_BYTES: usize = 16;
/// Size of an Interface Description Block's body, without options.
const INTERFACE_BYTES: usize = 8;
/// Size of the fields before the packet in an Enhanced Packet Block's body.
const PACKET_BYTES: usize = 20;
/// Size of the fields before the packet in a Simple Packet Block's body.
const SIMPLE_BYTES: usize = 4;
/// Size of code and length of a pcapng option.
const OPTION_HEAD_BYTES: usize = 4;
/// Type of an Interface Description Block.
const BLOCK_INTERFACE: u32 = 1;
/// Type of a Simple Packet Block.
const BLOCK_SIMPLE: u32 = 3;
/// Type of an Enhanced Packet Block.
const BLOCK_PACKET: u32 = 6;
/// Code of the pcapng option opt_comment (a comment).
const OPTION_COMMENT: u16 = 1;
/// Code of the pcapng option if_tsresol (resolution of time stamps).
const OPTION_RESOLUTION: u16 = 9;
/// Code of the pcapng option if_tsoffset (offset of time stamps).
const OPTION_OFFSET: u16 = 14;
/// Value of if_tsresol for a resolution of 10^-6 seconds.
const RESOLUTION_US: u8 = 6;
/// Value of if_tsresol for a resolution of 10^-9 seconds.
const RESOLUTION_NS: u8 = 9;
/// Bit of if_tsresol for a resolution of 2^-n seconds.
const RESOLUTION_BINARY: u8 = 0x80;
/// Maximum n of a resolution of 10^-n seconds: 64 bits hold 10^19.
const RESOLUTION_MAX: u8 = 19;
const RESOLUTION_BINARY_MAX: u8 = 63;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// Interface of a pcapng section. A pcap file has one interface, without a description.
#[derive(Clone, Copy, Debug)]
pub struct PcapInterface {
    pub link: u16,
    /// Maximum captured length; 0 = no limit.
    pub snap_bytes: u32,
    /// Resolution of time stamps, encoded as if_tsresol: 10^-n seconds, or 2^-n seconds if bit 7 is set.
    pub resolution: u8,
    /// Number of seconds to add to time stamps (if_tsoffset).
    pub offset_s: i64,
}

/// Open capture file.
pub struct Pcap {
    /// Name of the capture for messages.
    pub name: String,
    file: Box<dyn Read>,
    /// True if the capture's numbers are not in the host's byte order.
    swapped: bool,
    is_ng: bool,
    /// Number of the file's bytes read so far.
    at: u64,
    block: Vec<u8>,
    interfaces: Vec<PcapInterface>,
    /// Time of the last frame with a time, in nanoseconds since 1970.
    last_ns: u64,
    /// Number of frames read so far, including skipped frames.
    pub frames: u64,
    /// Number of frames that are not IP.
    pub skipped: u64,
}

/// IP packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapPacket<'a> {
    /// Number of the packet's frame in the capture, from 1.
    pub number: u64,
    /// Time of the packet's frame, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Captured bytes from the IP header on.
    pub bytes: &'a [u8],
    /// Length in bytes of the complete IP packet, without link header and padding.
    pub original: u32,
    /// IP version that the frame's link layer states: 4 or 6; 0 = not stated.
    pub version: u8,
    /// Text after `COMMENT_BEGIN` in the frame's first comment that begins with it; None if there is none.
    pub comment: Option<&'a [u8]>,
}

/// Returns the bytes at an offset. Callers have checked the length; otherwise returns zeros.
fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let at = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    at.copied().unwrap_or([0; N])
}

fn u16_at(pcap: &Pcap, bytes: &[u8], offset: usize) -> u16 {
    let value = u16::from_ne_bytes(array_at(bytes, offset));
    if pcap.swapped {
        value.swap_bytes()
    } else {
        value
    }
}

fn u32_at(pcap: &Pcap, bytes: &[u8], offset: usize) -> u32 {
    let value = u32::from_ne_bytes(array_at(bytes, offset));
    if pcap.swapped {
        value.swap_bytes()
    } else {
        value
    }
}

fn u64_at(pcap: &Pcap, bytes: &[u8], offset: usize) -> u64 {
    let value = u64::from_ne_bytes(array_at(bytes, offset));
    if pcap.swapped {
        value.swap_bytes()
    } else {
        value
    }
}

/// Returns a failure for damage at a byte of the capture.
fn fail_at(pcap: &Pcap, at: u64, cause: &str) -> Failure {
    let name = &pcap.name;
    failure_set(
        LogExit::Usage,
        format_args!("{name}: the capture is damaged at byte {at}: {cause}"),
    )
}

fn fail_reading(name: &str, error: &io::Error) -> Failure {
    let error = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    failure_set(
        LogExit::Usage,
        format_args!("{name}: cannot read the capture: {}", strerror(error)),
    )
}

/// Fills `bytes` from the capture. Fails if too few are left; returns false if none is left and `may_end` is set.
fn read_bytes(pcap: &mut Pcap, bytes: &mut [u8], may_end: bool) -> Result<bool, Failure> {
    let mut got = 0;
    while let Some(left @ [_, ..]) = bytes.get_mut(got..) {
        match pcap.file.read(left) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fail_reading(&pcap.name, &error)),
        }
    }
    if got == bytes.len() {
        pcap.at += got as u64;
        return Ok(true);
    }
    if got == 0 && may_end {
        return Ok(false);
    }
    Err(fail_at(pcap, pcap.at, "it ends here"))
}

/// Reads the next `count` bytes of the capture into pcap.block.
fn read_block(pcap: &mut Pcap, count: usize) -> Result<(), Failure> {
    if count > BLOCK_MAX {
        let cause = "a packet or block of more than 16 MiB";
        return Err(fail_at(pcap, pcap.at, cause));
    }
    let mut block = std::mem::take(&mut pcap.block);
    block.resize(count, 0);
    let result = read_bytes(pcap, &mut block, false);
    pcap.block = block;
    result.map(drop)
}

fn add_interface(pcap: &mut Pcap, interface: PcapInterface) -> Result<(), Failure> {
    if pcap.interfaces.len() == INTERFACES_MAX {
        return Err(fail_at(pcap, pcap.at, "more than 4096 interfaces"));
    }
    if !pcap_link::is_known(interface.link) {
        return Err(failure_set(
            LogExit::Usage,
            format_args!(
                "{}: packets of link type {} are not understood: capture Ethernet, Linux cooked \
                 or raw IP",
                pcap.name, interface.link
            ),
        ));
    }
    pcap.interfaces.push(interface);
    Ok(())
}

/// Reads the rest of a pcap file's header, after its magic number, and adds the file's interface.
fn open_pcap(pcap: &mut Pcap, magic: u32) -> Result<(), Failure> {
    read_block(pcap, HEAD_BYTES - size_of_val(&magic))?;
    // The link type follows version, zone, accuracy and snap length, which are not needed.
    let link = u32_at(pcap, &pcap.block, 16) as u16;
    let resolution = match magic {
        MAGIC_NS => RESOLUTION_NS,
        _ => RESOLUTION_US,
    };
    let interface = PcapInterface {
        link,
        snap_bytes: 0,
        resolution,
        offset_s: 0,
    };
    add_interface(pcap, interface)
}

/// Reads the rest of a Section Header Block, after the block's type.
fn open_section(pcap: &mut Pcap) -> Result<(), Failure> {
    let at = pcap.at - size_of::<u32>() as u64;
    let mut head = [0; 8]; // block's length and byte-order magic
    read_bytes(pcap, &mut head, false)?;
    let order = u32::from_ne_bytes(array_at(&head, 4));
    pcap.swapped = order == MAGIC_NG_ORDER.swap_bytes();
    if order != MAGIC_NG_ORDER && !pcap.swapped {
        return Err(fail_at(pcap, at, "a section of no known byte order"));
    }
    pcap.interfaces.clear();
    let length = u32_at(pcap, &head, 0) as usize;
    if length % 4 != 0 || length < BLOCK_LEAST + SECTION_BYTES {
        return Err(fail_at(pcap, at, "a block of an impossible length"));
    }
    read_block(pcap, length - size_of_val(&order) - head.len())?;
    if u16_at(pcap, &pcap.block, 0) != 1 {
        return Err(fail_at(pcap, at, "a section of an unknown version"));
    }
    if u32_at(pcap, &pcap.block, length - BLOCK_LEAST - 4) as usize != length {
        return Err(fail_at(pcap, at, "a block whose two lengths differ"));
    }
    Ok(())
}

fn open_head(pcap: &mut Pcap) -> Result<(), Failure> {
    let mut begin = [0; 4];
    read_bytes(pcap, &mut begin, false)?;
    let magic = u32::from_ne_bytes(begin);
    pcap.is_ng = magic == MAGIC_NG;
    if pcap.is_ng {
        return open_section(pcap);
    }
    pcap.swapped = magic == MAGIC_US.swap_bytes() || magic == MAGIC_NS.swap_bytes();
    let magic = u32_at(pcap, &begin, 0);
    if magic != MAGIC_US && magic != MAGIC_NS {
        return Err(fail_at(pcap, 0, "it is neither pcap nor pcapng"));
    }
    open_pcap(pcap, magic)
}

/// Opens a capture and reads its header. Fails with `LogExit::Usage` and a message that begins with the capture's name.
/// - path: "-" = stdin.
pub fn open(path: &str) -> Result<Pcap, Failure> {
    let file: Box<dyn Read> = if path == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| fail_reading(path, &error))?;
        Box::new(BufReader::new(file))
    };
    let mut pcap = Pcap {
        name: path.to_owned(),
        file,
        swapped: false,
        is_ng: false,
        at: 0,
        block: Vec::new(),
        interfaces: Vec::new(),
        last_ns: 0,
        frames: 0,
        skipped: 0,
    };
    open_head(&mut pcap)?;
    Ok(pcap)
}

/// Converts a time stamp in units of the interface's resolution to nanoseconds, and adds the interface's offset.
fn time_of(interface: &PcapInterface, stamp: u64) -> u64 {
    let power = interface.resolution & !RESOLUTION_BINARY;
    let offset_ns = (interface.offset_s as u64).wrapping_mul(NS_PER_SECOND);
    let time_ns = if interface.resolution & RESOLUTION_BINARY != 0 {
        let product = u128::from(stamp) * u128::from(NS_PER_SECOND);
        (product >> power) as u64
    } else if power <= RESOLUTION_NS {
        stamp.wrapping_mul(10_u64.pow(u32::from(RESOLUTION_NS - power)))
    } else {
        stamp / 10_u64.pow(u32::from(power - RESOLUTION_NS))
    };
    time_ns.wrapping_add(offset_ns)
}

/// Captured frame. `offset` and `captured` are the position and length of its bytes in pcap.block.
struct Frame {
    link: u16,
    time_ns: u64,
    offset: usize,
    captured: usize,
    original: u32,
    /// Position in the block of the text after `COMMENT_BEGIN` in the frame's first comment that begins with it; None
    /// if there is none.
    comment: Option<Range<usize>>,
}

/// Result of reading one record (pcap) or block (pcapng): a frame, a block without a packet, or the end of the file.
enum Next {
    Frame(Frame),
    /// Block without a packet.
    Other,
    End,
}

/// Reads the next record of a pcap file.
fn next_record(pcap: &mut Pcap) -> Result<Next, Failure> {
    let mut head = [0; RECORD_BYTES];
    if !read_bytes(pcap, &mut head, true)? {
        return Ok(Next::End);
    }
    let Some(interface) = pcap.interfaces.first() else {
        return Ok(Next::End); // not reached: opening has added the interface
    };
    let seconds_ns = u64::from(u32_at(pcap, &head, 0)) * NS_PER_SECOND;
    let fraction_ns = time_of(interface, u32_at(pcap, &head, 4).into());
    let frame = Frame {
        link: interface.link,
        time_ns: seconds_ns + fraction_ns,
        offset: 0,
        captured: u32_at(pcap, &head, 8) as usize,
        original: u32_at(pcap, &head, 12),
        comment: None,
    };
    read_block(pcap, frame.captured)?;
    Ok(Next::Frame(frame))
}

/// Rounds a length up to a multiple of 4 bytes, at which the next part of a block begins.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

/// Option of a pcapng block: its code and its value.
struct BlockOption {
    code: u16,
    /// Position of the option's value in the block.
    value: Range<usize>,
}

/// Result of reading the next option of a block: an option, the end of the options, or damage.
enum NextOption {
    Option(BlockOption),
    End,
    Damaged,
}

/// Reads the next option of a block whose options end at `end`.
/// - at: in: offset of the option; out: offset after it.
fn next_option(pcap: &Pcap, at: &mut usize, end: usize) -> NextOption {
    if end - *at < OPTION_HEAD_BYTES {
        return NextOption::End;
    }
    let code = u16_at(pcap, &pcap.block, *at);
    let bytes = usize::from(u16_at(pcap, &pcap.block, *at + 2));
    let begin = *at + OPTION_HEAD_BYTES;
    if code == 0 {
        return NextOption::End;
    }
    if padded(bytes) > end - begin {
        return NextOption::Damaged;
    }
    *at = begin + padded(bytes);
    NextOption::Option(BlockOption {
        code,
        value: begin..begin + bytes,
    })
}

/// Parses the options of an interface description, which end at `end`, into `interface`. Returns true if they are
/// valid.
fn parse_options(pcap: &Pcap, end: usize, interface: &mut PcapInterface) -> bool {
    let mut at = INTERFACE_BYTES;
    loop {
        let option = match next_option(pcap, &mut at, end) {
            NextOption::Option(option) => option,
            NextOption::End => return true,
            NextOption::Damaged => return false,
        };
        if option.code == OPTION_RESOLUTION && option.value.len() == 1 {
            [interface.resolution] = array_at(&pcap.block, option.value.start);
        }
        if option.code == OPTION_OFFSET && option.value.len() == 8 {
            interface.offset_s = u64_at(pcap, &pcap.block, option.value.start) as i64;
        }
    }
}

/// Finds the first comment that begins with `COMMENT_BEGIN` in a packet's options. Returns false only if an option is
/// damaged.
/// - at, end: offsets at which the packet's options begin and end.
/// - comment: out: position in the block of the text after `COMMENT_BEGIN`; untouched if no comment begins with it.
fn find_comment(
    pcap: &Pcap,
    mut at: usize,
    end: usize,
    comment: &mut Option<Range<usize>>,
) -> bool {
    loop {
        let BlockOption { code, value } = match next_option(pcap, &mut at, end) {
            NextOption::Option(option) => option,
            NextOption::End => return true,
            NextOption::Damaged => return false,
        };
        let text = pcap.block.get(value.clone()).unwrap_or_default();
        if comment.is_none() && code == OPTION_COMMENT && text.starts_with(COMMENT_BEGIN.as_bytes())
        {
            *comment = Some(value.start + COMMENT_BEGIN.len()..value.end);
        }
    }
}

/// Parses an Interface Description Block and adds its interface.
/// - at: offset of the block in the capture, for messages.
/// - bytes: length of the block's body.
fn parse_interface(pcap: &mut Pcap, at: u64, bytes: usize) -> Result<(), Failure> {
    if bytes < INTERFACE_BYTES {
        return Err(fail_at(pcap, at, "an interface that is too short"));
    }
    let mut interface = PcapInterface {
        link: u16_at(pcap, &pcap.block, 0),
        snap_bytes: u32_at(pcap, &pcap.block, 4),
        resolution: RESOLUTION_US,
        offset_s: 0,
    };
    if !parse_options(pcap, bytes, &mut interface) {
        return Err(fail_at(pcap, at, "an interface with a damaged option"));
    }
    let most = match interface.resolution & RESOLUTION_BINARY {
        0 => RESOLUTION_MAX,
        _ => RESOLUTION_BINARY_MAX,
    };
    if interface.resolution & !RESOLUTION_BINARY > most {
        let cause = "an interface with an impossible time resolution";
        return Err(fail_at(pcap, at, cause));
    }
    add_interface(pcap, interface)
}

/// Parses the packet of an Enhanced Packet Block.
fn parse_packet(pcap: &Pcap, at: u64, bytes: usize) -> Result<Frame, Failure> {
    if bytes < PACKET_BYTES {
        return Err(fail_at(pcap, at, "a packet that is too short"));
    }
    let body = &pcap.block;
    let interface = pcap.interfaces.get(u32_at(pcap, body, 0) as usize);
    let interface = interface.ok_or_else(|| {
        let cause = "a packet of an interface that is not described";
        fail_at(pcap, at, cause)
    })?;
    let stamp = u64::from(u32_at(pcap, body, 4)) << 32 | u64::from(u32_at(pcap, body, 8));
    let mut frame = Frame {
        link: interface.link,
        time_ns: time_of(interface, stamp),
        offset: PACKET_BYTES,
        captured: u32_at(pcap, body, 12) as usize,
        original: u32_at(pcap, body, 16),
        comment: None,
    };
    if frame.captured > bytes - PACKET_BYTES {
        return Err(fail_at(pcap, at, "a packet that is longer than its block"));
    }
    let options = PACKET_BYTES + padded(frame.captured);
    if !find_comment(pcap, options, bytes, &mut frame.comment) {
        return Err(fail_at(pcap, at, "a packet with a damaged option"));
    }
    Ok(frame)
}

/// Parses the packet of a Simple Packet Block. It has no time: the time of the frame before it is used.
fn parse_simple(pcap: &Pcap, at: u64, bytes: usize) -> Result<Frame, Failure> {
    if bytes < SIMPLE_BYTES {
        return Err(fail_at(pcap, at, "a packet that is too short"));
    }
    let interface = pcap.interfaces.first().ok_or_else(|| {
        let cause = "a packet of an interface that is not described";
        fail_at(pcap, at, cause)
    })?;
    let original = u32_at(pcap, &pcap.block, 0);
    let captured = match interface.snap_bytes {
        0 => original,
        snap_bytes => original.min(snap_bytes),
    };
    if captured as usize > bytes - SIMPLE_BYTES {
        return Err(fail_at(pcap, at, "a packet that is longer than its block"));
    }
    Ok(Frame {
        link: interface.link,
        time_ns: pcap.last_ns,
        offset: SIMPLE_BYTES,
        captured: captured as usize,
        original,
        comment: None,
    })
}

/// Reads the next block of a pcapng file.
fn next_block(pcap: &mut Pcap) -> Result<Next, Failure> {
    let at = pcap.at;
    let mut head = [0; BLOCK_HEAD_BYTES];
    let (head_type, head_length) = head.split_at_mut(size_of::<u32>());
    if !read_bytes(pcap, head_type, true)? {
        return Ok(Next::End);
    }
    let kind = u32_at(pcap, head_type, 0);
    if kind == MAGIC_NG {
        open_section(pcap)?;
        return Ok(Next::Other);
    }
    read_bytes(pcap, head_length, false)?;
    let length = u32_at(pcap, head_length, 0) as usize;
    if length % 4 != 0 || length < BLOCK_LEAST {
        return Err(fail_at(pcap, at, "a block of an impossible length"));
    }
    read_block(pcap, length - BLOCK_HEAD_BYTES)?;
    let bytes = length - BLOCK_LEAST;
    if u32_at(pcap, &pcap.block, bytes) as usize != length {
        return Err(fail_at(pcap, at, "a block whose two lengths differ"));
    }
    match kind {
        BLOCK_PACKET => parse_packet(pcap, at, bytes).map(Next::Frame),
        BLOCK_SIMPLE => parse_simple(pcap, at, bytes).map(Next::Frame),
        BLOCK_INTERFACE => parse_interface(pcap, at, bytes).map(|()| Next::Other),
        _ => Ok(Next::Other),
    }
}

/// Reads frames up to the next IP packet and returns it. Returns None at the end of the file.
pub fn next(pcap: &mut Pcap) -> Result<Option<PcapPacket<'_>>, Failure> {
    loop {
        let next = if pcap.is_ng {
            next_block(pcap)?
        } else {
            next_record(pcap)?
        };
        let frame = match next {
            Next::Frame(frame) => frame,
            Next::Other => continue,
            Next::End => return Ok(None),
        };
        pcap.frames += 1;
        pcap.last_ns = frame.time_ns;
        let end = frame.offset + frame.captured;
        let bytes = pcap.block.get(frame.offset..end).unwrap_or_default();
        if let Some(found) = pcap_link::find_ip(frame.link, bytes, frame.original) {
            let begin = frame.offset + found.offset;
            return Ok(Some(PcapPacket {
                number: pcap.frames,
                time_ns: frame.time_ns,
                bytes: pcap
                    .block
                    .get(begin..begin + found.captured)
                    .unwrap_or_default(),
                original: found.original,
                version: found.version,
                comment: frame.comment.and_then(|at| pcap.block.get(at)),
            }));
        }
        pcap.skipped += 1;
    }
}
