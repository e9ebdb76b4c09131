//! The operations API on the admin listener.
