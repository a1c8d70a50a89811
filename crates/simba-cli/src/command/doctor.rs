//! `simba doctor`: what the store can do, and what weakens it.

use std::process::ExitCode;

use simba::backend::{Examination, Finding, Level, Survives, TokenPromise};

use crate::{
    args::DoctorArgs,
    exit::{Exit, NO, UNAVAILABLE},
    output::{self, Format},
    settings::Settings,
    store::{self, Open},
};

pub(crate) fn doctor(settings: &Settings, args: &DoctorArgs, format: Format) -> Result<ExitCode, Exit> {
    let store = store::open(settings, Open::Existing)?;
    let examined = store::block_on(async { Ok(store.examine(settings.connect_timeout).await) })?;
    let worst = examined.worst();
    let Examination { findings, tokens } = examined;
    match format {
        Format::Json => {
            let list: Vec<_> = findings
                .iter()
                .map(|f| serde_json::json!({ "level": word(f.level), "text": f.text, "advice": f.advice }))
                .collect();
            let tokens = tokens.as_ref().map(|promise| {
                let TokenPromise { survives, reason, advice } = promise;
                serde_json::json!({ "survives": grade(*survives), "reason": reason, "advice": advice })
            });
            output::json(&serde_json::json!({ "v": 1, "findings": list, "tokens": tokens }));
        }
        Format::Text => {
            findings.iter().for_each(print);
            if let Some(promise) = &tokens {
                print_promise(promise);
            }
        }
    }
    Ok(match worst {
        Level::Fail => ExitCode::from(UNAVAILABLE),
        Level::Warn if args.strict => ExitCode::from(NO),
        Level::Warn | Level::Note | Level::Ok => ExitCode::SUCCESS,
    })
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Note => "note",
        Level::Warn => "warn",
        Level::Fail => "fail",
    }
}

const fn grade(survives: Survives) -> &'static str {
    match survives {
        Survives::WhileItRuns => "while-it-runs",
        Survives::Crash => "crash",
        Survives::Failover => "failover",
    }
}

fn print_promise(promise: &TokenPromise) {
    let (level, what) = match promise.survives {
        Survives::WhileItRuns => (Level::Warn, "fencing tokens hold only while the store runs"),
        Survives::Crash => (Level::Ok, "fencing tokens survive a crash of the store"),
        Survives::Failover => (Level::Ok, "fencing tokens survive a failover of the store"),
    };
    let (text, advice) = (format!("{what}: {}", promise.reason), promise.advice.clone());
    print(&Finding { level, text, advice });
}

fn print(finding: &Finding) {
    output::line(format!("{:4}  {}", word(finding.level), finding.text));
    if !finding.advice.is_empty() {
        output::line(format!("      -> {}", finding.advice));
    }
}
