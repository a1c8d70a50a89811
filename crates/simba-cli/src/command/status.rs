//! `simba status`: the leases, in a table.

use std::process::ExitCode;

use serde::Serialize;
use simba::LeaseRecord;

use crate::{
    args::StatusArgs,
    duration::{millis, show},
    exit::Exit,
    output::{self, Format},
    settings::{Settings, without_password},
    store,
};

/// A lease in JSON. Tokens and session ids are text: a number above 2^53 is rounded by many readers.
#[derive(Debug, Serialize)]
pub(crate) struct LeaseJson {
    v: u8,
    name: String,
    state: &'static str,
    token: String,
    owner: Option<OwnerJson>,
    held_ms: Option<u64>,
    renewed_ms_ago: Option<u64>,
    remaining_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct OwnerJson {
    node: String,
    host: String,
    pid: u32,
    session: String,
    version: String,
}

impl From<&LeaseRecord> for LeaseJson {
    fn from(record: &LeaseRecord) -> Self {
        let held = record.held.as_ref();
        Self {
            v: 1,
            name: record.name.to_string(),
            state: if held.is_some() { "held" } else { "free" },
            token: record.token.to_string(),
            owner: held.map(|h| OwnerJson {
                node: h.owner.node.to_string(),
                host: h.owner.host.to_string(),
                pid: h.owner.pid,
                session: h.session.to_string(),
                version: h.owner.version.clone(),
            }),
            held_ms: held.map(|h| millis(h.held_for)),
            renewed_ms_ago: held.map(|h| millis(h.renewed_ago)),
            remaining_ms: held.map(|h| millis(h.remaining)),
        }
    }
}

/// Whether there is a store to look into: without one, there are no leases, which is an answer.
pub(crate) fn is_missing(settings: &Settings) -> bool {
    settings
        .url
        .strip_prefix("sqlite:")
        .is_some_and(|path| !std::path::Path::new(path).exists() && settings.url_is_default)
}

pub(crate) fn status(settings: &Settings, args: &StatusArgs, format: Format) -> Result<ExitCode, Exit> {
    let records = if is_missing(settings) {
        Vec::new()
    } else {
        let inspector = store::inspector(settings)?;
        store::block_on(async { Ok(inspector.leases(&args.prefix).await?) })?
    };
    let shown: Vec<&LeaseRecord> = records.iter().filter(|r| args.all || r.held.is_some()).collect();
    match format {
        Format::Json => {
            let leases: Vec<LeaseJson> = shown.into_iter().map(LeaseJson::from).collect();
            output::json(&serde_json::json!({ "v": 1, "leases": leases }));
        }
        Format::Text => print_table(settings, &shown, records.len()),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_table(settings: &Settings, shown: &[&LeaseRecord], known: usize) {
    if !shown.is_empty() {
        let rows: Vec<[String; 5]> = shown.iter().map(|record| row(record)).collect();
        let head = ["LEASE", "OWNER", "TOKEN", "HELD FOR", "LEFT"].map(str::to_owned);
        let width = |column: usize| {
            rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; 5] = std::array::from_fn(width);
        for [name, owner, token, held, left] in [&head].into_iter().chain(&rows) {
            let [a, b, c, d, _] = widths;
            output::line(format!("{name:a$}  {owner:b$}  {token:>c$}  {held:d$}  {left}").trim_end());
        }
    }
    let held = shown.iter().filter(|record| record.held.is_some()).count();
    let plural = if held == 1 { "lease is" } else { "leases are" };
    output::hint(format!("{}: {held} {plural} held, {known} names known", without_password(&settings.url)));
}

fn row(record: &LeaseRecord) -> [String; 5] {
    let (name, token) = (record.name.to_string(), record.token.to_string());
    match &record.held {
        Some(held) => {
            let owner = format!("{}/{}", held.owner.node, held.owner.pid);
            [name, owner, token, show(held.held_for), show(held.remaining)]
        }
        None => [name, "-".to_owned(), token, "-".to_owned(), "free".to_owned()],
    }
}
