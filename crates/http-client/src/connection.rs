//! One connection to the server, and the request that it has under way.

use std::{net::SocketAddr, os::fd::OwnedFd};

use rustix::{
    event::epoll::EventFlags,
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send,
        socket_with, sockopt::socket_error,
    },
};

use crate::{Answer, Failure};

/// What is being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Connecting,
    Sending,
    Receiving,
    /// Nothing is under way; the next request may have it.
    Idle,
    /// The answer is there, and the server is left to close: so its side has the port to keep.
    Closing,
}

/// What has come of looking at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Waiting,
    Connected,
    Answered,
    Failed(Failure),
    /// Closed with nothing under way.
    Closed,
}

pub(crate) struct Connection {
    socket: OwnedFd,
    pub(crate) stage: Stage,
    pub(crate) answer: Answer,
    sent: usize,
    /// Of the request, ns.
    pub(crate) intended_ns: u64,
    pub(crate) begun_ns: u64,
    /// Requests before the present one.
    pub(crate) reused: u64,
}

impl Connection {
    /// Begins to connect.
    pub(crate) fn begin(server: &SocketAddr, intended_ns: u64, now_ns: u64) -> Result<Self, Errno> {
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            socket,
            stage: Stage::Connecting,
            answer: Answer::default(),
            sent: 0,
            intended_ns,
            begun_ns: now_ns,
            reused: 0,
        })
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Takes another request.
    pub(crate) fn reuse(&mut self, intended_ns: u64, now_ns: u64) {
        self.answer.clear();
        self.sent = 0;
        self.stage = Stage::Sending;
        self.intended_ns = intended_ns;
        self.begun_ns = now_ns;
        self.reused += 1;
    }

    /// Whether what failed may be sent once more: the server closed a kept connection before it had
    /// seen the request, or while that was on its way (RFC 9110, section 9.2.2).
    pub(crate) fn may_retry(&self, failure: Failure) -> bool {
        self.reused > 0
            && self.answer.is_untouched()
            && matches!(failure, Failure::Reset | Failure::CutShort)
    }

    /// Goes on as far as it can.
    ///
    /// `seen`: what the kernel says of the socket. `buffer` takes what is received.
    pub(crate) fn go_on(&mut self, seen: EventFlags, request: &[u8], buffer: &mut [u8]) -> Outcome {
        match self.stage {
            Stage::Connecting => self.connected(seen),
            Stage::Sending => {
                let outcome = self.send(request);
                // What the server has sent already is not told of again.
                let spoke = self.stage == Stage::Receiving && seen.contains(EventFlags::IN);
                if spoke { self.receive(buffer) } else { outcome }
            }
            Stage::Receiving => self.receive(buffer),
            Stage::Closing if seen.contains(EventFlags::RDHUP) => Outcome::Closed,
            Stage::Idle | Stage::Closing => self.watch(buffer),
        }
    }

    fn connected(&mut self, seen: EventFlags) -> Outcome {
        let failed = EventFlags::ERR | EventFlags::HUP;
        if seen.intersects(failed)
            && let Ok(Err(error)) | Err(error) = socket_error(&self.socket)
        {
            return Outcome::Failed(Failure::of(error));
        }
        self.stage = Stage::Sending;
        Outcome::Connected
    }

    fn send(&mut self, request: &[u8]) -> Outcome {
        while self.sent < request.len() {
            match send(&self.socket, &request[self.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN) => return Outcome::Waiting,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE) => return Outcome::Failed(Failure::Reset),
                Err(error) => return Outcome::Failed(Failure::of(error)),
            }
        }
        self.stage = Stage::Receiving;
        Outcome::Waiting
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Outcome {
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => {
                    let complete = self.answer.end();
                    self.stage = Stage::Closing;
                    return if complete {
                        Outcome::Answered
                    } else {
                        Outcome::Failed(Failure::CutShort)
                    };
                }
                Ok((length, _)) => {
                    if self.answer.take(&buffer[..length]).is_err() {
                        return Outcome::Failed(Failure::Malformed);
                    }
                    if self.answer.is_complete() {
                        return Outcome::Answered;
                    }
                }
                Err(Errno::AGAIN) => return Outcome::Waiting,
                Err(Errno::INTR) => {}
                Err(error) => return Outcome::Failed(Failure::of(error)),
            }
        }
    }

    /// Looks whether a connection with nothing under way has been closed.
    fn watch(&mut self, buffer: &mut [u8]) -> Outcome {
        loop {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::AGAIN) => return Outcome::Waiting,
                Err(Errno::INTR) => {}
                // What nobody asked for closes an idle one, too; a closing one is read to its end.
                Ok((length, _)) if length > 0 && self.stage == Stage::Closing => {}
                _ => return Outcome::Closed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{Ipv4Addr, TcpListener},
    };

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn a_server_that_speaks_before_it_is_asked_is_heard() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut connection = Connection::begin(&listener.local_addr().unwrap(), 0, 0).unwrap();
        listener.accept().unwrap().0.write_all(b"220 ready\r\n").unwrap();
        poll(&mut [PollFd::new(connection.socket(), PollFlags::IN)], None).unwrap();
        let (seen, mut buffer) = (EventFlags::IN | EventFlags::OUT, [0; 100]);
        assert_eq!(connection.go_on(seen, b"GET", &mut buffer), Outcome::Connected);
        let told = connection.go_on(seen, b"GET", &mut buffer);
        assert_eq!(told, Outcome::Failed(Failure::Malformed));
    }
}
