//! The library on PostgreSQL as a service uses it. Each test has a database of its own.

mod atomic;
mod beside;
mod borrowed;
mod closures;
mod consuming;
mod elsewhere;
mod notify;
mod shop;
mod values;
