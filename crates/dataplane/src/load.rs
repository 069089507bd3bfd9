//! Loading of the programs of `bpf/`: open, adjust, load, and keep the memory that they rest on.

use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    ptr,
};

use libbpf_rs::{
    ErrorKind, OpenObject,
    skel::{OpenSkel, SkelBuilder},
};

use crate::{
    Error, Result,
    error::{DESCRIPTORS, one_line},
};

/// What an error says about a program family that the kernel refuses.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    /// Its name, as in `bpf/`.
    pub(crate) program: &'static str,
    /// The kernel feature that it rests on.
    pub(crate) feature: &'static str,
}

impl Family {
    pub(crate) fn refused(self, error: &libbpf_rs::Error) -> Error {
        // The verifier gives up when a signal is pending, and libbpf after five such attempts.
        if error.kind() == ErrorKind::WouldBlock {
            return Error::Interrupted { program: self.program };
        }
        self.refused_because(one_line(error))
    }

    pub(crate) fn refused_because(self, reason: String) -> Error {
        Error::Load { program: self.program, feature: self.feature, reason }
    }
}

/// A loaded skeleton, and the object that it borrows from.
pub(crate) struct Loaded<S> {
    skel: S,
    // Declared last: dropped after the skeleton that borrows it.
    _object: Box<MaybeUninit<OpenObject>>,
}

impl<S> Loaded<S> {
    /// Opens a program family, lets `adjust` change it, and loads it.
    pub(crate) fn load<B>(
        family: Family,
        builder: B,
        adjust: impl FnOnce(&mut B::Output) -> Result<()>,
    ) -> Result<Self>
    where
        B: SkelBuilder<'static>,
        B::Output: OpenSkel<'static, Output = S>,
        S: libbpf_rs::skel::Skel<'static>,
    {
        check_descriptor_limit(family.program)?;
        let refuse = |error| family.refused(&error);
        let mut object = Box::new(MaybeUninit::uninit());
        // SAFETY: `Self` keeps the box behind the skeleton and never moves its content.
        let memory: &'static mut MaybeUninit<OpenObject> =
            unsafe { &mut *ptr::from_mut(object.as_mut()) };
        let mut open = builder.open(memory).map_err(refuse)?;
        adjust(&mut open)?;
        Ok(Self { skel: open.load().map_err(refuse)?, _object: object })
    }
}

impl<S> Deref for Loaded<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.skel
    }
}

impl<S> DerefMut for Loaded<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.skel
    }
}

/// Refuses to load where descriptors would run out on the way. What libbpf makes of that is a feature
/// that the kernel seems to lack.
pub(crate) fn check_descriptor_limit(program: &'static str) -> Result<()> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit, and RLIMIT_NOFILE always exists.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
    let limit = limits.rlim_cur;
    let open =
        std::fs::read_dir("/proc/self/fd").map_or(u64::MAX, |entries| entries.count() as u64);
    if limit.saturating_sub(open) < DESCRIPTORS as u64 {
        return Err(Error::Descriptors { program, limit });
    }
    Ok(())
}

/// A program's variables or settings, which a skeleton gives as an option.
pub(crate) fn present<T>(section: Option<T>) -> Result<T> {
    section.ok_or(Error::State("the BPF program has no such variables"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use libbpf_rs::{AsRawLibbpf, skel::Skel};

    use super::*;
    use crate::skeletons::{
        account::AccountSkelBuilder, admit::AdmitSkelBuilder, demux::DemuxSkelBuilder,
        forward::ForwardSkelBuilder, generate::GenerateSkelBuilder, points::PointsSkelBuilder,
        receive::ReceiveSkelBuilder,
    };

    /// Of the million that it allows.
    const MAX_VERIFIED: u32 = 50_000;

    /// Each program's name, and how many instructions the kernel's verifier went through.
    fn verified<B>(builder: B) -> Vec<(String, u32)>
    where
        B: SkelBuilder<'static>,
        B::Output: OpenSkel<'static>,
        <B::Output as OpenSkel<'static>>::Output: Skel<'static>,
    {
        let family = Family { program: "any", feature: "BPF" };
        let loaded = Loaded::load(family, builder, |_| Ok(())).expect("loads");
        // SAFETY: the pointers are to programs of an object that lives until the end of the block.
        let of_this_kernel = |program: &libbpf_rs::Program<'_>| unsafe {
            libbpf_sys::bpf_program__autoload(program.as_libbpf_object().as_ptr())
        };
        let programs = loaded.object().progs().filter(of_this_kernel);
        programs.map(|found| (found.name().to_string_lossy().into(), insns(&found))).collect()
    }

    fn insns(program: &impl AsFd) -> u32 {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = u32::try_from(size_of_val(&info)).expect("small");
        let fd = program.as_fd().as_raw_fd();
        // SAFETY: the pointers are to a live structure and to its size.
        let failed = unsafe {
            libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &raw mut size)
        };
        assert_eq!(failed, 0);
        info.verified_insns
    }

    #[test]
    fn a_load_that_signals_interrupt_is_not_taken_for_a_feature_that_lacks() {
        let family = Family { program: "any", feature: "BPF" };
        let refused = |number| family.refused(&libbpf_rs::Error::from_raw_os_error(number));
        assert!(matches!(refused(libc::EAGAIN), Error::Interrupted { program: "any" }));
        assert!(matches!(refused(libc::EINVAL), Error::Load { .. }));
    }

    #[test]
    fn the_verifier_goes_through_each_program_quickly() {
        let all = [
            verified(AccountSkelBuilder::default()),
            verified(AdmitSkelBuilder::default()),
            verified(DemuxSkelBuilder::default()),
            verified(ForwardSkelBuilder::default()),
            verified(GenerateSkelBuilder::default()),
            verified(PointsSkelBuilder::default()),
            verified(ReceiveSkelBuilder::default()),
        ];
        for (name, insns) in all.into_iter().flatten() {
            assert!(0 < insns && insns < MAX_VERIFIED, "{name}: {insns} instructions");
        }
    }
}
