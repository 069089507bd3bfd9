//! Compiles `bpf/*.bpf.c` with clang and writes their Rust skeletons.

use std::{env, path::PathBuf};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 8] =
    ["generate", "receive", "account", "admit", "demux", "forward", "points", "profile"];

fn main() {
    let bpf =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let include = bpf.join("include");
    for program in PROGRAMS {
        SkeletonBuilder::new()
            .source(bpf.join(format!("{program}.bpf.c")))
            .clang_args([
                "-I".into(),
                include.clone().into_os_string(),
                // Debian keeps <asm/types.h> in the multiarch folder, which -target bpf forgets.
                format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH).into(),
                "-mcpu=v3".into(),
                "-Wall".into(),
                "-Wextra".into(),
                "-Werror".into(),
                "-Wno-unused-parameter".into(),
                "-Wno-sign-compare".into(),
            ])
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .unwrap_or_else(|error| panic!("bpf/{program}.bpf.c: {error:#}"));
    }
    println!("cargo:rerun-if-changed={}", bpf.display());
}
