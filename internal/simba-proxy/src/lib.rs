//! A TCP proxy that misbehaves on demand.
