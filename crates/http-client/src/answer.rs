//! What a server answers: HTTP/1.x, read as it comes in. Pure.
//! Source: RFC 9112, sections 4, 6 and 7.

use httparse::{EMPTY_HEADER, Response, Status, parse_chunk_size};

const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;
const MAX_LINE_BYTES: usize = 1024;

/// What was sent is no HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    UntilEnd,
    Complete,
}

/// An answer, as far as it is there.
#[derive(Clone, Debug)]
pub struct Answer {
    part: Part,
    /// What has come in of the head, or of a line between chunks.
    text: Vec<u8>,
    status: u16,
    keep_alive: bool,
    body_bytes: u64,
}

impl Default for Answer {
    fn default() -> Self {
        Self { part: Part::Head, text: Vec::new(), status: 0, keep_alive: false, body_bytes: 0 }
    }
}

impl Answer {
    /// Gets ready for the next one.
    pub fn clear(&mut self) {
        self.text.clear();
        self.part = Part::Head;
        self.status = 0;
        self.keep_alive = false;
        self.body_bytes = 0;
    }

    /// Whether all of it has come in.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.part == Part::Complete
    }

    /// Whether nothing of it has come in.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.part == Part::Head && self.text.is_empty() && self.status == 0
    }

    /// Its status code; 0 before it is known.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the server takes another request on this connection.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.keep_alive
    }

    /// Bytes of the body, without the framing of chunks.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Takes what has come in. Nothing may follow a complete answer: no request is sent ahead.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            bytes = match self.part {
                Part::Head => self.take_head(bytes)?,
                Part::Length(left) => self.take_body(bytes, left, Part::Length, Part::Complete),
                Part::Chunk(left) => self.take_body(bytes, left, Part::Chunk, Part::ChunkEnd),
                Part::ChunkEnd => self.take_chunk_end(bytes)?,
                Part::ChunkSize => self.take_chunk_size(bytes)?,
                Part::Trailer => self.take_trailer(bytes)?,
                Part::UntilEnd => {
                    self.body_bytes += bytes.len() as u64;
                    &[]
                }
                Part::Complete => return Err(Malformed),
            };
        }
        Ok(())
    }

    /// Takes the end of the connection; false if the answer lacks something.
    pub fn end(&mut self) -> bool {
        if self.part == Part::UntilEnd {
            self.part = Part::Complete;
        }
        self.is_complete()
    }

    fn take_body<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        more: fn(u64) -> Part,
        then: Part,
    ) -> &'a [u8] {
        let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - taken as u64;
        self.body_bytes += taken as u64;
        self.part = if left == 0 { then } else { more(left) };
        &bytes[taken..]
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let before = self.text.len();
        self.text.extend_from_slice(bytes);
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut head = Response::new(&mut headers);
        let Status::Complete(length) = head.parse(&self.text).map_err(|_| Malformed)? else {
            return if self.text.len() > MAX_HEAD_BYTES { Err(Malformed) } else { Ok(&[]) };
        };
        let status = head.code.ok_or(Malformed)?;
        if (100..200).contains(&status) {
            self.clear();
            return Ok(&bytes[length - before..]);
        }
        let framing = Framing::read(&head)?;
        self.status = status;
        self.keep_alive = framing.keep_alive;
        self.part = if matches!(status, 204 | 304) { Part::Complete } else { framing.body() };
        self.text.clear();
        Ok(&bytes[length - before..])
    }

    /// Adds up to the end of a line; returns what follows it, None if the line goes on.
    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        let end = bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        self.text.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if self.text.len() > MAX_LINE_BYTES {
            return Err(Malformed);
        }
        Ok(end.map(|end| &bytes[end..]))
    }

    fn take_chunk_size<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let Some(rest) = self.take_line(bytes)? else { return Ok(&[]) };
        let Ok(Status::Complete((_, size))) = parse_chunk_size(&self.text) else {
            return Err(Malformed);
        };
        self.text.clear();
        self.part = if size == 0 { Part::Trailer } else { Part::Chunk(size) };
        Ok(rest)
    }

    fn take_chunk_end<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let Some(rest) = self.take_line(bytes)? else { return Ok(&[]) };
        if self.text != b"\r\n" {
            return Err(Malformed);
        }
        self.text.clear();
        self.part = Part::ChunkSize;
        Ok(rest)
    }

    fn take_trailer<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let Some(rest) = self.take_line(bytes)? else { return Ok(&[]) };
        if self.text == b"\r\n" {
            self.part = Part::Complete;
        }
        self.text.clear();
        Ok(rest)
    }
}

struct Framing {
    keep_alive: bool,
    chunked: bool,
    length: Option<u64>,
}

impl Framing {
    fn read(head: &Response<'_, '_>) -> Result<Self, Malformed> {
        let mut framing =
            Self { keep_alive: head.version == Some(1), chunked: false, length: None };
        for header in head.headers.iter() {
            let text = std::str::from_utf8(header.value).unwrap_or("").trim().to_ascii_lowercase();
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = text.parse().map_err(|_| Malformed)?;
                if framing.length.is_some_and(|before| before != length) {
                    return Err(Malformed);
                }
                framing.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                framing.chunked = text.split(',').next_back().map(str::trim) == Some("chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                for word in text.split(',').map(str::trim) {
                    match word {
                        "close" => framing.keep_alive = false,
                        "keep-alive" => framing.keep_alive = true,
                        _ => {}
                    }
                }
            }
        }
        Ok(framing)
    }

    fn body(&self) -> Part {
        match (self.chunked, self.length) {
            (true, _) => Part::ChunkSize,
            (false, Some(0)) => Part::Complete,
            (false, Some(length)) => Part::Length(length),
            (false, None) => Part::UntilEnd,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                           4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\nX: y\r\n\r\n";

    fn read(text: &str) -> Result<Answer, Malformed> {
        let mut answer = Answer::default();
        answer.take(text.as_bytes()).map(|()| answer)
    }

    #[test]
    fn a_length_ends_the_body() {
        let answer = read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        assert!(answer.is_complete() && answer.keeps_alive());
        assert_eq!((answer.status(), answer.body_bytes()), (200, 3));
        assert!(!read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").unwrap().is_complete());
        assert!(read("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap().is_complete());
    }

    #[test]
    fn the_end_of_the_connection_ends_a_body_without_length_only() {
        let mut answer = read("HTTP/1.0 200 OK\r\n\r\nabcd").unwrap();
        assert!(!answer.is_complete() && !answer.keeps_alive());
        assert!(answer.end() && answer.body_bytes() == 4);
        assert!(!read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").unwrap().end());
        assert!(!read(&CHUNKED[..CHUNKED.len() - 2]).unwrap().end());
    }

    #[test]
    fn servers_say_whether_the_connection_stays() {
        let with = |version, header: &str| {
            let text = format!("HTTP/1.{version} 204 No\r\n{header}\r\n\r\n");
            read(&text).unwrap().keeps_alive()
        };
        assert!(with(1, "A: b"));
        assert!(!with(1, "Connection: Close"));
        assert!(!with(1, "Connection: x, close"));
        assert!(!with(0, "A: b"));
        assert!(with(0, "Connection: keep-alive"));
    }

    #[test]
    fn what_comes_before_the_answer_is_passed_over() {
        let text =
            "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
        let answer = read(text).unwrap();
        assert!(answer.is_complete() && answer.status() == 404);
    }

    #[test]
    fn no_http_is_told() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
        ] {
            assert_eq!(read(text).err(), Some(Malformed), "{text:?}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(MAX_HEAD_BYTES));
        assert_eq!(read(&long).err(), Some(Malformed));
        let line =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;{}", "y".repeat(2000));
        assert_eq!(read(&line).err(), Some(Malformed));
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_is_the_same(cuts in prop::collection::vec(0..CHUNKED.len(), 0..9)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let (mut answer, mut from) = (Answer::default(), 0);
            for cut in cuts.into_iter().chain([CHUNKED.len()]) {
                prop_assert!(!answer.is_complete());
                answer.take(&CHUNKED.as_bytes()[from..cut]).unwrap();
                from = cut;
            }
            prop_assert!(answer.is_complete());
            prop_assert_eq!((answer.status(), answer.body_bytes()), (200, 9));
        }

        #[test]
        fn nothing_that_is_sent_panics(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut answer = Answer::default();
            let _ = answer.take(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &text[..]].concat());
            let mut answer = Answer::default();
            let _ = answer.take(&text);
        }
    }
}
