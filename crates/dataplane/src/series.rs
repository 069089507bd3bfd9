//! Time series of a trial: how wide a bin is, and how many there are.

use crate::skeletons::receive::types;

/// Width of a bin unless a trial is very long, ns.
const BIN_NS: u64 = 10_000_000;
/// Bins of all streams together; 1 KiB each.
const MAX_BINS: u64 = 1 << 15;
/// `ISL_BIN_SHIFT`.
const SHIFT: u32 = 4;

/// The width of a bin for a series of so long a time, ns: 10 ms, or doubled until the table of all
/// streams takes at most 32 MiB.
#[must_use]
pub fn bin_ns(length_ns: u64, streams: usize) -> u64 {
    let bins_each = (MAX_BINS / (streams.max(1) as u64)).max(1);
    let mut bin_ns = BIN_NS;
    while length_ns.div_ceil(bin_ns) > bins_each {
        bin_ns *= 2;
    }
    bin_ns
}

/// Entries of a table with one for each stream in each bin; at least one.
pub(crate) fn entries(bin_ns: u64, length_ns: u64, streams: usize) -> u32 {
    if bin_ns == 0 {
        return 1;
    }
    u32::try_from(length_ns.div_ceil(bin_ns) * streams as u64).unwrap_or(u32::MAX).max(1)
}

/// What the receiver's program needs to find a time's bin.
pub(crate) fn arm(start_ns: u64, length_ns: u64, bin_ns: u64) -> types::isl_series {
    let inverse = |bits: u32| (1u128 << (SHIFT + bits)) / u128::from(bin_ns.max(1)) + 1;
    let fits = |bits: &u32| (u128::from(length_ns >> SHIFT) + 1) * inverse(*bits) <= 1 << 64;
    let bits = (0..64).rev().find(fits).unwrap_or(0);
    let inverse = u64::try_from(inverse(bits)).expect("the product fits");
    types::isl_series { start_ns, length_ns, inverse, bits: u64::from(bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `isl_bin` in C.
    fn bin_of(since_ns: u64, series: &types::isl_series) -> u64 {
        ((since_ns >> SHIFT) * series.inverse) >> series.bits
    }

    #[test]
    fn bins_grow_where_a_trial_is_long() {
        assert_eq!(bin_ns(1_300_000_000, 2), 10_000_000);
        assert_eq!(bin_ns(0, 0), 10_000_000);
        for (length_ns, streams) in [(3_600_000_000_000, 4), (60_000_000_000, 256)] {
            let width_ns = bin_ns(length_ns, streams);
            let bins = length_ns.div_ceil(width_ns) * streams as u64;
            assert!(bins <= MAX_BINS && 2 * bins + streams as u64 > MAX_BINS, "{bins}");
        }
    }

    #[test]
    fn the_product_finds_the_bin_that_a_division_finds() {
        for (length_ns, streams) in
            [(1_300_000_000, 2), (320_000_000_000, 1), (7_200_000_000_000, 1)]
        {
            let width_ns = bin_ns(length_ns, streams);
            let early_ns = if width_ns == BIN_NS { 1_000 } else { width_ns / 500 };
            let series = arm(0, length_ns, width_ns);
            for bin in 0..length_ns / width_ns {
                let begin_ns = bin * width_ns;
                for (at_ns, expected) in
                    [(begin_ns + (1 << SHIFT), bin), (begin_ns + width_ns - early_ns, bin)]
                {
                    assert_eq!(bin_of(at_ns, &series), expected, "{at_ns} of {width_ns}");
                }
            }
        }
    }
}
