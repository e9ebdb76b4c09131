//! Mail over a real server: what each answer means, and what becomes of a mail whose answer was lost.

mod answers;
mod lost;
mod rig;
