//! The generated code of the services is that of their protocol file.
//!
//! It is written by the same libraries that the tests bring along, so no `protoc` is needed: `UPDATE_GENERATED=1`.

use std::path::Path;

const HEADER: &str = "//! Written from `bfstore.proto` by a test: UPDATE_GENERATED=1 cargo test -p bfstore --test generated\n\n";

#[test]
fn the_generated_code_is_that_of_the_protocol_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let read = protox::compile(["bfstore.proto"], [&folder]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure().btree_map(".").out_dir(out.path()).compile_fds(read).unwrap();
    let generated = std::fs::read_to_string(out.path().join("bfstore.v1.rs")).unwrap();
    let generated = format!("{HEADER}{generated}");
    let file = folder.join("bfstore.rs");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&file, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == generated,
        "proto/bfstore.rs is of another protocol file or generator; see its first line"
    );
}
