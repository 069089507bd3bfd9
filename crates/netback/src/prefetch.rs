//! Hints to the processor about what will be needed soon: what a guest has written lies in another
//! core's cache, and waiting for it takes longer than all else that is done with a short frame.

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Asks for a cache line. The address may be any, mapped or not.
#[inline]
pub(crate) fn prefetch(at: *const u8, to_write: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint changes nothing but what caches hold, and never faults.
        unsafe {
            if to_write {
                _mm_prefetch::<_MM_HINT_ET0>(at.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(at.cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, to_write);
}
