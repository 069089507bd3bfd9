//! Random times, the same on any machine.

use isolane_sched::Prng;

/// Natural logarithm of a number in (0, 1], from basic arithmetic alone: what a platform's
/// mathematics library says may differ in the last bit, and with it all that follows.
fn ln(value: f64) -> f64 {
    // value = mantissa x 2^exponent, mantissa in [1/sqrt 2, sqrt 2).
    let bits = value.to_bits();
    let mut exponent = f64::from(i32::try_from(bits >> 52).unwrap_or(0) - 1023);
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); with |s| <= 0.172 ten terms are exact to a double.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for term in (0..10).rev() {
        sum = sum * square + 1.0 / f64::from(2 * term + 1);
    }
    exponent * std::f64::consts::LN_2 + 2.0 * s * sum
}

/// A time from the exponential distribution with this mean, ns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and at most 37 means"
)]
pub(crate) fn exponential_ns(prng: &mut Prng, mean_ns: f64) -> u64 {
    let uniform = ((prng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (mean_ns * -ln(uniform) + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for value in [1.0, 0.75, 0.5, 0.1, 1e-9, 2.0_f64.powi(-53), 0.999_999] {
            assert!((ln(value) - value.ln()).abs() <= 1e-14 * value.ln().abs(), "{value}");
        }
    }

    #[test]
    fn mean_and_spread_are_those_of_the_distribution() {
        let mut prng = Prng::new(7, "test");
        let times: Vec<f64> =
            (0..100_000).map(|_| exponential_ns(&mut prng, 1_000.0) as f64).collect();
        let mean = times.iter().sum::<f64>() / 1e5;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1_000.0).abs() < 15.0, "{mean}");
        assert!((variance.sqrt() - 1_000.0).abs() < 20.0, "{variance}");
    }
}
