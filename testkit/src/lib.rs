//! Starters and peers for tests: a counting upstream, a raw client, the real binary.
