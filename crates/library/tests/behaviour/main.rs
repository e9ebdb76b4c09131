//! The library as a service uses it, in one process.

mod atomic;
mod beside;
mod borrowed;
mod consuming;
mod notify;
mod reserved;
mod resumable;
mod shop;
mod unwise;
mod values;
