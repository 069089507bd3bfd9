//! A small generator of pseudo-random numbers, for order only: not for secrets.

/// `SplitMix64` (Steele, Lea, Flood 2014): 64 bits of state, the same numbers on any machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// A generator of its own for the component `name` in the run with this seed.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a: all that is asked of it is that different names give different streams.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut generator = Self { state: seed ^ hash };
        generator.next_u64();
        generator
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 if `bound` is 0. No value is preferred by more than 2^-32.
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of the bound is below it")]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_algorithm() {
        // First outputs for state 1234567, from the reference implementation (Vigna, splitmix64.c).
        let mut generator = Prng { state: 1_234_567 };
        let first: Vec<u64> = (0..3).map(|_| generator.next_u64()).collect();
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, published);
    }

    #[test]
    fn below_reaches_all_and_no_more() {
        let mut generator = Prng::new(1, "test");
        let mut seen = [0; 5];
        for _ in 0..5000 {
            seen[generator.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| (900..1100).contains(&times)), "{seen:?}");
        assert_eq!(generator.below(0), 0);
    }

    #[test]
    fn names_and_seeds_give_different_streams() {
        let first = |seed, name| Prng::new(seed, name).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }
}
