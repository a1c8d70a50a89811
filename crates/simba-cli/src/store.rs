//! The store that the settings name, and the runtime that calls are made on.

use std::{future::Future, sync::Arc};

use simba::{Inspector, Simba, StoreOptions, backend::DynBackend};
use tokio::runtime::{Builder, Runtime};

use crate::{
    exit::{DENIED, Exit, INTERNAL},
    output,
    settings::Settings,
};

/// The runtime of a command: one thread, this one.
pub(crate) fn runtime() -> Result<Runtime, Exit> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Exit::new(INTERNAL, format!("no runtime can be started: {error}")))
}

/// Runs `act` to its end.
pub(crate) fn block_on<T>(act: impl Future<Output = Result<T, Exit>>) -> Result<T, Exit> {
    runtime()?.block_on(act)
}

/// How the store is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// It is made if it is not there.
    Create,
    /// It must be there.
    Existing,
}

/// The store that the settings name.
pub(crate) fn open(settings: &Settings, how: Open) -> Result<Arc<dyn DynBackend>, Exit> {
    if how == Open::Create
        && settings.url_is_default
        && let Some(path) = settings.url.strip_prefix("sqlite:")
    {
        make_folder(std::path::Path::new(path))?;
    }
    let mut options = StoreOptions::default().create(how == Open::Create);
    if let Some(namespace) = &settings.namespace {
        options = options.namespace(namespace.clone());
    }
    simba::open_store(&settings.url, &options).map_err(Exit::from)
}

/// The folder of the store that is used when nobody named one is ours to make.
fn make_folder(file: &std::path::Path) -> Result<(), Exit> {
    let Some(folder) = file.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|error| {
        let text =
            format!("the folder {} cannot be made ({error}); use --url sqlite:/path/to.db", folder.display());
        Exit::new(DENIED, text)
    })
}

/// The store, for looking at.
pub(crate) fn inspector(settings: &Settings) -> Result<Inspector, Exit> {
    Ok(Inspector::new(open(settings, Open::Existing)?).limit(settings.connect_timeout))
}

/// A client on the store, with a session that is live.
pub(crate) async fn client(settings: &Settings) -> Result<Simba, Exit> {
    if settings.url_is_default {
        output::hint(format!("using {} (this host only; choose a store with --url)", settings.url));
    }
    let store = open(settings, Open::Create)?;
    let mut builder = Simba::builder_on(store).node(settings.node.as_str()).timing(settings.timing);
    if output::is_verbose() {
        builder = builder.on_event(|event| output::note(format!("{event:?}")));
    }
    let client = builder.build()?;
    match ready(&client, settings).await {
        Ok(()) => Ok(client),
        Err(exit) => {
            client.close().await;
            Err(exit)
        }
    }
}

/// Waits for the session. What no waiting mends is told at once.
async fn ready(client: &Simba, settings: &Settings) -> Result<(), Exit> {
    use simba::{Event, backend::FailureKind};
    let mut events = client.events();
    let hopeless = async {
        while let Some(event) = events.next().await {
            if let Event::OpenFailed { failure, .. } = event
                && matches!(failure.kind, FailureKind::Denied | FailureKind::Unsuitable)
            {
                return Exit::from(&failure);
            }
        }
        Exit::new(INTERNAL, "the client has ended; this is a bug of simba, please report it")
    };
    tokio::select! {
        biased;
        ready = client.ready(settings.connect_timeout) => ready.map_err(Exit::from),
        exit = hopeless => Err(exit),
    }
}
