//! The table of results.

use std::fmt::Write;

/// One line.
pub(crate) struct Row {
    what: String,
    target: String,
    measured: String,
    note: String,
}

impl Row {
    pub(crate) fn ratio(what: &str, target: &str, ratio: f64, note: &str) -> Self {
        Self { what: what.into(), target: target.into(), measured: format!("{ratio:.3}"), note: note.into() }
    }

    pub(crate) fn count(what: &str, target: &str, count: u64) -> Self {
        Self::value(what, target, count.to_string())
    }

    pub(crate) fn value(what: &str, target: &str, measured: String) -> Self {
        Self { what: what.into(), target: target.into(), measured, note: String::new() }
    }

    pub(crate) fn noted(mut self, note: String) -> Self {
        self.note = note;
        self
    }
}

pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = String::from("| what | target | measured | note |\n|---|---|---|---|\n");
    for row in rows {
        writeln!(text, "| {} | {} | {} | {} |", row.what, row.target, row.measured, row.note)
            .expect("a text grows");
    }
    text
}
