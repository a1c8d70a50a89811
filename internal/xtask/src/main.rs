//! Project automation: `cargo xtask COMMAND`.

mod services;
mod steps;
mod tidy;

use std::{env, path::PathBuf, process::ExitCode};

use steps::{Report, cargo};

const HELP: &str = "cargo xtask COMMAND

  test       everything: formatting, tidy, lints, tests, planted bugs, loom, a short simulation, docs
  ci         the same, with nothing left out (what .ci/run calls)
  tidy       the rules of this repository that no compiler checks
  sim ARGS   the simulator; without arguments at least 10,000 simulated hours
  planted    every planted bug, and which suite catches it
  services   up, down, install: private servers of every store, to try things on by hand
  contention ten processes on one file for 60 s, frozen, killed and stopped at random
  loom       the latch of the validity cell under every interleaving
  bench      the benchmarks; writes docs/benchmarks.md
  docs       the documentation, warnings as errors";

fn main() -> ExitCode {
    // Cargo runs this in any folder of the workspace; everything below counts from its root.
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Err(error) = env::set_current_dir(&root) {
        eprintln!("xtask: {}: {error}", root.display());
        return ExitCode::FAILURE;
    }
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let mut report = Report::default();
    match command.as_str() {
        "services" => return services::services(rest.first().map_or("", String::as_str)),
        "test" => everything(&mut report, false),
        "ci" => everything(&mut report, true),
        "tidy" => report.check("tidy", tidy::run),
        "sim" => report.run("simulation", simulator(if rest.is_empty() { vec!["run".into()] } else { rest })),
        "planted" => planted(&mut report),
        "contention" => {
            let mut command =
                cargo(&["test", "-q", "-p", "simba-cli", "--test", "it", "contention", "--", "--nocapture"]);
            command.env("SIMBA_CONTENTION_SECONDS", rest.first().map_or("60", String::as_str));
            report.run("contention", command);
        }
        "loom" => loom(&mut report),
        "bench" => report.run("benchmarks", cargo(&["run", "--release", "--quiet", "-p", "simba-bench"])),
        "docs" => docs(&mut report),
        _ => {
            println!("{HELP}");
            return if command == "help" || command == "--help" {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(64)
            };
        }
    }
    report.close()
}

/// From cheap to dear; a step that fails does not keep the others from running.
fn everything(report: &mut Report, required: bool) {
    let servers = simba_services::install();
    if let Err(why) = &servers {
        println!("xtask: {why}");
    }
    report.run("formatting", cargo(&["fmt", "--all", "--check"]));
    report.check("tidy", tidy::run);
    let lints =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"];
    report.run("lints", cargo(&lints));
    // Without the planted bugs, as it is shipped.
    report.run(
        "lints, shipped",
        cargo(&["clippy", "--quiet", "-p", "simba-cli", "-p", "simba-core", "--", "-D", "warnings"]),
    );
    let mut all = vec!["test", "--workspace", "--all-features", "--no-fail-fast", "--quiet"];
    if servers.is_ok() || required {
        report.run("tests", cargo(&all));
    } else {
        // Each of these packages has tests of servers only, or is tested whole once the servers are there.
        let without = ["simba-redis", "simba-services"];
        for package in without {
            all.extend(["--exclude", package]);
            report.leave_out(format!("the tests of {package}: {}", simba_services::missing().join(", ")));
        }
        report.run("tests", cargo(&all));
    }
    loom(report);
    planted(report);
    report.run("simulation", simulator(vec!["run".into(), "--hours".into(), "2000".into()]));
    docs(report);
}

fn simulator(args: Vec<String>) -> std::process::Command {
    let mut command =
        cargo(&["run", "--quiet", "--profile", "sim", "-p", "simba-sim", "--all-features", "--"]);
    command.args(args);
    command
}

fn planted(report: &mut Report) {
    report.run("planted bugs", simulator(vec!["planted".into()]));
}

fn loom(report: &mut Report) {
    let mut command = cargo(&["test", "--quiet", "-p", "simba-core", "--test", "loom", "--release"]);
    // Other flags need another folder, or every later build would begin anew.
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", "target/loom");
    report.run("loom", command);
}

fn docs(report: &mut Report) {
    let mut command = cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    report.run("documentation", command);
}
