//! For tests: one packet through a program, in and out, without an interface.

use std::os::fd::{AsFd, AsRawFd};

/// Gives the verdict and the packet as the program left it.
pub(crate) fn packet_through(program: &impl AsFd, packet: &[u8]) -> (u32, Vec<u8>) {
    let mut out = vec![0u8; 2048];
    // SAFETY: zero is a valid value of every field.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    options.data_in = packet.as_ptr().cast();
    options.data_size_in = u32::try_from(packet.len()).expect("short");
    options.data_out = out.as_mut_ptr().cast();
    options.data_size_out = u32::try_from(out.len()).expect("short");
    options.repeat = 1;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: the buffers outlive the call and their sizes are passed.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(fd, &raw mut options) };
    assert_eq!(failed, 0, "BPF_PROG_TEST_RUN needs root");
    out.truncate(options.data_size_out as usize);
    (options.retval, out)
}
