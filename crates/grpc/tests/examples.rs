//! The example runs and ends well.

#[path = "../examples/grpc.rs"]
mod grpc;

#[test]
fn grpc_example_runs() {
    grpc::main().unwrap();
}
