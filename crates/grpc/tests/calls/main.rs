//! Protected methods as a caller meets them, over real connections on loopback.

#[path = "../../proto/shop.rs"]
#[rustfmt::skip]
mod shop;

mod duplicates;
mod endings;
mod keys;
mod significant;
mod whose;
mod world;
