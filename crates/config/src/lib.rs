//! Settings of Onefold: onefold.toml, read with errors that name file, line and field.
