//! The store port of Onefold.
