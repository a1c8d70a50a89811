//! One connection, used by one call at a time.
//!
//! The connection is taken out of its place for the time of a call, and put back only when the call has finished. A call
//! that is dropped or runs into its limit takes the connection with it: a late answer can never be taken for that of the
//! next call, and a server that is cut off is looked for anew. What the lost call still does on the server ends with its
//! lock wait, which is no longer than the limit was.

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use simba_backend::{Effect, Failure, FailureKind};
use tokio::{sync::Mutex, task::JoinHandle, time::Instant};
use tokio_postgres::{AsyncMessage, Client, Error, SimpleQueryMessage, Socket, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    config::PostgresConfig,
    failure::{before, during, timed_out},
    schema,
};

/// How connections are made.
pub(crate) struct Dialer {
    pub(crate) config: PostgresConfig,
    tls: MakeRustlsConnect,
    /// Whether a pooler was found: it takes no settings of a connection, and nobody can listen behind it.
    pooled: AtomicBool,
}

/// The end of a call.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// A connection that ends when this is dropped.
pub(crate) struct Link {
    pub(crate) client: Arc<Client>,
    driver: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A client, and the wire under it, which nobody drives yet.
pub(crate) struct Dialled {
    client: Client,
    wire: tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>,
}

impl Dialled {
    /// Has the wire driven. What is notified goes to `told`.
    pub(crate) fn driven(self, mut told: impl FnMut(String) + Send + 'static) -> Link {
        let Self { client, mut wire } = self;
        let driver = tokio::spawn(async move {
            // What ended the connection is told to the call that is under way.
            while let Some(Ok(message)) = poll_fn(|context| wire.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    told(notification.payload().to_owned());
                }
            }
        });
        Link { client: Arc::new(client), driver }
    }
}

/// Each transaction of a direct connection is read committed, whatever the role's default; a pooler refuses to hear of it.
const OPTIONS: &str = r"-c default_transaction_isolation=read\ committed";

impl Dialer {
    pub(crate) fn new(config: PostgresConfig) -> Result<Self, Failure> {
        let tls = MakeRustlsConnect::new(tls(&config)?);
        Ok(Self { config, tls, pooled: AtomicBool::new(false) })
    }

    pub(crate) fn pooled(&self) -> bool {
        self.pooled.load(Ordering::Relaxed)
    }

    /// A connection to the server that takes writes, and what drives it.
    pub(crate) async fn dial(&self, deadline: Deadline) -> Result<Dialled, Failure> {
        if !self.pooled() {
            match self.dial_with(Some(OPTIONS), deadline).await? {
                Ok(dialled) => return Ok(dialled),
                Err(error) if refuses_options(&error) => self.pooled.store(true, Ordering::Relaxed),
                Err(error) => return Err(self.undialled(&error)),
            }
        }
        self.dial_with(None, deadline).await?.map_err(|error| self.undialled(&error))
    }

    async fn dial_with(
        &self,
        options: Option<&str>,
        deadline: Deadline,
    ) -> Result<Result<Dialled, Error>, Failure> {
        let mut server = self.config.server.clone();
        // Each host gets an equal part of the time, so that one that hangs does not use up all of it.
        let hosts = u32::try_from(server.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        server.connect_timeout((deadline.left() / hosts).max(Duration::from_millis(1)));
        if let Some(options) = options {
            server.options(options);
        }
        let dialled = tokio::time::timeout_at(deadline.0, server.connect(self.tls.clone())).await;
        let dialled = dialled.map_err(|_| timed_out(&self.config, Effect::None))?;
        Ok(dialled.map(|(client, wire)| Dialled { client, wire }))
    }

    fn undialled(&self, error: &Error) -> Failure {
        let failure = before(&self.config, error);
        // No host takes writes: the driver says so as an error of the connection.
        if failure.message.contains("does not allow writes") {
            return Failure { kind: FailureKind::Busy, ..failure };
        }
        failure
    }

    /// A connection that has shown that the functions are there, and are those of this version.
    async fn link(&self, create: bool, deadline: Deadline) -> Result<Link, Failure> {
        let link = self.dial(deadline).await?.driven(drop);
        let asked = tokio::time::timeout_at(deadline.0, version(&link.client)).await;
        match asked.map_err(|_| timed_out(&self.config, Effect::None))? {
            Ok(Some(found)) => self.check(found)?,
            Ok(None) if create => {
                let applied = tokio::time::timeout_at(deadline.0, apply(&link.client)).await;
                let applied = applied.map_err(|_| timed_out(&self.config, Effect::None))?;
                self.check(applied.map_err(|error| before(&self.config, &error))?)?;
            }
            Ok(None) => {
                let text = format!(
                    "{}: the tables of Simba are missing; run `simba schema apply`, or look at the user's search_path",
                    self.config.shown()
                );
                return Err(Failure::new(FailureKind::Unsuitable, Effect::None, text));
            }
            Err(error) => return Err(before(&self.config, &error)),
        }
        Ok(link)
    }

    fn check(&self, found: u32) -> Result<(), Failure> {
        if found == schema::VERSION {
            return Ok(());
        }
        let text = format!(
            "{}: the tables are of version {found}, and this program needs version {}; use a program of that version, or \
             another schema in the search_path",
            self.config.shown(),
            schema::VERSION
        );
        Err(Failure::new(FailureKind::Unsuitable, Effect::None, text))
    }
}

fn refuses_options(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| error.message().contains("startup parameter"))
}

/// The version of the functions, or `None` if there are none.
pub(crate) async fn version(client: &Client) -> Result<Option<u32>, Error> {
    match client.query_typed("select simba_version()", &[]).await {
        Ok(rows) => {
            let found: Option<i32> = rows.first().map(|row| row.try_get(0)).transpose()?;
            Ok(found.and_then(|found| u32::try_from(found).ok()))
        }
        Err(error) if error.code() == Some(&tokio_postgres::error::SqlState::UNDEFINED_FUNCTION) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the tables and functions, unless somebody else has; answers their version, 0 for none.
pub(crate) async fn apply(client: &Client) -> Result<u32, Error> {
    let _messages: Vec<SimpleQueryMessage> = client.simple_query(&schema::apply()).await?;
    Ok(version(client).await?.unwrap_or(0))
}

fn tls(config: &PostgresConfig) -> Result<ClientConfig, Failure> {
    let unfit = |text: String| Failure::new(FailureKind::Unsuitable, Effect::None, text);
    let mut roots = RootCertStore::empty();
    if let Some(path) = &config.ca {
        let refused = |error: &dyn std::fmt::Display| {
            unfit(format!("the file of sslrootcert, {}, cannot be used: {error}", path.display()))
        };
        let found = CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))?;
        for certificate in found {
            roots.add(certificate.map_err(|error| refused(&error))?).map_err(|error| refused(&error))?;
        }
        if roots.is_empty() {
            return Err(refused(&"it holds no certificate"));
        }
    } else if config.tls() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(unfit("this system has no certificates to trust; name a file by sslrootcert".into()));
        }
    }
    // The provider is named, since a program may have none, or several.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(format!("TLS cannot be set up: {error}")))
        .map(|builder| builder.with_root_certificates(roots).with_no_client_auth())
}

/// A place for a connection.
pub(crate) struct Place {
    pub(crate) dialer: Arc<Dialer>,
    link: Mutex<Option<Link>>,
}

impl Place {
    pub(crate) fn new(dialer: &Arc<Dialer>) -> Self {
        Self { dialer: Arc::clone(dialer), link: Mutex::new(None) }
    }

    /// Has `act` done on the connection, within `limit`. `create` tells whether missing tables are made for it.
    pub(crate) async fn call<T, F>(
        &self,
        create: bool,
        limit: Duration,
        act: impl FnOnce(Arc<Client>) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>> + Send,
        T: Send,
    {
        let config = &self.dialer.config;
        let deadline = Deadline::after(limit);
        let Ok(mut place) = tokio::time::timeout_at(deadline.0, self.link.lock()).await else {
            return Err(timed_out(config, Effect::None));
        };
        // One that has ended meanwhile is found out before anything is sent.
        let link = match place.take().filter(|link| !link.client.is_closed()) {
            Some(link) => link,
            None => self.dialer.link(create, deadline).await?,
        };
        match tokio::time::timeout_at(deadline.0, act(Arc::clone(&link.client))).await {
            Ok(Ok(answer)) => {
                *place = Some(link);
                Ok(answer)
            }
            Ok(Err(error)) => {
                // The server has answered, and the connection is as good as before.
                if error.as_db_error().is_some() && !link.client.is_closed() && stays(&error) {
                    *place = Some(link);
                }
                Err(during(config, &error))
            }
            Err(_) => Err(timed_out(config, Effect::Unknown)),
        }
    }
}

/// After some errors the server is no longer the right one, or its functions have been changed.
fn stays(error: &Error) -> bool {
    let code = error.code().map_or("", |code| code.code());
    code != "25006" && !code.starts_with("57") && !code.starts_with("42")
}
