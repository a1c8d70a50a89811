//! `simba schema`: the store's tables, for people who want to see or to make them by hand.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
};

use simba::backend::{DynBackend, Schema, SchemaState};

use crate::{
    args::SchemaCommand,
    exit::{Exit, NO, USAGE},
    output,
    settings::{Settings, without_password},
    store::{self, Open},
};

pub(crate) fn schema(settings: &Settings, what: &SchemaCommand) -> Result<ExitCode, Exit> {
    let Some(schema) = simba::store_schema(&settings.url)? else {
        output::hint("this store has no tables");
        return Ok(ExitCode::SUCCESS);
    };
    match what {
        SchemaCommand::Print => {
            output::line(schema.sql.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        SchemaCommand::Grants => {
            match &schema.grants {
                Some(grants) => {
                    output::line(grants.trim_end());
                }
                None => {
                    output::hint("this store has no users: whoever may write the file may use the leases")
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        SchemaCommand::Apply { yes } => apply(settings, &store::open(settings, Open::Create)?, &schema, *yes),
        SchemaCommand::Check => check(settings, &store::open(settings, Open::Existing)?, &schema),
    }
}

fn apply(
    settings: &Settings,
    store: &Arc<dyn DynBackend>,
    schema: &Schema,
    yes: bool,
) -> Result<ExitCode, Exit> {
    let (limit, version) = (settings.connect_timeout, schema.version);
    store::block_on(async {
        let found = store.check_schema(limit).await.map_err(|failure| Exit::from(&failure))?;
        if found == SchemaState::Present {
            output::hint(format!("the tables of version {version} are there already"));
            return Ok(ExitCode::SUCCESS);
        }
        if found == SchemaState::Missing && !yes {
            ask(settings, schema)?;
        }
        // Another version is refused here, in words.
        store.apply_schema(limit).await.map_err(|failure| Exit::from(&failure))?;
        output::hint(format!("the tables of version {version} are made"));
        Ok(ExitCode::SUCCESS)
    })
}

/// Shows what will be done, and asks; without a terminal there is nobody to ask.
fn ask(settings: &Settings, schema: &Schema) -> Result<(), Exit> {
    if !std::io::stdin().is_terminal() {
        return Err(Exit::new(
            USAGE,
            "there is no terminal to ask on; use --yes to apply the tables without asking",
        ));
    }
    output::line(schema.sql.trim_end());
    let question = format!("apply this to {}? [y/N] ", without_password(&settings.url));
    let mut err = std::io::stderr();
    drop(write!(err, "{question}").and_then(|()| err.flush()));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Exit::new(NO, "nothing was changed"))
    }
}

fn check(settings: &Settings, store: &Arc<dyn DynBackend>, schema: &Schema) -> Result<ExitCode, Exit> {
    let needed = schema.version;
    let found = store::block_on(async {
        store.check_schema(settings.connect_timeout).await.map_err(|f| Exit::from(&f))
    })?;
    match found {
        SchemaState::Present | SchemaState::NotNeeded => {
            output::line(format!("present, version {needed}"));
            Ok(ExitCode::SUCCESS)
        }
        SchemaState::Missing => Err(Exit::new(NO, "missing; make the tables with `simba schema apply`")),
        SchemaState::Other(version) => Err(Exit::new(
            NO,
            format!(
                "version {version}, and this program needs {needed}; use a program of that version, or another store"
            ),
        )),
    }
}
