//! `simba who NAME`: one lease in full.

use std::process::ExitCode;

use simba::{HeldRecord, LeaseRecord};

use super::status::{LeaseJson, is_missing};
use crate::{
    args::{Field, WhoArgs},
    duration::{millis, show},
    exit::{Exit, NO},
    output::{self, Format},
    settings::Settings,
    store,
};

pub(crate) fn who(settings: &Settings, args: &WhoArgs, format: Format) -> Result<ExitCode, Exit> {
    let record = if is_missing(settings) {
        None
    } else {
        let inspector = store::inspector(settings)?;
        store::block_on(async { Ok(inspector.who(args.name.as_str()).await?) })?
    };
    let held = record.as_ref().and_then(|r| r.held.as_ref());
    if let Some(field) = args.field {
        if let (Some(record), Some(held)) = (&record, held) {
            output::line(show_field(field, record, held));
        }
    } else if format == Format::Json {
        match &record {
            Some(record) => output::json(&LeaseJson::from(record)),
            None => output::json(
                &serde_json::json!({ "v": 1, "name": args.name.as_str(), "state": "free", "token": null }),
            ),
        };
    } else {
        output::line(describe(args.name.as_str(), record.as_ref()));
    }
    Ok(if held.is_some() { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}

fn show_field(field: Field, record: &LeaseRecord, held: &HeldRecord) -> String {
    match field {
        Field::Owner => format!("{}/{}", held.owner.node, held.owner.pid),
        Field::Token => record.token.to_string(),
        Field::Node => held.owner.node.to_string(),
        Field::Remaining => millis(held.remaining).to_string(),
    }
}

fn describe(name: &str, record: Option<&LeaseRecord>) -> String {
    match record {
        None => format!("{name}: free, never held"),
        Some(LeaseRecord { token, held: None, .. }) => format!("{name}: free, last token {token}"),
        Some(LeaseRecord { token, held: Some(held), .. }) => format!(
            "{name}: held by {}, token {token}, for {}\n  session {}, simba {}\n  renewed {} ago; free in at most {} if the owner dies now",
            held.owner,
            show(held.held_for),
            held.session,
            held.owner.version,
            show(held.renewed_ago),
            show(held.remaining),
        ),
    }
}
