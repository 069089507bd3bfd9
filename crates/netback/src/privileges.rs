//! Giving up rights once everything is open that needs them.

use std::io;

/// `struct __user_cap_header_struct` of version 3, and its two data words.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Gives up all capabilities, and the chance to get some again, in this thread and in those that it
/// starts from now on.
pub fn drop_privileges() -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: both are as this version of the call has them.
    let failed = unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_and_nothing_comes_back() {
        // A thread of its own: rights are the thread's.
        let told = std::thread::spawn(|| {
            drop_privileges().unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = told.join().unwrap();
        for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
            assert!(status.contains(line), "{status}");
        }
    }
}
