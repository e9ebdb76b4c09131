//! Performs operations over a store: attempts, leases, waiting, settling.
