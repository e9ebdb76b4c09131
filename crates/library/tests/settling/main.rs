//! How operations whose effect is elsewhere are settled: with rows of the service, by look-ups, by people, by whatever
//! drives them on. A case is written once and runs on each kind of store.

mod companions;
mod drives;
mod look_ups;
mod overtaken;
mod rejections;
mod service;
