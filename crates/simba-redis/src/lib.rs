//! Leases on Redis and Valkey.
