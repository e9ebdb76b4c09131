//! The SQLite store of Onefold: one writer with group commit.
