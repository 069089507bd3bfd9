//! The Internet checksum (RFC 1071), for frames whose sender left it to whoever sends them on.

/// Writes the checksum of all bytes from `start` on to `start + offset`, where the sum of the pseudo
/// header is already; None if that is outside the frame.
pub(crate) fn complete(frame: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let at = start.checked_add(offset)?;
    if at.checked_add(2)? > frame.len() {
        return None;
    }
    let sum = !folded(&frame[start..]);
    // Zero would say "no checksum" in UDP over IPv4; 0xffff is the same number.
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// The sum of 16-bit words in ones' complement.
fn folded(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(2);
    let mut sum: u64 = words.by_ref().map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    if let [last] = words.remainder() {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(folded(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn a_frame_sums_to_all_ones_afterwards() {
        for length in [20, 21, 60, 1514] {
            let mut frame: Vec<u8> = (0..=250).step_by(7).cycle().take(length).collect();
            frame[16] = 0;
            frame[17] = 0;
            complete(&mut frame, 14, 2).unwrap();
            assert_eq!(folded(&frame[14..]), 0xffff, "{length} bytes");
        }
    }

    #[test]
    fn a_checksum_outside_the_frame_is_refused() {
        let mut frame = [0; 60];
        for (start, offset) in [(59, 0), (60, 0), (0, 59), (usize::MAX, 2), (2, usize::MAX)] {
            assert_eq!(complete(&mut frame, start, offset), None, "{start} {offset}");
        }
    }
}
