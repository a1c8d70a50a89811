//! What happens at the edges. No code; the tests are in `tests/rules.rs` and, for work, `tests/work.rs`.
//!
//! | call | dropped before it finishes | outside of a tokio runtime | panic in your code |
//! |---|---|---|---|
//! | [`connect`], [`ready`] | nothing has happened; the client lives on | works, on any executor | – |
//! | [`lead`] | the work is dropped with it, the term revoked, the lease released in the background: others wait for their next try, not for the lease time | works, on any executor | unwinds to the caller *after* the term was revoked and the lease given back |
//! | [`run_while_leader`], [`listen`] (the handle) | runs on until a stop or the close of the client; with [`abort_on_drop`] it stops | [`Error::NoRuntime`] | caught and reported; for work the [policy] says what follows, for a listener the pairing is kept |
//! | [`run_while_leader_blocking`] (the handle) | as above | works: a thread of its own | as above |
//! | [`start`], [`watch`], [`terms`] (the last handle, watch and stream) | the election stops, since nobody would learn of a term | works | – |
//! | [`Terms::next`], [`Events::next`], [`LeadershipWatch::changed`] | no event is lost | works | – |
//! | [`stop`], [`step_down`], [`close`] | the operation goes on; calling again and awaiting gives its end | works | – |
//! | the last handle of a client | it closes in the background, without blocking | works | – |
//! | [`Term::spawn`], [`Term::spawn_blocking`] (the handle) | the task goes on, until the term ends | [`Error::NoRuntime`] | ends the task; its handle tells |
//! | [`Term::revoked`], [`Term::cancelled`] | nothing is lost | works | – |
//! | [`inspect`] | nothing is changed | works with a client | – |
//!
//! # From inside
//! [`stop`], [`step_down`] and [`close`] may be called from a callback, from leader work and from a sub-task of its
//! term, and of any election of the same client. Awaited there they start the operation and resolve at once instead
//! of waiting for themselves. Tasks that were started by plain `tokio::spawn` are not recognised; use
//! [`Term::spawn`], or a time limit.
//!
//! # Callbacks
//! * Every `elected` is followed by exactly one `revoked` of the same term, also after a panic.
//! * The callbacks of one election never overlap and come in order. One that takes long, or blocks, delays the later
//!   ones of its own election and nothing else: the term ends, and the lease is given back, without waiting for it.
//! * A stop or step-down completes after the last callback has run. After a completed stop nothing more is told, and
//!   the name may be used again; before that it is in use.
//! * If the runtime of a listener or of work is shut down, nobody can be told any more: a term that nobody has heard
//!   of is given up at once, and the election stops.
//!
//! # Work
//! * A term's lease is kept until its work and the sub-tasks of the term are out, but not beyond the deadline as it
//!   was when the stop or step-down came. A term that was lost is not waited for.
//! * Two runs of one election never overlap in one process, also if the first ignores its interrupt.
//! * What work returns after its term has ended counts for nothing; it was interrupted and runs again in the next
//!   term. So a plain `return` upon [`Term::cancelled`] does not end the election.
//! * Work that holds a [`Simba`] of its own client keeps it open: end it by [`close`].
//!
//! # The last resort
//! Should the engine itself fail, or the runtime that it was put on be shut down, every term reads invalid at once,
//! all waiters are told, and the client is closed. The session then ends on the store by itself.
//!
//! [`connect`]: crate::Simba::connect
//! [`ready`]: crate::Simba::ready
//! [`lead`]: crate::ElectionBuilder::lead
//! [`run_while_leader`]: crate::ElectionBuilder::run_while_leader
//! [`run_while_leader_blocking`]: crate::ElectionBuilder::run_while_leader_blocking
//! [`listen`]: crate::ElectionBuilder::listen
//! [`start`]: crate::ElectionBuilder::start
//! [`watch`]: crate::ElectionBuilder::watch
//! [`terms`]: crate::ElectionBuilder::terms
//! [`abort_on_drop`]: crate::Election::abort_on_drop
//! [`stop`]: crate::Election::stop
//! [`step_down`]: crate::Election::step_down
//! [`close`]: crate::Simba::close
//! [`inspect`]: crate::Simba::inspect
//! [policy]: crate::OnError
//! [`Simba`]: crate::Simba
//! [`Error::NoRuntime`]: crate::Error::NoRuntime
//! [`Term::spawn`]: crate::Term::spawn
//! [`Term::spawn_blocking`]: crate::Term::spawn_blocking
//! [`Term::revoked`]: crate::Term::revoked
//! [`Term::cancelled`]: crate::Term::cancelled
//! [`Terms::next`]: crate::Terms::next
//! [`Events::next`]: crate::Events::next
//! [`LeadershipWatch::changed`]: crate::LeadershipWatch::changed
