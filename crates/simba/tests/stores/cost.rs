//! What a keep-alive costs on the wire: the same for one lease and for a thousand.

use crate::machine::{now, on_an_idle_machine, within};
use crate::stage::Server;
use crate::support::secs;
use simba::{Event, Simba, Timing};
use simba_proxy::{Counts, Proxy};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many periods are counted.
const PERIODS: u64 = 4;

/// What `PERIODS` keep-alives of a node cost that holds so many leases.
fn cost<S: Server>(server: &S, leases: usize) -> Result<Counts, String> {
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
    // The connection that listens asks for a sign of life now and then, and would be counted.
    let url = format!("{}{}", server.url_at(proxy.addr().port()), S::SILENT);
    let renewed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&renewed);
    let simba = Simba::builder_from_url(&url)
        .unwrap()
        .timing(Timing::builder().lease(secs(3)).renew(secs(1)).build().unwrap())
        .on_event(move |event| {
            if matches!(event, Event::Renewed { .. }) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        })
        .build()
        .unwrap();
    let name = |n| format!("cost-{leases}-{n}");
    let elections: Vec<_> = (0..leases).map(|n| simba.election(&name(n)).unwrap().start().unwrap()).collect();
    within(secs(20), "all are led", || elections.iter().all(crate::crowd::leads))?;
    let until = |wanted: u64| {
        within(secs(20), "a keep-alive", || renewed.load(Ordering::SeqCst) >= wanted)?;
        Ok::<_, String>(proxy.counts())
    };
    // The first ones after a change may carry what has changed.
    let first = renewed.load(Ordering::SeqCst) + 3;
    let before = until(first)?;
    let after = until(first + PERIODS)?;
    let from = now();
    let closed = simba.close();
    within(secs(20), "closed", || closed.is_complete())?;
    eprintln!("{leases} leases: {:?}; closed in {:?}", after.since(&before), now().saturating_since(from));
    Ok(after.since(&before))
}

fn is_flat<S: Server>() {
    on_an_idle_machine(|| {
        let server = S::start();
        let (one, many) = (cost(&server, 1)?, cost(&server, 1_000)?);
        // The event and the count are not taken at one instant: a keep-alive may slip in at either end.
        let flat = |one: u64, many: u64| one.abs_diff(many) * 20 <= one;
        if one.calls == PERIODS && many.calls == PERIODS && one.connections == 0 && many.connections == 0 {
            // Decimal numbers differ by a digit or two.
            assert!(flat(one.to_server, many.to_server), "{one:?} {many:?}");
            assert!(flat(one.to_client, many.to_client), "{one:?} {many:?}");
            return Ok(());
        }
        Err(format!("not one call a period: {one:?} {many:?}"))
    });
}

#[cfg(feature = "redis")]
#[test]
fn a_keep_alive_on_redis_costs_the_same_for_a_thousand_leases() {
    is_flat::<crate::stage::Redis>();
}

#[cfg(feature = "postgres")]
#[test]
fn a_keep_alive_on_postgres_costs_the_same_for_a_thousand_leases() {
    is_flat::<crate::stage::Postgres>();
}

#[cfg(feature = "mysql")]
#[test]
fn a_keep_alive_on_mariadb_costs_the_same_for_a_thousand_leases() {
    is_flat::<crate::stage::MariaDb>();
}
