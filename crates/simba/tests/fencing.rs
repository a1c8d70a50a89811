//! The in-process recipe against the fencing kit.

use simba::{FencedCell, FencingToken};
use simba_tck::{
    failed,
    fencing::{FencedResource, Written, judge},
};

struct Cell(FencedCell<Option<String>>);

impl FencedResource for Cell {
    fn write(&self, token: FencingToken, value: &str) -> Result<Written, String> {
        match self.0.write(token, |state| *state = Some(value.to_owned())) {
            Ok(()) => Ok(Written::Accepted),
            Err(_) => Ok(Written::Refused),
        }
    }

    fn read(&self) -> Result<Option<String>, String> {
        Ok(self.0.read(Clone::clone))
    }
}

#[test]
fn the_fenced_cell_passes_the_fencing_kit() {
    let judged = judge(|| Box::new(Cell(FencedCell::new(None))));
    assert_eq!(failed(&judged), [] as [&str; 0], "{judged:#?}");
}

#[test]
fn a_panic_while_writing_keeps_the_token() {
    let cell = FencedCell::new(0);
    let (seven, eight) = (FencingToken::new(7).expect("a token"), FencingToken::new(8).expect("a token"));
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cell.write(eight, |_| panic!("half-way"))));
    assert!(panicked.is_err());
    assert!(cell.write(seven, |state| *state = 7).is_err(), "the token of the panicked write counts");
    assert_eq!(cell.write(eight, |state| *state = 8), Ok(()));
}
