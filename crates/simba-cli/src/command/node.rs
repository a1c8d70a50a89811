//! `simba __node`: a node of the demo and of the tests. It contends for one lease, writes to a fenced ledger while
//! it leads, and records what happens, a JSON line each, with the boot-time clock.
//!
//! After its term has ended it goes on writing with the old token for a moment, as work does that does not know:
//! the ledger must refuse that.

use std::{path::Path, process::ExitCode, time::Duration};

use simba::{
    Event, FencingToken, Simba, Term, TermEvent,
    sqlite::{
        fence::{FencedTable, Written},
        rusqlite::Connection,
    },
};

use crate::{
    args::NodeArgs,
    command::{demo::PARENT, watch::stop_signal},
    exit::{Exit, INTERNAL},
    history::{Record, What},
    output,
    settings::Settings,
    store,
};

/// How often a leader reads its term and writes a batch.
const STEP: Duration = Duration::from_millis(5);
/// A gap between two reads that is longer than this was a pause.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn node(settings: &Settings, args: NodeArgs) -> Result<ExitCode, Exit> {
    die_with_parent()?;
    store::block_on(async {
        let client = store::client(settings).await?;
        let ledger = args.ledger.as_deref().map(Ledger::open).transpose()?;
        let mut node = Node { client: client.clone(), ledger, zombie: None };
        node.record(What::Ready);
        let led = node.lead(args.name.as_str()).await;
        client.close().await;
        led?;
        node.record(What::Stopped);
        Ok(ExitCode::SUCCESS)
    })
}

/// A node of the demo does not outlive the demo, however that ends.
fn die_with_parent() -> Result<(), Exit> {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok()) else {
        return Ok(());
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(std::io::Error::from)?;
    let present = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if present == Some(parent) { Ok(()) } else { Err(Exit::new(INTERNAL, "the demo has ended already")) }
}

struct Node {
    client: Simba,
    ledger: Option<Ledger>,
    /// The last term that ended, whose token is tried once more.
    zombie: Option<FencingToken>,
}

/// A term, and the last reading of its deadline.
struct Leading {
    term: Term,
    last_read_ns: u64,
    deadline_ns: u64,
    found_invalid: bool,
    steps: u64,
}

impl Node {
    fn record(&self, what: What) {
        self.record_at(self.client.now().as_nanos(), what);
    }

    fn record_at(&self, at_ns: u64, what: What) {
        output::json(&Record { at_ns, pid: std::process::id(), what });
    }

    async fn lead(&mut self, name: &str) -> Result<(), Exit> {
        let mut events = self.client.events();
        let election = self.client.election(name)?.start()?;
        let mut terms = election.terms();
        let mut stop = std::pin::pin!(stop_signal()?);
        let mut tick = tokio::time::interval(STEP);
        let mut leading: Option<Leading> = None;
        let mut told_candidate = false;
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                event = terms.next() => match event {
                    Some(TermEvent::Elected(term)) => leading = Some(self.elected(term)),
                    Some(TermEvent::Revoked { term, reason }) => {
                        self.revoked(&term, reason.as_str(), leading.take());
                    }
                    Some(_) => {}
                    None => return Ok(()),
                },
                event = events.next(), if !told_candidate => {
                    if matches!(event, Some(Event::Refused { .. })) {
                        told_candidate = true;
                        self.record(What::Candidate);
                    }
                }
                _ = tick.tick() => match &mut leading {
                    Some(leading) => self.step(leading)?,
                    None => self.zombie_write()?,
                },
            }
        }
        election.stop().await;
        while let Some(event) = terms.next().await {
            if let TermEvent::Revoked { term, reason } = event {
                self.revoked(&term, reason.as_str(), leading.take());
            }
        }
        Ok(())
    }

    fn elected(&mut self, term: Term) -> Leading {
        self.zombie = None;
        let now = self.client.now().as_nanos();
        self.record_at(now, What::Elected { token: term.token().get() });
        let deadline_ns = term.deadline().map_or(now, |d| d.as_nanos());
        Leading { term, last_read_ns: now, deadline_ns, found_invalid: false, steps: 0 }
    }

    /// One read of the term, and one write. The time of the read is taken before it.
    fn step(&mut self, leading: &mut Leading) -> Result<(), Exit> {
        let token = leading.term.token();
        let now = self.client.now().as_nanos();
        if leading.term.is_valid() {
            self.record_at(now, What::Valid { token: token.get() });
            leading.deadline_ns = leading.term.deadline().map_or(leading.deadline_ns, |d| d.as_nanos());
        } else if !leading.found_invalid {
            leading.found_invalid = true;
            self.invalid(leading, now);
        }
        leading.last_read_ns = now;
        leading.steps += 1;
        // Not at every step: the demo freezes this process at some instant, and most of them must lie outside a
        // transaction.
        if leading.found_invalid || leading.steps.is_multiple_of(5) { self.write(token) } else { Ok(()) }
    }

    fn invalid(&self, leading: &Leading, now: u64) {
        let token = leading.term.token().get();
        let late_ms = now.saturating_sub(leading.deadline_ns) / 1_000_000;
        self.record_at(now, What::Invalid { token, late_ms });
    }

    fn revoked(&mut self, term: &Term, reason: &str, leading: Option<Leading>) {
        let now = self.client.now().as_nanos();
        // After a pause the end may be told before the next step comes: the first read is recorded all the same.
        if let Some(leading) = leading.filter(|l| !l.found_invalid)
            && Duration::from_nanos(now.saturating_sub(leading.last_read_ns)) > PAUSE
            && !term.is_valid()
        {
            self.invalid(&leading, now);
        }
        self.record_at(now, What::Revoked { token: term.token().get(), reason: reason.to_owned() });
        if reason != "stopped" {
            self.zombie = Some(term.token());
        }
    }

    fn zombie_write(&mut self) -> Result<(), Exit> {
        match self.zombie.take() {
            Some(token) => self.write(token),
            None => Ok(()),
        }
    }

    fn write(&mut self, token: FencingToken) -> Result<(), Exit> {
        let Some(ledger) = &mut self.ledger else { return Ok(()) };
        let written = ledger.write(token)?;
        let batch = ledger.batch;
        match written {
            Written::Accepted if batch.is_multiple_of(20) || batch == 1 => {
                self.record(What::Wrote { token: token.get(), batch });
            }
            Written::Accepted => {}
            Written::Stale { highest } => {
                self.record(What::Rejected { token: token.get(), highest: highest.get() });
            }
        }
        Ok(())
    }
}

/// The resource: one row that takes a write only with the highest token it has seen, or a higher one.
pub(crate) struct Ledger {
    db: Connection,
    table: FencedTable,
    batch: u64,
}

impl Ledger {
    /// Makes the ledger, before any node opens it.
    pub(crate) fn create(path: &Path) -> Result<(), Exit> {
        let made = Connection::open(path).and_then(|db| {
            db.execute_batch(
                "pragma journal_mode = wal;
                 create table ledger (id text primary key, last_batch integer, fencing_token integer);
                 insert into ledger (id) values ('main');",
            )
        });
        made.map_err(|error| Exit::new(INTERNAL, format!("{}: {error}", path.display())))
    }

    fn open(path: &Path) -> Result<Self, Exit> {
        let fail =
            |error: &dyn std::fmt::Display| Exit::new(INTERNAL, format!("{}: {error}", path.display()));
        let db = Connection::open(path).map_err(|error| fail(&error))?;
        db.busy_timeout(Duration::from_secs(10)).map_err(|error| fail(&error))?;
        db.execute_batch("pragma synchronous = normal").map_err(|error| fail(&error))?;
        Ok(Self { db, table: FencedTable::new("ledger", "id"), batch: 0 })
    }

    fn write(&mut self, token: FencingToken) -> Result<Written, Exit> {
        let batch = self.batch + 1;
        let number = i64::try_from(batch).unwrap_or(i64::MAX);
        let written = self
            .table
            .write(&self.db, &"main", token, &[("last_batch", &number)])
            .map_err(|error| Exit::new(INTERNAL, format!("the ledger failed: {error}")))?;
        if written == Written::Accepted {
            self.batch = batch;
        }
        Ok(written)
    }
}
