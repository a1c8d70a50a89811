//! What happens to a server, and what the next calls make of it: they work again by themselves.

mod clusters;
mod rig;
mod rights;
mod servers;
