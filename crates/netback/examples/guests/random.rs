//! Random numbers for next to nothing.

/// Xorshift (Marsaglia 2003), 64 bits; never 0.
pub struct Random(u64);

impl Random {
    /// Other seeds give other numbers.
    pub fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Less than `limit`, which is not 0; a little uneven, which does not matter here.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize * limit) >> 32
    }
}
