// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory that one process passes to another: an anonymous file (memfd_create) that is sealed after writing. So the
//! reader can read it repeatedly, at any speed, and always finds the same bytes.
// seccomp: memfd_create pwrite64 pread64 fcntl fstat close

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::stat::{fstat, SFlag};

/// Size of a memory file's write buffer, in bytes.
const STEP_BYTES: usize = 65536;

/// Memory file (memfd) that this process writes and then seals, with its write buffer.
pub struct HandoverMemory {
    file: File,
    /// Offset in the file at which the buffered bytes are written next.
    at: u64,
    /// Buffered bytes that are not written yet.
    bytes: Vec<u8>,
}

/// Sealed memory from another process.
pub struct HandoverSealed {
    file: File,
    /// Size in bytes, which the seals keep constant.
    pub size: u64,
}

fn seals() -> SealFlag {
    SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE
}

fn errno(error: io::Error) -> Errno {
    // A premature end of the file has no error number. It can't occur: the seals keep the size.
    error.raw_os_error().map_or(Errno::EPROTO, Errno::from_raw)
}

/// Creates an empty memory file (memfd), to be written and sealed.
pub fn make() -> Result<HandoverMemory, Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create(c"twinwall", flags)?;
    Ok(HandoverMemory {
        file: File::from(fd),
        at: 0,
        bytes: Vec::with_capacity(STEP_BYTES),
    })
}

/// Returns the descriptor, to be sent.
pub fn fd(memory: &HandoverMemory) -> BorrowedFd<'_> {
    memory.file.as_fd()
}

/// Writes the buffered bytes to the file.
fn flush(memory: &mut HandoverMemory) -> Result<(), Errno> {
    let written = memory.file.write_all_at(&memory.bytes, memory.at);
    written.map_err(errno)?;
    memory.at += memory.bytes.len() as u64;
    memory.bytes.clear();
    Ok(())
}

/// Appends bytes, which may stay in the buffer.
pub fn append(memory: &mut HandoverMemory, bytes: &[u8]) -> Result<(), Errno> {
    for part in bytes.chunks(STEP_BYTES) {
        if memory.bytes.len() + part.len() > STEP_BYTES {
            flush(memory)?;
        }
        memory.bytes.extend_from_slice(part);
    }
    Ok(())
}

/// Appends a number in little-endian order.
pub fn append_number(memory: &mut HandoverMemory, number: u64) -> Result<(), Errno> {
    append(memory, &number.to_le_bytes())
}

/// Writes `size` zero bytes to an empty memory file, so that later writes, which overwrite them from the start,
/// allocate nothing.
pub fn reserve(memory: &mut HandoverMemory, size: u64) -> Result<(), Errno> {
    let zeros = [0; STEP_BYTES];
    let mut left = size;
    while left > 0 {
        let part = left.min(STEP_BYTES as u64);
        append(memory, zeros.get(..part as usize).unwrap_or_default())?;
        left -= part;
    }
    flush(memory)?;
    memory.at = 0;
    Ok(())
}

/// Writes the buffered bytes and seals the memory: nothing can change it any more.
pub fn seal(memory: &mut HandoverMemory) -> Result<(), Errno> {
    flush(memory)?;
    fcntl(&memory.file, FcntlArg::F_ADD_SEALS(seals())).map(drop)
}

/// Checks memory from another process. Fails with EPROTO if it is not sealed memory, or larger than max.
pub fn open(fd: OwnedFd, max: u64) -> Result<HandoverSealed, Errno> {
    let status = fstat(&fd)?;
    let is_file = status.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
    let set = match is_file {
        true => fcntl(&fd, FcntlArg::F_GET_SEALS).unwrap_or(0), // fails for files without seals
        false => 0,
    };
    let size = u64::try_from(status.st_size).unwrap_or(u64::MAX);
    if !SealFlag::from_bits_truncate(set).contains(seals()) || size > max {
        return Err(Errno::EPROTO);
    }
    let file = File::from(fd);
    Ok(HandoverSealed { file, size })
}

/// Reads the whole memory.
pub fn read(sealed: &HandoverSealed) -> Result<Vec<u8>, Errno> {
    let mut read = vec![0; sealed.size as usize];
    sealed.file.read_exact_at(&mut read, 0).map_err(errno)?;
    Ok(read)
}
