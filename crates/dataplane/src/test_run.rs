//! For tests: one packet through a program, in and out, without an interface.

use std::os::fd::{AsFd, AsRawFd};

/// Words of `struct __sk_buff`, and some more: the kernel refuses less than it has.
const SKB_WORDS: usize = 64;
/// Number of the word with `priority`.
const SKB_PRIORITY: usize = 8;

/// Runs the program once; `context` goes in and comes out. Gives the verdict and the packet.
fn run<C>(program: &impl AsFd, packet: &[u8], context: Option<&mut C>) -> (u32, Vec<u8>) {
    let mut out = vec![0u8; 2048];
    // SAFETY: zero is a valid value of every field.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as libbpf_sys::size_t;
    options.data_in = packet.as_ptr().cast();
    options.data_size_in = u32::try_from(packet.len()).expect("short");
    options.data_out = out.as_mut_ptr().cast();
    options.data_size_out = u32::try_from(out.len()).expect("short");
    options.repeat = 1;
    if let Some(context) = context {
        let context: *mut C = context;
        options.ctx_in = context.cast();
        options.ctx_out = context.cast();
        options.ctx_size_in = u32::try_from(size_of::<C>()).expect("short");
        options.ctx_size_out = options.ctx_size_in;
    }
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: the buffers outlive the call and their sizes are passed.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(fd, &raw mut options) };
    assert_eq!(failed, 0, "BPF_PROG_TEST_RUN needs root; this is the negative errno");
    out.truncate(options.data_size_out as usize);
    (options.retval, out)
}

/// Gives the verdict and the packet as the program left it.
pub(crate) fn packet_through(program: &impl AsFd, packet: &[u8]) -> (u32, Vec<u8>) {
    run::<u8>(program, packet, None)
}

/// The same for a packet with XDP meta data before it; gives what is left of that, too.
pub(crate) fn tagged_through(
    program: &impl AsFd,
    meta: &[u8],
    packet: &[u8],
) -> (u32, Vec<u8>, Vec<u8>) {
    let whole = [meta, packet].concat();
    let mut context = libbpf_sys::xdp_md {
        data: u32::try_from(meta.len()).expect("short"),
        data_end: u32::try_from(whole.len()).expect("short"),
        ..Default::default()
    };
    let (verdict, mut left) = run(program, &whole, Some(&mut context));
    let packet = left.split_off(context.data as usize);
    (verdict, left, packet)
}

/// The same for a classifier (tc); gives the verdict, the packet, and its priority.
pub(crate) fn skb_through(program: &impl AsFd, packet: &[u8]) -> (u32, Vec<u8>, u32) {
    let mut context = [0u32; SKB_WORDS];
    let (verdict, left) = run(program, packet, Some(&mut context));
    (verdict, left, context[SKB_PRIORITY])
}
