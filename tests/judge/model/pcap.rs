// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of packets that begin with the IP header (LINKTYPE_RAW): classic pcap files, which `explain` reads and which are
//! saved with a disagreement, and pcapng with a comment for each packet.

use anyhow::{ensure, Context};

const MAGIC: u32 = 0xa1b2_c3d4;
const LINKTYPE_RAW: u32 = 101;
const SNAPLEN: u32 = 262_144;
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

/// Returns a pcap file with packets, whose times are a millisecond apart.
pub fn write(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(MAGIC.to_le_bytes());
    file.extend(2_u16.to_le_bytes());
    file.extend(4_u16.to_le_bytes());
    for word in [0, 0, SNAPLEN, LINKTYPE_RAW] {
        file.extend(word.to_le_bytes());
    }
    for (number, packet) in packets.iter().enumerate() {
        let number = number as u32;
        let length = packet.len() as u32;
        for word in [number / 1000, number % 1000 * 1000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// Returns a pcapng block with a body, padded to a multiple of 4 bytes.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (padded as u32 + 12).to_le_bytes();
    let mut block = [&kind.to_le_bytes()[..], &length, body].concat();
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

/// Returns a pcapng file that repeats one packet with each of these comments (opt_comment, at most 64 KiB), all with the
/// same time.
pub fn write_commented(packet: &[u8], comments: &[Vec<u8>]) -> Vec<u8> {
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    let interface = [&LINKTYPE_RAW.to_le_bytes()[..], &[0; 4]].concat();
    let mut file = block(0x0a0d_0d0a, &section);
    file.extend(block(1, &interface));
    for comment in comments {
        let length = (packet.len() as u32).to_le_bytes();
        let mut body = [&[0; 12][..], &length, &length, packet].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend([1, 0]);
        body.extend((comment.len() as u16).to_le_bytes());
        body.extend(comment);
        file.extend(block(6, &body));
    }
    file
}

/// Parses the packets of a file from [`write`].
pub fn read(file: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let header = file.get(..FILE_HEADER_BYTES).context("a short pcap file")?;
    ensure!(
        header[..4] == MAGIC.to_le_bytes(),
        "another kind of pcap file"
    );
    ensure!(
        header[20..] == LINKTYPE_RAW.to_le_bytes(),
        "another link type"
    );
    let mut rest = &file[FILE_HEADER_BYTES..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let record = rest.get(..RECORD_HEADER_BYTES).context("a short record")?;
        let bytes = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        rest = &rest[RECORD_HEADER_BYTES..];
        packets.push(rest.get(..bytes).context("a cut record")?.to_vec());
        rest = &rest[bytes..];
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let packets = vec![vec![1, 2, 3], Vec::new(), vec![9; 70]];
        assert_eq!(read(&write(&packets)).unwrap(), packets);
        assert!(read(&write(&packets)[..60]).is_err());
    }
}
