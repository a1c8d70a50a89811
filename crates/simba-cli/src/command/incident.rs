//! `simba force-release` and `simba evict`: what a person does about somebody else's lease.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use simba::Forced;

use crate::{
    args::{EvictArgs, ForceReleaseArgs},
    exit::{Exit, NO, USAGE},
    output::{self, Format},
    settings::Settings,
    store,
};

pub(crate) fn force_release(
    settings: &Settings,
    args: &ForceReleaseArgs,
    format: Format,
) -> Result<ExitCode, Exit> {
    let (name, token) = (&args.name, args.token);
    let what = format!(
        "free {name}, which is held with token {token}? Its owner may go on until its next keep-alive; only a resource \
         that checks the token is safe from it"
    );
    confirm(args.yes, &what)?;
    let inspector = store::inspector(settings)?;
    let forced = store::block_on(async { Ok(inspector.force_release(name.as_str(), token).await?) })?;
    if format == Format::Json {
        let (state, shown) = match forced {
            Forced::Freed { token } => ("freed", Some(token)),
            Forced::Other { token } => ("other-term", Some(token)),
            Forced::Free => ("free", None),
        };
        let shown = shown.map(|token| token.to_string());
        output::json(&serde_json::json!({ "v": 1, "name": name.as_str(), "result": state, "token": shown }));
    }
    match forced {
        Forced::Freed { token } => {
            output::hint(format!("{name} is free; its token was raised to {token}"));
            Ok(ExitCode::SUCCESS)
        }
        Forced::Other { token: present } => Err(Exit::new(
            NO,
            format!(
                "{name} is held with token {present}, not {token}; nothing was changed. Look again with `simba who {name}`"
            ),
        )),
        Forced::Free => Err(Exit::new(NO, format!("nobody holds {name}; nothing was changed"))),
    }
}

pub(crate) fn evict(settings: &Settings, args: &EvictArgs, format: Format) -> Result<ExitCode, Exit> {
    let session = args.session;
    confirm(args.yes, &format!("end session {session}? All its leases are free at once"))?;
    let inspector = store::inspector(settings)?;
    let lived = store::block_on(async { Ok(inspector.evict(session).await?) })?;
    if format == Format::Json {
        output::json(&serde_json::json!({ "v": 1, "session": session.to_string(), "ended": lived }));
    }
    if lived {
        output::hint(format!("session {session} is over"));
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Exit::new(
            NO,
            format!("there is no live session {session}; see `simba who NAME` for the owner's"),
        ))
    }
}

/// Asks, unless that was answered beforehand; without a terminal there is nobody to ask.
fn confirm(yes: bool, what: &str) -> Result<(), Exit> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Exit::new(USAGE, "there is no terminal to ask on; use --yes to do it without asking"));
    }
    let mut err = std::io::stderr();
    drop(write!(err, "{what} [y/N] ").and_then(|()| err.flush()));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Exit::new(NO, "nothing was changed"))
    }
}
