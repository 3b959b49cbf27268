//! Makes Rust code of the contract, and keeps its descriptors for reflection.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use protox::prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=keymill");
    let files = protox::compile(["keymill/v1/keymill.proto"], ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("keymill.v1.bin"), files.encode_to_vec())?;
    let has = |feature| env::var_os(feature).is_some();
    tonic_prost_build::configure()
        .build_client(has("CARGO_FEATURE_CLIENT"))
        .build_server(has("CARGO_FEATURE_SERVER"))
        .build_transport(false)
        // A server that is made for a test answers what the test is about.
        .generate_default_stubs(true)
        // A batch is a slice of what was received, not a copy of it.
        .bytes(".keymill.v1.TakeStreamResponse.keys")
        .compile_fds(files)?;
    Ok(())
}
