//! One connection to a front-end: messages with their descriptors, without ever blocking.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    ptr,
};

use crate::{
    error::{CutOff, system},
    message::{HEADER_BYTES, Header, MAX_DESCRIPTORS, MAX_PAYLOAD_BYTES, Message, Reply},
};

/// How much a front-end may leave unread before it is cut off.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// What a connection has for us.
#[derive(Debug)]
pub enum Received {
    /// A message, and exactly as many descriptors as it needs.
    Message(Message, Vec<OwnedFd>),
    /// Nothing that is complete; ask again when the socket is readable.
    Nothing,
    /// The front-end has closed the connection.
    Closed,
}

/// The back-end's end of a connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    incoming: Box<[u8; HEADER_BYTES + MAX_PAYLOAD_BYTES]>,
    filled: usize,
    fds: Vec<OwnedFd>,
    outgoing: Vec<u8>,
}

impl Connection {
    /// Takes over an accepted connection and makes it non-blocking.
    pub fn new(stream: UnixStream) -> Result<Self, CutOff> {
        stream.set_nonblocking(true).map_err(|source| CutOff::System {
            action: "making a connection non-blocking",
            source,
        })?;
        Ok(Self {
            stream,
            incoming: Box::new([0; HEADER_BYTES + MAX_PAYLOAD_BYTES]),
            filled: 0,
            fds: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// The process that has connected; None where it is none that this one can see.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the size of a structure")]
    pub fn process(&self) -> Option<i32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: a structure of this length, which the kernel fills.
        let failed = unsafe {
            libc::getsockopt(
                self.stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut bytes,
            )
        };
        (failed == 0 && peer.pid > 0).then_some(peer.pid)
    }

    /// The next message, if it is complete. Descriptors that no message should have are closed.
    pub fn receive(&mut self) -> Result<Received, CutOff> {
        loop {
            let header = match self.incoming.first_chunk::<HEADER_BYTES>() {
                Some(bytes) if self.filled >= HEADER_BYTES => Some(Header::parse(bytes)?),
                _ => None,
            };
            let needed = HEADER_BYTES + header.map_or(0, |header| header.payload_bytes);
            if let (Some(header), true) = (header, self.filled == needed) {
                self.filled = 0;
                let fds = std::mem::take(&mut self.fds);
                let message = Message::parse(header, &self.incoming[HEADER_BYTES..needed])?;
                let fds = matching(&message, fds)?;
                return Ok(Received::Message(message, fds));
            }
            match self.fill(needed)? {
                Filled::Some => {}
                Filled::WouldBlock => return Ok(Received::Nothing),
                Filled::End if self.filled == 0 => return Ok(Received::Closed),
                Filled::End => return Err(CutOff::Truncated { bytes: self.filled }),
            }
        }
    }

    /// Queues a reply and writes as much as the socket takes; true: all is written. If not, call
    /// [`Connection::flush`] when the socket is writable.
    pub fn reply(&mut self, reply: &Reply) -> Result<bool, CutOff> {
        reply.write_to(&mut self.outgoing);
        self.flush()
    }

    /// Writes what is queued; true: nothing is left.
    pub fn flush(&mut self) -> Result<bool, CutOff> {
        while !self.outgoing.is_empty() {
            // SAFETY: a buffer of this length. Without MSG_NOSIGNAL a closed socket would end us.
            let sent = unsafe {
                libc::send(
                    self.stream.as_raw_fd(),
                    self.outgoing.as_ptr().cast(),
                    self.outgoing.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error if error.kind() == io::ErrorKind::WouldBlock => break,
                    source => {
                        return Err(CutOff::System { action: "writing a reply", source });
                    }
                },
            }
        }
        let bytes = self.outgoing.len();
        if bytes > MAX_UNREAD_BYTES {
            return Err(CutOff::UnreadReplies { bytes, limit: MAX_UNREAD_BYTES });
        }
        Ok(bytes == 0)
    }

    /// Reads bytes, up to `needed`, so that no descriptor of the next message comes along.
    fn fill(&mut self, needed: usize) -> Result<Filled, CutOff> {
        loop {
            let space = &mut self.incoming[self.filled..needed];
            match receive_bytes(self.stream.as_fd(), space, &mut self.fds) {
                Ok(0) => return Ok(Filled::End),
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(Filled::Some);
                }
                Err(CutOff::System { source, .. })
                    if source.kind() == io::ErrorKind::Interrupted => {}
                Err(CutOff::System { source, .. })
                    if source.kind() == io::ErrorKind::WouldBlock =>
                {
                    return Ok(Filled::WouldBlock);
                }
                Err(reason) => return Err(reason),
            }
        }
    }
}

impl AsFd for Connection {
    /// For polling.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

enum Filled {
    Some,
    WouldBlock,
    End,
}

/// As many descriptors as the message needs; what is too much is closed.
fn matching(message: &Message, mut fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, CutOff> {
    let accepted = message.descriptors();
    if fds.len() < accepted {
        return Err(CutOff::MissingDescriptor { request: message.code, fds: fds.len(), accepted });
    }
    fds.truncate(accepted);
    Ok(fds)
}

/// Space for the control message of [`MAX_DESCRIPTORS`] descriptors and no more, aligned as its
/// header.
#[repr(C, align(8))]
struct Control([u8; 48]);

/// One `recvmsg`: how many bytes came; descriptors are appended.
fn receive_bytes(
    socket: BorrowedFd<'_>,
    space: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<usize, CutOff> {
    const {
        let descriptor_bytes = size_of::<RawFd>() * MAX_DESCRIPTORS;
        assert!(size_of::<libc::cmsghdr>() + descriptor_bytes == size_of::<Control>());
    }
    let mut control = Control([0; 48]);
    let mut part = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
    // SAFETY: all zeros are a value of this plain structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: both buffers have the lengths that the header says.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let Ok(received) = usize::try_from(received) else {
        return Err(system("reading a message"));
    };
    // SAFETY: the kernel has filled the header and its control buffer.
    unsafe { take_descriptors(&header, fds) };
    if header.msg_flags & libc::MSG_CTRUNC != 0 || fds.len() > MAX_DESCRIPTORS {
        return Err(CutOff::TooManyDescriptors { limit: MAX_DESCRIPTORS });
    }
    Ok(received)
}

/// Takes over all descriptors of a received control message.
///
/// # Safety
///
/// `recvmsg` has just succeeded with this header, and nobody has taken its descriptors.
unsafe fn take_descriptors(header: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: the header is as the kernel filled it, so each step stays inside its control buffer.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let is_rights = (*control).cmsg_level == libc::SOL_SOCKET
                && (*control).cmsg_type == libc::SCM_RIGHTS;
            if is_rights {
                let data: *const RawFd = libc::CMSG_DATA(control).cast();
                let data_bytes = (*control).cmsg_len - libc::CMSG_LEN(0) as usize;
                for index in 0..data_bytes / size_of::<RawFd>() {
                    let fd = ptr::read_unaligned(data.add(index));
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
}
