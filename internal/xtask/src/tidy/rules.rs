//! `docs/rules.md`: each promise names the module that keeps it and the test that shows it, and both must exist.

use super::Source;

const TABLE: &str = "docs/rules.md";

pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else {
        return vec![format!("{TABLE} is missing")];
    };
    let mut faults = Vec::new();
    let mut ids = Vec::new();
    for (n, line) in table.text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // | id | gist | module | test | simulation |
        let [_, id, _, module, test, _, _] = cells.as_slice() else { continue };
        if !is_id(id) {
            continue;
        }
        if ids.contains(id) {
            faults.push(format!("{TABLE}:{}: {id} stands there twice", n + 1));
        }
        ids.push(id);
        for path in quoted(module) {
            if !sources
                .iter()
                .any(|source| source.path == path || source.path.starts_with(&format!("{path}/")))
            {
                faults.push(format!("{TABLE}:{}: {id} names the module {path}, which is not there", n + 1));
            }
        }
        let tests = quoted(test);
        if tests.is_empty() {
            faults.push(format!("{TABLE}:{}: {id} names no test", n + 1));
        }
        for name in tests {
            let function = name.rsplit("::").next().unwrap_or_default();
            let found = |source: &Source| {
                source.text.contains(&format!("fn {function}("))
                    || source.text.contains(&format!("\"{function}\""))
            };
            if !sources.iter().filter(|source| source.is_rust()).any(found) {
                faults.push(format!("{TABLE}:{}: {id} names the test {name}, which is not there", n + 1));
            }
        }
    }
    if ids.is_empty() {
        faults.push(format!("{TABLE} holds no rule"));
    }
    faults
}

/// R and a number, as in R17.
fn is_id(text: &str) -> bool {
    text.strip_prefix('R').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The texts between back quotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(row: &str) -> String {
        let rust = Source { path: "a/src/x.rs".into(), text: "fn shown() {}\n".into() };
        check(&[Source { path: TABLE.into(), text: format!("{row}\n") }, rust]).join("; ")
    }

    #[test]
    fn each_check_can_fail() {
        assert_eq!(faults("| R1 | gist | `a/src/x.rs` | `shown` | I1 |"), "");
        assert!(faults("| R1 | gist | `a/src/y.rs` | `shown` | I1 |").contains("module a/src/y.rs"));
        assert!(faults("| R1 | gist | `a/src/x.rs` | `hidden` | I1 |").contains("test hidden"));
        assert!(faults("| R1 | gist | `a/src/x.rs` | missing | I1 |").contains("names no test"));
        let row = "| R1 | gist | `a/src/x.rs` | `shown` | I1 |";
        assert!(faults(&format!("{row}\n{row}")).contains("twice"));
        assert!(faults("nothing").contains("no rule"));
        assert!(check(&[]).join("").contains("missing"));
    }
}
