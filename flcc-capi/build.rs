//! What the linker is told of the shared library: that it stays where it was loaded, since its threads do, and the name
//! that programs ask for it by, where `cargo xtask install-c` says one. Beside what cargo leaves in its folder there is
//! no link of that name.

fn main() {
    println!("cargo::rerun-if-env-changed=FLCC_SONAME");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    if let Ok(name) = std::env::var("FLCC_SONAME") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    }
}
