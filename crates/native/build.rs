//! Compiles the responder, which the module carries with it, with the clang that compiles `bpf/`.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("responder");
    let source = "responder/responder.c";
    let ended = Command::new(env::var_os("CLANG").unwrap_or_else(|| "clang".into()))
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-nostdlib", "-ffreestanding"])
        .args(["-fno-stack-protector", "-fno-pie", "-fno-builtin", "-s"])
        .args(["-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,norelro", "-o"])
        .arg(&out)
        .arg(source)
        .status()
        .expect("clang starts");
    assert!(ended.success(), "{source}: clang failed");
    println!("cargo:rerun-if-changed={source}");
}
