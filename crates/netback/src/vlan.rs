//! Tags of VLANs (IEEE 802.1Q) in frames.

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 4;
/// Where it stands: behind both addresses.
const AT: usize = 12;
/// What says that there is one, of a customer's VLAN and of a provider's.
const CUSTOMER: [u8; 2] = [0x81, 0x00];
const PROVIDER: [u8; 2] = [0x88, 0xa8];

/// The number of the VLAN that a frame says it belongs to; None: none, or only a priority.
pub(crate) fn number(frame: &[u8]) -> Option<u16> {
    let tag = frame.get(AT..AT + TAG_BYTES)?;
    let number = u16::from_be_bytes([tag[2], tag[3]]) & 0xfff;
    (tag[..2] == CUSTOMER && number != 0).then_some(number)
}

/// Whether a frame has a tag of any kind.
pub(crate) fn is_tagged(frame: &[u8]) -> bool {
    frame.get(AT..AT + 2).is_some_and(|kind| kind == CUSTOMER || kind == PROVIDER)
}

/// Where a frame's payload begins, behind two tags at most, and of which type it is (`EtherType`).
pub(crate) fn payload(frame: &[u8]) -> Option<(usize, u16)> {
    let mut at = AT;
    for _ in 0..2 {
        let kind = frame.get(at..at + 2)?;
        if kind != CUSTOMER && kind != PROVIDER {
            break;
        }
        at += TAG_BYTES;
    }
    let kind = frame.get(at..at + 2)?;
    Some((at + 2, u16::from_be_bytes([kind[0], kind[1]])))
}

/// Puts a tag into a frame of `bytes` bytes, behind which the buffer has space for it. Returns its
/// bytes then.
pub(crate) fn insert(buffer: &mut [u8], bytes: usize, number: u16) -> usize {
    buffer.copy_within(AT..bytes, AT + TAG_BYTES);
    buffer[AT..AT + 2].copy_from_slice(&CUSTOMER);
    buffer[AT + 2..AT + TAG_BYTES].copy_from_slice(&number.to_be_bytes());
    bytes + TAG_BYTES
}

/// Copies a tagged frame without its tag to the start of a buffer that is as long.
pub(crate) fn without<'a>(frame: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    let bytes = frame.len() - TAG_BYTES;
    buffer[..AT].copy_from_slice(&frame[..AT]);
    buffer[AT..bytes].copy_from_slice(&frame[AT + TAG_BYTES..]);
    &buffer[..bytes]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_in_is_found_and_taken_out(
            frame in prop::collection::vec(any::<u8>(), 14..1_519), vlan in 1..4_095u16,
        ) {
            let mut buffer = vec![0; 1_522];
            buffer[..frame.len()].copy_from_slice(&frame);
            let bytes = insert(&mut buffer, frame.len(), vlan);
            prop_assert_eq!(bytes, frame.len() + TAG_BYTES);
            prop_assert_eq!(number(&buffer[..bytes]), Some(vlan));
            prop_assert!(is_tagged(&buffer[..bytes]));
            let mut other = vec![0; 1_522];
            prop_assert_eq!(without(&buffer[..bytes], &mut other), &frame[..]);
        }
    }

    fn frame(kind: [u8; 2], rest: [u8; 2]) -> Vec<u8> {
        [&[0; 12][..], &kind, &rest, &[8, 0]].concat()
    }

    #[test]
    fn the_payload_begins_behind_the_tags() {
        let of = |tags: &[[u8; 4]]| [&[0; 12][..], &tags.concat(), &[0x86, 0xdd]].concat();
        let (customer, provider) = ([0x81, 0, 0, 7], [0x88, 0xa8, 0, 7]);
        assert_eq!(payload(&of(&[])), Some((14, 0x86dd)));
        assert_eq!(payload(&of(&[customer])), Some((18, 0x86dd)));
        assert_eq!(payload(&of(&[provider, customer])), Some((22, 0x86dd)));
        assert_eq!(
            payload(&of(&[customer; 3])),
            Some((22, 0x8100)),
            "no more than two are looked for"
        );
        assert_eq!(payload(&of(&[customer])[..17]), None);
        assert_eq!(payload(&of(&[])[..13]), None);
    }

    #[test]
    fn what_is_no_tag_of_a_vlan() {
        assert_eq!(number(&frame([0x08, 0x00], [0, 7])), None);
        assert_eq!(number(&frame(CUSTOMER, [0xe0, 0])), None, "only a priority");
        assert_eq!(number(&frame(CUSTOMER, [0xe0, 7])), Some(7), "with a priority");
        assert_eq!(number(&[0; 14]), None, "too short for one");
        assert_eq!(number(&frame(PROVIDER, [0, 7])), None);
        assert!(is_tagged(&frame(PROVIDER, [0, 7])));
        assert!(is_tagged(&frame(CUSTOMER, [0, 0])));
        assert!(!is_tagged(&frame([0x86, 0xdd], [0, 0])));
    }
}
