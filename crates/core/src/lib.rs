//! The pure heart of Onefold: identity, contract, record, states, decide.
