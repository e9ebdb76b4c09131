//! The examples run and end well.

#[path = "../examples/atomic.rs"]
mod atomic;
#[path = "../examples/reserved.rs"]
mod reserved;
#[path = "../examples/resumable.rs"]
mod resumable;

#[test]
fn atomic_example_runs() {
    atomic::main().unwrap();
}

#[test]
fn reserved_example_runs() {
    reserved::main().unwrap();
}

#[test]
fn resumable_example_runs() {
    resumable::main().unwrap();
}
