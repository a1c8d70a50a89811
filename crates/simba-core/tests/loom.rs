//! The latch of the validity cell under every interleaving: run with `RUSTFLAGS="--cfg loom"`, by `cargo xtask loom`.
#![cfg(loom)]

use loom::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};
use simba_core::{DeadlineCell, DeadlineWriter, Instant};

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// A cell under test: two readers' ends and the writer's end.
trait Latch: Sized {
    type Reader: Read + Send + 'static;
    fn new(deadline: u64) -> Self;
    fn reader(&self) -> Self::Reader;
    fn extend(&mut self, to: u64) -> bool;
}

trait Read {
    fn is_valid(&self, now: u64) -> bool;
}

impl Latch for DeadlineWriter {
    type Reader = std::sync::Arc<DeadlineCell>;
    fn new(deadline: u64) -> Self {
        Self::new(at(deadline))
    }
    fn reader(&self) -> Self::Reader {
        self.cell()
    }
    fn extend(&mut self, to: u64) -> bool {
        self.set(at(to)).is_ok()
    }
}

impl Read for std::sync::Arc<DeadlineCell> {
    fn is_valid(&self, now: u64) -> bool {
        self.valid_until(|| at(now)).is_some()
    }
}

/// The planted bug: a deadline that is compared, and not latched.
struct NoLatch(Arc<AtomicU64>);

impl Latch for NoLatch {
    type Reader = Arc<AtomicU64>;
    fn new(deadline: u64) -> Self {
        Self(Arc::new(AtomicU64::new(deadline)))
    }
    fn reader(&self) -> Self::Reader {
        Arc::clone(&self.0)
    }
    fn extend(&mut self, to: u64) -> bool {
        self.0.store(to, Ordering::Release);
        true
    }
}

impl Read for Arc<AtomicU64> {
    fn is_valid(&self, now: u64) -> bool {
        now < self.load(Ordering::Acquire)
    }
}

/// I6: a reader that has answered "no" never answers "yes" afterwards, although the engine extends the deadline
/// meanwhile; and the engine learns of it.
fn one_reader<L: Latch>() {
    loom::model(|| {
        let mut writer = L::new(100);
        let (mine, yours) = (writer.reader(), writer.reader());
        // The reader's clock stands past the old deadline and before the new one.
        let reader = thread::spawn(move || {
            let before = mine.is_valid(101);
            let after = mine.is_valid(102);
            assert!(before || !after, "invalid, then valid again");
        });
        let extended = writer.extend(200);
        reader.join().unwrap();
        assert_eq!(extended, yours.is_valid(103), "the engine and the readers agree on who came first");
    });
}

/// Two readers race with the extension: either both come after it, or none of them answers "yes".
fn two_readers<L: Latch>() {
    loom::model(|| {
        let mut writer = L::new(100);
        let readers = [writer.reader(), writer.reader()].map(|r| thread::spawn(move || r.is_valid(150)));
        let extended = writer.extend(200);
        let [one, other] = readers.map(|reader| reader.join().unwrap());
        assert_eq!(one, other);
        assert_eq!(one, extended);
    });
}

#[test]
fn what_a_reader_saw_pass_stays_passed() {
    one_reader::<DeadlineWriter>();
}

#[test]
fn two_readers_and_an_extension_agree() {
    two_readers::<DeadlineWriter>();
}

#[test]
#[should_panic(expected = "invalid, then valid again")]
fn planted_without_a_latch_one_reader_sees_it_come_back() {
    one_reader::<NoLatch>();
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn planted_without_a_latch_two_readers_disagree() {
    two_readers::<NoLatch>();
}

/// The end wins over everything.
#[test]
fn nothing_is_valid_after_the_end() {
    loom::model(|| {
        let mut writer = DeadlineWriter::new(at(100));
        let (cell, late) = (writer.cell(), writer.cell());
        let reader = thread::spawn(move || cell.valid_until(|| at(99)).is_some());
        writer.set(at(200)).unwrap();
        writer.end();
        assert!(late.valid_until(|| at(1)).is_none());
        reader.join().unwrap();
    });
}
