//! `simba doctor`: what the store can do, and what weakens it.

use std::process::ExitCode;

use simba::sqlite::doctor::{Finding, Level};

use crate::{
    args::DoctorArgs,
    exit::{Exit, NO, UNAVAILABLE},
    output::{self, Format},
    settings::Settings,
    store::{self, Open},
};

pub(crate) fn doctor(settings: &Settings, args: &DoctorArgs, format: Format) -> Result<ExitCode, Exit> {
    let store = store::sqlite(settings, Open::Existing)?;
    let findings = store::block_on(async { Ok(store.doctor(settings.connect_timeout).await) })?;
    match format {
        Format::Json => {
            let list: Vec<_> = findings
                .iter()
                .map(|f| serde_json::json!({ "level": word(f.level), "text": f.text, "advice": f.advice }))
                .collect();
            output::json(&serde_json::json!({ "v": 1, "findings": list }));
        }
        Format::Text => findings.iter().for_each(print),
    }
    let worst = findings.iter().map(|finding| finding.level).max();
    Ok(match worst {
        Some(Level::Fail) => ExitCode::from(UNAVAILABLE),
        Some(Level::Warn) if args.strict => ExitCode::from(NO),
        _ => ExitCode::SUCCESS,
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

fn print(finding: &Finding) {
    output::line(format!("{:4}  {}", word(finding.level), finding.text));
    if !finding.advice.is_empty() {
        output::line(format!("      -> {}", finding.advice));
    }
}
