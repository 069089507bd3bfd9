//! A wire: how long frames take on it.

/// Bit-nanoseconds per second in a byte.
const BYTE_NS: u64 = 8_000_000_000;

/// Times of transmissions, exact in the long run: the remainder of a nanosecond is carried.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    rate_bps: u64,
    overhead_bytes: u64,
    /// Size, ns and remainder of the latest division: most frames are as long as the one before.
    latest: (u16, u64, u64),
    remainder: u64,
}

impl Line {
    pub(crate) fn new(rate_bps: u64, overhead_bytes: u32) -> Self {
        let mut line = Self {
            rate_bps,
            overhead_bytes: overhead_bytes.into(),
            latest: (0, 0, 0),
            remainder: 0,
        };
        line.latest = line.divide(0);
        line
    }

    fn divide(&self, bytes: u16) -> (u16, u64, u64) {
        let bits = (u64::from(bytes) + self.overhead_bytes) * BYTE_NS;
        (bytes, bits / self.rate_bps, bits % self.rate_bps)
    }

    /// How long this frame takes, ns.
    #[inline]
    pub(crate) fn transmission_ns(&mut self, bytes: u16) -> u64 {
        if bytes != self.latest.0 {
            self.latest = self.divide(bytes);
        }
        let (_, ns, remainder) = self.latest;
        self.remainder += remainder;
        if self.remainder >= self.rate_bps {
            self.remainder -= self.rate_bps;
            ns + 1
        } else {
            ns
        }
    }

    /// How long it takes at least, ns.
    pub(crate) fn at_least_ns(&self, bytes: u16) -> u64 {
        if bytes == self.latest.0 { self.latest.1 } else { self.divide(bytes).1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_rate_is_exact() {
        // RFC 2544: 64-byte frames at 1 Gbit/s take 672 ns; at 3 Gbit/s a third of a ns is carried.
        assert_eq!(Line::new(1_000_000_000, 20).transmission_ns(64), 672);
        let mut line = Line::new(3_000_000_000, 20);
        let total: u64 =
            (0..3_000).map(|n| line.transmission_ns(if n % 3 == 0 { 64 } else { 65 })).sum();
        assert_eq!(total, (1_000 * 84 + 2_000 * 85) * 8 / 3);
    }
}
