//! Private servers of every store, for tests.
