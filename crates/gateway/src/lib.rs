//! The reverse proxy that protects an upstream.
