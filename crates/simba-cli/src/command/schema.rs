//! `simba schema`: the store's tables, for people who want to see or to make them by hand.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use simba::sqlite::schema::{Found, VERSION, sql};

use crate::{
    args::SchemaCommand,
    exit::{Exit, NO, USAGE},
    output,
    settings::Settings,
    store::{self, Open},
};

pub(crate) fn schema(settings: &Settings, what: &SchemaCommand) -> Result<ExitCode, Exit> {
    match what {
        SchemaCommand::Print => {
            output::line(sql().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        SchemaCommand::Apply { yes } => apply(settings, *yes),
        SchemaCommand::Check => check(settings),
    }
}

fn apply(settings: &Settings, yes: bool) -> Result<ExitCode, Exit> {
    let store = store::sqlite(settings, Open::Create)?;
    let limit = settings.connect_timeout;
    store::block_on(async {
        let found = store.check_schema(limit).await.map_err(|failure| Exit::from(&failure))?;
        if found == Found::Present {
            output::hint(format!("the tables of version {VERSION} are there already"));
            return Ok(ExitCode::SUCCESS);
        }
        if found == Found::Missing && !yes {
            ask(settings)?;
        }
        // Another version is refused here, in words.
        store.apply_schema(limit).await.map_err(|failure| Exit::from(&failure))?;
        output::hint(format!("the tables of version {VERSION} are made"));
        Ok(ExitCode::SUCCESS)
    })
}

/// Shows what will be done, and asks; without a terminal there is nobody to ask.
fn ask(settings: &Settings) -> Result<(), Exit> {
    if !std::io::stdin().is_terminal() {
        return Err(Exit::new(
            USAGE,
            "there is no terminal to ask on; use --yes to apply the tables without asking",
        ));
    }
    output::line(sql().trim_end());
    let question = format!("apply this to {}? [y/N] ", settings.url);
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

fn check(settings: &Settings) -> Result<ExitCode, Exit> {
    let store = store::sqlite(settings, Open::Existing)?;
    let found = store::block_on(async {
        store.check_schema(settings.connect_timeout).await.map_err(|f| Exit::from(&f))
    })?;
    match found {
        Found::Present => {
            output::line(format!("present, version {VERSION}"));
            Ok(ExitCode::SUCCESS)
        }
        Found::Missing => Err(Exit::new(NO, "missing; make the tables with `simba schema apply`")),
        Found::Other(version) => Err(Exit::new(
            NO,
            format!(
                "version {version}, and this program needs {VERSION}; use a program of that version, or another file"
            ),
        )),
    }
}
