//! Loading of the programs of `bpf/`: open, adjust, load, and keep the memory that they rest on.

use std::{
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    ptr,
};

use libbpf_rs::{
    OpenObject,
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
