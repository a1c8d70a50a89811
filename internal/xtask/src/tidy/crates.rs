//! Which crate may depend on which, and on what from outside: a new edge is a decision, made here.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::steps::cargo;

/// A crate: what of ours it may depend on, and what from outside. Tests may use more.
struct Allowed {
    name: &'static str,
    ours: &'static [&'static str],
    outside: &'static [&'static str],
}

const TABLE: &[Allowed] = &[
    // The contract and the engine: nothing, so that no clock, thread or lock can be reached.
    Allowed { name: "simba-backend", ours: &[], outside: &[] },
    Allowed { name: "simba-core", ours: &["simba-backend"], outside: &["loom"] },
    Allowed { name: "simba-memory", ours: &["simba-backend"], outside: &["getrandom"] },
    Allowed {
        name: "simba-sql",
        ours: &["simba-backend"],
        outside: &[
            "rusqlite",
            "rustix",
            "getrandom",
            "tokio",
            "tokio-postgres",
            "tokio-postgres-rustls",
            "mysql_async",
            "rustls",
            "rustls-native-certs",
            "rustls-pki-types",
            "url",
        ],
    },
    Allowed {
        name: "simba-redis",
        ours: &["simba-backend"],
        outside: &["redis", "rustls", "futures-core", "getrandom", "tokio", "url"],
    },
    Allowed { name: "simba-tck", ours: &["simba-backend"], outside: &["libtest-mimic", "tokio"] },
    Allowed {
        name: "simba-lease",
        ours: &["simba-backend", "simba-core", "simba-memory", "simba-redis", "simba-sql"],
        outside: &["tokio", "tokio-util", "futures-core", "tracing", "thiserror", "rustix", "getrandom"],
    },
    // The command uses the public library alone, and so proves that it is enough.
    Allowed {
        name: "simba-cli",
        ours: &["simba-lease"],
        outside: &["clap", "serde", "serde_json", "toml", "jiff", "tokio", "rustix", "signal-hook"],
    },
    Allowed { name: "simba-sim", ours: &["simba-backend", "simba-core", "simba-memory"], outside: &[] },
    Allowed {
        name: "simba-bench",
        ours: &["simba-backend", "simba-core", "simba-services", "simba-sql", "simba-lease"],
        outside: &["rustix", "stats_alloc", "tempfile", "tokio"],
    },
    Allowed { name: "simba-proxy", ours: &[], outside: &["tokio"] },
    Allowed {
        name: "simba-services",
        ours: &[],
        outside: &["rcgen", "rustix", "serde", "serde_json", "tempfile"],
    },
    Allowed { name: "xtask", ours: &["simba-services"], outside: &["serde_json", "tempfile"] },
];

pub(crate) fn check() -> Vec<String> {
    let output = match cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]).output() {
        Ok(output) => output,
        Err(error) => return vec![format!("cargo metadata cannot be run: {error}")],
    };
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(metadata) => judge(&metadata, &|path| std::fs::read_to_string(path).unwrap_or_default()),
        Err(error) => vec![format!("cargo metadata cannot be read: {error}")],
    }
}

fn judge(metadata: &Value, read: &dyn Fn(&str) -> String) -> Vec<String> {
    let mut faults = Vec::new();
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let table: BTreeMap<_, _> = TABLE.iter().map(|row| (row.name, row)).collect();
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(row) = table.get(name) else {
            faults.push(format!(
                "{name} is not in the dependency table; add it in internal/xtask/src/tidy/crates.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Tests of a crate may use what they need.
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            let on = dependency["name"].as_str().unwrap_or_default();
            let allowed = if names.contains(&on) { row.ours } else { row.outside };
            if !allowed.contains(&on) {
                faults.push(format!("{name} may not depend on {on}: {}", reason(name)));
            }
            let features = dependency["features"].as_array().into_iter().flatten();
            let planted = features.filter_map(Value::as_str).any(|feature| feature == "planted");
            if planted && !name.ends_with("-sim") {
                faults.push(format!("{name} switches planted bugs of {on} on, in a product"));
            }
        }
        if ["simba-backend", "simba-core"].contains(&name) {
            let lib = read(&format!("crates/{name}/src/lib.rs"));
            if !lib.contains("#![no_std]") {
                faults.push(format!("{name} must be no_std: its purity is what the compiler then checks"));
            }
            if lib.contains("extern crate std") && !lib.contains("#[cfg(test)]\nextern crate std") {
                faults.push(format!("{name} may link std in tests only"));
            }
        }
    }
    faults
}

fn reason(name: &str) -> &'static str {
    match name {
        "simba-backend" | "simba-core" => {
            "it has no dependencies, so that it can reach no clock, thread or socket"
        }
        "simba-cli" => "it uses the public library alone; what it lacks is missing there",
        _ => "add it to the table in internal/xtask/src/tidy/crates.rs with a reason, if it is worth it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: Value) -> Value {
        serde_json::json!({ "packages": [{ "name": name, "dependencies": dependencies }] })
    }

    #[test]
    fn each_check_can_fail() {
        let pure = |_: &str| "#![no_std]\n#[cfg(test)]\nextern crate std;\n".to_owned();
        let dependency = |name: &str| serde_json::json!([{ "name": name, "kind": null, "features": [] }]);
        let faults = |metadata: &Value| judge(metadata, &pure).join("; ");
        assert_eq!(
            faults(&package("simba-core", dependency("simba-backend"))),
            "simba-core may not depend on \
             simba-backend: it has no dependencies, so that it can reach no clock, thread or socket",
            "outside the workspace, a crate of this name is not ours"
        );
        assert!(faults(&package("simba-core", dependency("rand"))).contains("may not depend on rand"));
        assert!(faults(&package("new", dependency("rand"))).contains("not in the dependency table"));
        let planted = serde_json::json!([{ "name": "tokio", "kind": null, "features": ["planted"] }]);
        assert!(faults(&package("simba-lease", planted)).contains("planted bugs"));
        let std = |_: &str| "extern crate std;\n".to_owned();
        let core = package("simba-core", serde_json::json!([]));
        assert!(judge(&core, &std).join("; ").contains("must be no_std"));
        assert!(judge(&core, &std).join("; ").contains("in tests only"));
        let dev = serde_json::json!([{ "name": "proptest", "kind": "dev", "features": [] }]);
        assert_eq!(faults(&package("simba-core", dev)), "");
    }
}
