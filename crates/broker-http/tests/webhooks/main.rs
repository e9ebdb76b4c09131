//! Webhooks over real HTTP: what each answer means, and what a receiver that keeps ids sees of lost answers.

mod answers;
mod once;
mod rig;
