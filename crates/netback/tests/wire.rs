//! Messages byte by byte: what other front-ends send, and what hostile ones may.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use crate::driver::{Driver, GUEST, Guest, USER, runs};
use isolane_netback::{
    Connection, CutOff, HEADER_BYTES, Header, MAX_PAYLOAD_BYTES, Message, NicSettings, RECEIVE,
    Received, Request, Session, TRANSMIT, feature, protocol_feature,
};
use proptest::prelude::*;
use vmm_sys_util::sock_ctrl_msg::ScmSocket as _;

const NEED_REPLY: u32 = 0x8;

fn wire(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [request, 1 | flags, u32::try_from(payload.len()).unwrap()] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The payload of requests about a ring's state.
fn state(index: u32, number: u32) -> Vec<u8> {
    [index.to_ne_bytes(), number.to_ne_bytes()].concat()
}

fn connect() -> (UnixStream, Connection) {
    let (theirs, ours) = UnixStream::pair().unwrap();
    (theirs, Connection::new(ours).unwrap())
}

fn message(connection: &mut Connection) -> (Message, Vec<OwnedFd>) {
    match connection.receive().unwrap() {
        Received::Message(message, fds) => (message, fds),
        other => panic!("a whole message was sent: {other:?}"),
    }
}

/// A pipe's end to read from, and its end to write to.
fn pipe() -> (UnixStream, UnixStream) {
    let (reader, writer) = UnixStream::pair().unwrap();
    reader.set_nonblocking(true).unwrap();
    (reader, writer)
}

/// Nobody has the other end any more.
fn is_closed(reader: &mut UnixStream) -> bool {
    matches!(reader.read(&mut [0; 1]), Ok(0))
}

#[test]
fn a_message_may_come_in_any_portions() {
    let (mut theirs, mut connection) = connect();
    let guest = Guest::new(0x1000);
    let table = words(&[1, GUEST, 0x1000, USER, 0]);
    let bytes = [wire(1, 0, &[]), wire(5, NEED_REPLY, &table), wire(3, 0, &[])].concat();
    let mut requests = Vec::new();
    for (index, byte) in bytes.iter().enumerate() {
        // The descriptor comes with the second message's first byte.
        if index == HEADER_BYTES {
            let sent = theirs.send_with_fds(&[&[*byte][..]], &[guest.file.as_raw_fd()]);
            assert_eq!(sent.unwrap(), 1);
        } else {
            theirs.write_all(&[*byte]).unwrap();
        }
        match connection.receive().unwrap() {
            Received::Message(message, fds) => requests.push((message, fds.len(), index + 1)),
            Received::Nothing => {}
            Received::Closed => panic!("the connection is open"),
        }
    }
    let ends: Vec<_> = requests.iter().map(|(_, fds, end)| (*fds, *end)).collect();
    assert_eq!(ends, [(0, 12), (1, 64), (0, 76)]);
    assert_eq!(requests[0].0.request, Request::GetFeatures);
    assert!(requests[1].0.need_reply && !requests[2].0.need_reply);
    let Request::SetMemTable { regions } = &requests[1].0.request else { panic!("a table") };
    assert_eq!(regions[..], [guest.region()]);
    drop(theirs);
    assert!(matches!(connection.receive().unwrap(), Received::Closed));
}

#[test]
fn several_messages_at_once_keep_their_descriptors() {
    let (theirs, mut connection) = connect();
    let (mut first_reader, first) = pipe();
    let (mut second_reader, second) = pipe();
    let send = |bytes: &[u8], fds: &[RawFd]| {
        assert_eq!(theirs.send_with_fds(&[bytes], fds).unwrap(), bytes.len());
    };
    send(&wire(13, 0, &words(&[0])), &[first.as_raw_fd()]);
    send(&wire(1, 0, &[]), &[]);
    send(&wire(13, 0, &words(&[1])), &[second.as_raw_fd()]);
    drop((first, second));
    let (message_0, fds_0) = message(&mut connection);
    assert_eq!(message_0.request, Request::SetVringCall { index: 0, has_descriptor: true });
    assert!(message(&mut connection).1.is_empty());
    let (message_1, fds_1) = message(&mut connection);
    assert_eq!(message_1.request, Request::SetVringCall { index: 1, has_descriptor: true });
    assert!(matches!(connection.receive().unwrap(), Received::Nothing));
    drop(fds_0);
    assert!(is_closed(&mut first_reader) && !is_closed(&mut second_reader));
    drop(fds_1);
    assert!(is_closed(&mut second_reader));
}

#[test]
fn descriptors_are_closed_on_exec() {
    let (theirs, mut connection) = connect();
    let (_reader, writer) = pipe();
    theirs.send_with_fd(&wire(21, 0, &[])[..], writer.as_raw_fd()).unwrap();
    let (_, fds) = message(&mut connection);
    // SAFETY: an open descriptor.
    let flags = unsafe { libc::fcntl(fds[0].as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
}

#[test]
fn descriptors_that_do_not_belong_to_a_message_are_closed() {
    for (request, payload, kept) in [(1, vec![], 0), (13, words(&[0x100]), 0), (21, vec![], 1)] {
        let (theirs, mut connection) = connect();
        let pipes = [pipe(), pipe()];
        let fds = pipes.each_ref().map(|(_, writer)| writer.as_raw_fd());
        theirs.send_with_fds(&[&wire(request, 0, &payload)[..]], &fds).unwrap();
        let (_, received) = message(&mut connection);
        let mut readers = pipes.map(|(reader, _)| reader);
        let closed = readers.iter_mut().filter_map(|end| is_closed(end).then_some(())).count();
        assert_eq!((received.len(), closed), (kept, 2 - kept), "message {request}");
    }
}

#[test]
fn too_many_or_too_few_descriptors() {
    for count in [8, 9, 20] {
        let (theirs, mut connection) = connect();
        let (mut reader, writer) = pipe();
        let fds = vec![writer.as_raw_fd(); count];
        theirs.send_with_fds(&[&wire(1, 0, &[])[..]], &fds).unwrap();
        drop(writer);
        let received = connection.receive();
        if count == 8 {
            assert!(matches!(received, Ok(Received::Message(..))));
        } else {
            assert!(matches!(received, Err(CutOff::TooManyDescriptors { limit: 8 })), "{count}");
        }
        drop(connection);
        assert!(is_closed(&mut reader));
    }
    let (mut theirs, mut connection) = connect();
    theirs.write_all(&wire(12, 0, &words(&[0]))).unwrap();
    let reason = connection.receive().unwrap_err();
    assert_eq!(reason.to_string(), "message 12 has 0 file descriptors; accepted: 1");

    // Eight in each of two portions of one message.
    let (theirs, mut connection) = connect();
    let (_reader, writer) = pipe();
    let bytes = wire(2, 0, &words(&[0]));
    let fds = [writer.as_raw_fd(); 5];
    theirs.send_with_fds(&[&bytes[..6]], &fds).unwrap();
    assert!(matches!(connection.receive().unwrap(), Received::Nothing));
    theirs.send_with_fds(&[&bytes[6..]], &fds).unwrap();
    assert!(matches!(connection.receive(), Err(CutOff::TooManyDescriptors { .. })));
}

#[test]
fn a_connection_that_ends_inside_a_message() {
    let (mut theirs, mut connection) = connect();
    theirs.write_all(&wire(2, 0, &words(&[0]))[..15]).unwrap();
    drop(theirs);
    assert!(matches!(connection.receive(), Err(CutOff::Truncated { bytes: 15 })));
}

#[test]
fn replies_that_nobody_reads() {
    let (theirs, mut connection) = connect();
    let mut session = Session::new(NicSettings { mac: [2; 6], mtu: 1500, offloads: false });
    let mut last = Ok(true);
    let mut replies = 0;
    while last.is_ok() {
        let header = Header { request: 1, need_reply: false, payload_bytes: 0 };
        let request = Message::parse(header, &[]).unwrap();
        let reply = session.handle(request, Vec::new()).unwrap().unwrap();
        last = connection.reply(&reply);
        replies += 1;
        assert!(replies < 1_000_000);
    }
    assert!(matches!(last, Err(CutOff::UnreadReplies { limit: 65536, .. })));
    // What is read in time arrives whole.
    drop((theirs, connection));
    let (mut theirs, mut connection) = connect();
    let header = Header { request: 1, need_reply: false, payload_bytes: 0 };
    let request = Message::parse(header, &[]).unwrap();
    let reply = session.handle(request, Vec::new()).unwrap().unwrap();
    let mut sent = 0;
    while connection.reply(&reply).unwrap() {
        sent += 1;
    }
    let mut read = vec![0; 20 * (sent + 1)];
    let mut filled = 0;
    while filled < read.len() {
        filled += theirs.read(&mut read[filled..]).unwrap();
        connection.flush().unwrap();
    }
    let mut expected = Vec::new();
    reply.write_to(&mut expected);
    assert!(read.chunks(20).all(|part| part == expected));
}

#[test]
fn the_bytes_of_replies() {
    let mut session =
        Session::new(NicSettings { mac: [2, 0, 0, 0, 0, 7], mtu: 9000, offloads: false });
    let mut ask = |request: u32, flags: u32, payload: &[u8]| {
        let bytes = wire(request, flags, payload);
        let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
        let message = Message::parse(header, &bytes[HEADER_BYTES..]).unwrap();
        let mut answer = Vec::new();
        if let Some(reply) = session.handle(message, Vec::new()).unwrap() {
            reply.write_to(&mut answer);
        }
        answer
    };
    let number = |request: u32, number: u64| {
        let head: Vec<u8> = [request, 5, 8].iter().flat_map(|word| word.to_ne_bytes()).collect();
        [head, number.to_ne_bytes().to_vec()].concat()
    };
    assert_eq!(ask(1, 0, &[]), number(1, 0x1_7000_8028));
    assert_eq!(ask(15, 0, &[]), number(15, 0x228));
    assert_eq!(ask(17, 0, &[]), number(17, 1));
    assert_eq!(ask(3, NEED_REPLY, &[]), [], "not negotiated yet");
    // User-Mode Linux asks for an acknowledgement of this already.
    assert_eq!(ask(16, NEED_REPLY, &words(&[0x228])), number(16, 0));
    assert_eq!(ask(3, NEED_REPLY, &[]), number(3, 0));
    assert_eq!(ask(3, 0, &[]), []);
    assert_eq!(ask(1, NEED_REPLY, &[]), number(1, feature::OFFERED), "one answer only");
    assert_eq!(ask(10, NEED_REPLY, &state(1, 77)), number(10, 0));
    assert_eq!(ask(11, 0, &state(1, 0)), [&number(11, 0)[..12], &state(1, 77)].concat());
    assert_eq!(ask(20, NEED_REPLY, &words(&[9000])), number(20, 0));
    assert_eq!(ask(20, NEED_REPLY, &words(&[9001])), number(20, 1), "refused");
    assert_eq!(ask(19, NEED_REPLY, &words(&[7])), number(19, 0));
    assert_eq!(ask(39, NEED_REPLY, &words(&[0xf])), number(39, 0));
    assert_eq!(ask(40, 0, &[]), number(40, 0xf));
    assert_eq!(ask(34, NEED_REPLY, &[]), number(34, 0));
    assert_eq!(ask(40, 0, &[]), number(40, 0));
    let config: Vec<u8> = [2u32, 6, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let answer = ask(24, 0, &[&config[..], &[0; 6]].concat());
    assert_eq!(answer[..12], wire(24, 4, &[0; 18])[..12]);
    assert_eq!(answer[12..], [&config[..], &[0, 0, 0, 7, 1, 0]].concat());
}

#[test]
fn headers_and_payloads_that_are_refused() {
    let header = |words: [u32; 3]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Header::parse(bytes.first_chunk().unwrap())
    };
    assert!(header([1, 9, 4096]).unwrap().need_reply);
    assert!(matches!(header([1, 1, 4097]), Err(CutOff::PayloadSize { bytes: 4097, .. })));
    for flags in [0, 2, 3, 5, 0x11, u32::MAX] {
        assert!(matches!(header([1, flags, 0]), Err(CutOff::Flags { request: 1, .. })));
    }
    let parse = |request: u32, payload: &[u8]| {
        let header = Header { request, need_reply: false, payload_bytes: payload.len() };
        Message::parse(header, payload)
    };
    for request in [0, 6, 7, 22, 26, 31, 41, u32::MAX] {
        let reason = parse(request, &[]).unwrap_err();
        assert_eq!(reason.to_string(), format!("message {request} is not known"));
    }
    for (request, bytes) in [(1, 8), (2, 0), (2, 7), (2, 9), (8, 4), (9, 39), (9, 41), (12, 0)] {
        let reason = parse(request, &vec![0; bytes]).unwrap_err();
        assert!(matches!(reason, CutOff::PayloadSize { .. }), "{request} with {bytes}: {reason}");
    }
    for regions in [0, 9, u64::from(u32::MAX)] {
        let reason = parse(5, &words(&[regions, 0, 0, 0, 0])).unwrap_err();
        assert!(matches!(reason, CutOff::Regions { limit: 8, .. }));
    }
    assert!(matches!(parse(5, &words(&[2, 0, 0, 0, 0])), Err(CutOff::PayloadSize { .. })));
    // More of the configuration than there is, or than came.
    let config = |offset: u32, bytes: u32, space: usize| {
        let head = [offset, bytes, 0].map(u32::to_ne_bytes).concat();
        parse(24, &[head, vec![0; space]].concat())
    };
    assert!(config(0, 256, 256).is_ok() && config(250, 6, 6).is_ok());
    for (offset, bytes, space) in [(0, 257, 257), (1, 256, 256), (u32::MAX, 1, 1), (0, 8, 7)] {
        assert!(config(offset, bytes, space).is_err(), "{offset} {bytes} {space}");
    }
}

/// What `virtio_uml` sends, in its order: a table of one region in a payload for two, the front-end's
/// addresses being the guest's, pipes to call through, an acknowledgement of everything.
#[test]
fn a_user_mode_linux_guest() {
    let (mut theirs, mut connection) = connect();
    let mut session = Session::new(NicSettings { mac: [2; 6], mtu: 1500, offloads: false });
    let guest = Guest::new(0x2_0000);
    let driver = Driver::new(&guest, 0, 8, 0);
    let (_requests, channel) = UnixStream::pair().unwrap();
    let (mut call_reader, call) = pipe();
    let mut send = |request: u32, flags: u32, payload: &[u8], fds: &[RawFd]| {
        theirs.send_with_fds(&[&wire(request, flags, payload)[..]], fds).unwrap();
        let (message, fds) = message(&mut connection);
        let reply = session.handle(message, fds).unwrap().expect("each message is answered");
        assert!(connection.reply(&reply).unwrap());
        let mut answer = [0; 20];
        theirs.read_exact(&mut answer).unwrap();
        u64::from_ne_bytes(answer[12..].try_into().unwrap())
    };
    let features = send(1, 0, &[], &[]);
    let protocol_features = send(15, 0, &[], &[]);
    assert_eq!(protocol_features, protocol_feature::OFFERED);
    assert_eq!(send(16, NEED_REPLY, &words(&[protocol_features]), &[]), 0);
    assert_eq!(send(21, NEED_REPLY, &[], &[channel.as_raw_fd()]), 0);
    assert_eq!(send(2, NEED_REPLY, &words(&[features]), &[]), 0);
    // The guest's own addresses serve as the front-end's.
    let table = words(&[1, GUEST, 0x2_0000, GUEST, 0, 0, 0, 0, 0]);
    assert_eq!(send(5, NEED_REPLY, &table, &[guest.file.as_raw_fd()]), 0);
    for index in [0u32, 1] {
        let ring = u64::from(index);
        assert_eq!(send(13, NEED_REPLY, &words(&[ring]), &[call.as_raw_fd()]), 0);
        assert_eq!(send(8, NEED_REPLY, &state(index, 8), &[]), 0);
        assert_eq!(send(10, NEED_REPLY, &state(index, 0), &[]), 0);
        let at = GUEST + 0x1000 * ring;
        let used = GUEST + driver.used_at() + 0x1000 * ring;
        let available = GUEST + driver.available_at() + 0x1000 * ring;
        let addresses = words(&[ring, at, used, available, u64::MAX]);
        assert_eq!(send(9, NEED_REPLY, &addresses, &[]), 0);
        assert_eq!(send(12, NEED_REPLY, &words(&[ring | 0x100]), &[]), 0);
        assert_eq!(send(18, NEED_REPLY, &state(index, 1), &[]), 0);
    }
    assert!(runs(&mut session, RECEIVE) && runs(&mut session, TRANSMIT));
    assert!(session.kick(TRANSMIT).is_none(), "it is polled");
    let _ = session.rings().transmit.unwrap().call.unwrap().signal();
    assert_eq!(call_reader.read(&mut [0; 16]).unwrap(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_messages_never_panic(
        messages in prop::collection::vec(
            (0u32..42, any::<bool>(), prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..80)),
            1..30,
        ),
    ) {
        let mut session = Session::new(NicSettings { mac: [2; 6], mtu: 1500, offloads: false });
        for (request, need_reply, payload) in messages {
            let header = Header { request, need_reply, payload_bytes: payload.len() };
            let Ok(message) = Message::parse(header, &payload) else { continue };
            let Ok(reply) = session.handle(message, Vec::new()) else { break };
            let mut bytes = Vec::new();
            if let Some(reply) = reply {
                reply.write_to(&mut bytes);
                prop_assert!(bytes.len() <= HEADER_BYTES + MAX_PAYLOAD_BYTES);
            }
        }
    }

    #[test]
    fn random_bytes_on_the_wire_never_panic_nor_block(
        bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0u32..42,
    ) {
        let (mut theirs, mut connection) = connect();
        theirs.write_all(&wire(start, 0, &[])).unwrap();
        theirs.write_all(&bytes).unwrap();
        drop(theirs);
        for _ in 0..100 {
            match connection.receive() {
                Ok(Received::Message(..)) => {}
                Ok(Received::Nothing) => panic!("the connection is closed"),
                Ok(Received::Closed) | Err(_) => break,
            }
        }
    }
}
