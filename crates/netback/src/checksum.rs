//! The Internet checksum (RFC 1071), for frames whose sender left it to whoever sends them on.

/// Writes the checksum of all bytes from `start` on to `start + offset`, where the sum of the pseudo
/// header is already; None if that is outside the frame.
pub(crate) fn complete(frame: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let at = start.checked_add(offset)?;
    if at.checked_add(2)? > frame.len() {
        return None;
    }
    let sum = complement(sum(&frame[start..]));
    // Zero would say "no checksum" in UDP over IPv4; 0xffff is the same number.
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// What is written for a sum.
pub(crate) fn complement(sum: u64) -> u16 {
    !folded(sum)
}

/// The sum of 16-bit words, to be added to others of the same frame.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    // In ones' complement the order of bytes does not matter until the end, nor how many are added at
    // once.
    let mut words = bytes.chunks_exact(4);
    let each = words.by_ref().map(|w| u64::from(u32::from_ne_bytes([w[0], w[1], w[2], w[3]])));
    let total: u64 = each.sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    u16::from_be(folded(total + u64::from(u32::from_ne_bytes(last)))).into()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn a_frame_sums_to_all_ones_afterwards() {
        for length in [20, 21, 60, 1514] {
            let mut frame: Vec<u8> = (0..=250).step_by(7).cycle().take(length).collect();
            frame[16] = 0;
            frame[17] = 0;
            complete(&mut frame, 14, 2).unwrap();
            assert_eq!(sum(&frame[14..]), 0xffff, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_16_bit_words(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let words = bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | w.get(1).map_or(0, |&b| b.into()));
            prop_assert_eq!(sum(&bytes), u64::from(folded(words.sum())));
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
