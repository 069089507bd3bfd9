//! Which Linux this is, for what cannot be tried out.

use std::ffi::CStr;

/// Tells whether this Linux is at least of a version, such as `(6, 5)`.
pub(crate) fn at_least(version: (u32, u32)) -> bool {
    // SAFETY: zero is a valid utsname.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call, which ends each name with a zero.
    let release = unsafe {
        libc::uname(&raw mut names);
        CStr::from_ptr(names.release.as_ptr())
    };
    version_of(&release.to_string_lossy()).is_some_and(|found| found >= version)
}

/// Major and minor version in a release such as `6.18.44-fc-v509`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version_of("6.18.44-fc-v509"), Some((6, 18)));
        assert_eq!(version_of("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(version_of("7.0"), Some((7, 0)));
        assert_eq!(version_of("of its own"), None);
        assert!(version_of("6.18.44") > version_of("6.5.0"), "18 is more than 5");
    }

    #[test]
    fn this_linux_has_a_version() {
        assert!(at_least((4, 0)));
        assert!(!at_least((1_000, 0)));
    }
}
