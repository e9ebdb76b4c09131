//! Webhooks into an inbox.

#[path = "../../examples/webhooks.rs"]
mod example;
mod one_message;
mod rig;
mod route;

#[test]
fn the_example_handles_its_message_once() {
    example::main().unwrap();
}
