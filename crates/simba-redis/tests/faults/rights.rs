//! Users, rights, passwords, certificates.

use simba_backend::{Backend, Effect, FailureKind, Forced, Hint, InspectQuery, Level};
use simba_redis::{RedisBackend, RedisConfig};
use simba_services::{Certificates, Cluster, Redis, free_port};

use crate::rig::{LEASE, Node, PLENTY, Watcher, name, open, owner, store, wait};

/// A password that must be seen nowhere.
const CANARY: &str = "canary-5e1f9c";

fn no_canary(text: &str) {
    assert!(!text.contains("canary"), "a password is shown: {text}");
}

/// Makes the user with the rights that the store itself says it needs.
fn least_rights(server: &Redis, grants: &str) {
    let commands = grants.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for command in commands {
        let words: Vec<String> =
            command.split_whitespace().map(|word| word.replace("PASSWORD", CANARY)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(server.cli(&words), "OK", "{command}");
    }
}

/// Every call of the contract.
fn uses_everything(url: &str) {
    let node = open(url);
    let watcher = Watcher::start(node.store.clone());
    watcher.waits_for(&Hint::Missed, "at first");
    let token = node.take("a", PLENTY).unwrap();
    node.keep_alive(PLENTY).unwrap();
    let other = Node::open(node.store.clone()).unwrap();
    assert_eq!(other.take("a", PLENTY), Ok(0));
    node.release("a", token, PLENTY).unwrap();
    watcher.waits_for(&Hint::Freed(name("a")), "after a release");
    let next = other.take("a", PLENTY).unwrap();
    assert!(next > token);
    let query = InspectQuery { prefix: String::new(), after: None, limit: 10 };
    let page = wait(node.store.inspect(&query, PLENTY)).unwrap();
    let token = page.leases[0].token;
    let forced = wait(node.store.force_release(&name("a"), token, PLENTY)).unwrap();
    assert!(matches!(forced, Forced::Freed { .. }), "{forced:?}");
    assert_eq!(wait(node.store.evict(other.session, PLENTY)), Ok(true));
    let found = wait(node.store.examine(PLENTY));
    assert!(found.findings.iter().all(|finding| finding.level < Level::Fail), "{found:?}");
    let unread = found.findings.iter().any(|finding| finding.text.contains("cannot be read"));
    assert!(!unread, "the doctor lacks a right: {found:?}");
    no_canary(&format!("{found:?}"));
    wait(node.store.close(node.session, PLENTY)).unwrap();
}

#[test]
fn the_rights_that_the_store_asks_for_are_enough() {
    let server = Redis::start();
    let grants = store(&server.url()).schema().unwrap().grants.unwrap();
    least_rights(&server, &grants);
    let url = format!("redis://simba:{CANARY}@127.0.0.1:{}", server.port());
    uses_everything(&url);
    uses_everything(&format!("{url}?tokens=clock"));
    assert_eq!(server.cli(&["acl", "log"]), "", "nothing was refused");
    // And they are not more than that.
    let denied = server.cli(&["--user", "simba", "--pass", CANARY, "--no-auth-warning", "get", "other"]);
    assert!(denied.contains("NOPERM"), "{denied}");
}

#[test]
fn the_rights_that_the_store_asks_for_are_enough_in_a_cluster() {
    let cluster = Cluster::start();
    let grants = store(&cluster.url()).schema().unwrap().grants.unwrap();
    for server in cluster.servers() {
        least_rights(server, &grants);
    }
    let url = cluster.url().replacen("://", &format!("://simba:{CANARY}@"), 1);
    uses_everything(&url);
    for server in cluster.servers() {
        assert_eq!(server.cli(&["acl", "log"]), "", "nothing was refused");
    }
}

#[test]
fn a_user_without_the_rights_is_denied_and_nothing_is_written() {
    let server = Redis::start();
    for (user, rights) in [
        ("reader", &["~*", "&*", "+@read", "+ping"][..]),
        ("scriptless", &["~*", "&*", "+@all", "-@scripting"]),
        ("elsewhere", &["~other:*", "&*", "+@all"]),
    ] {
        let password = format!(">{CANARY}");
        let set = [&["acl", "setuser", user, "on", &password], rights].concat();
        assert_eq!(server.cli(&set), "OK");
        let url = format!("redis://{user}:{CANARY}@127.0.0.1:{}", server.port());
        let failure = wait(store(&url).open(LEASE, &owner(), PLENTY)).unwrap_err();
        assert_eq!(
            (failure.kind, failure.effect),
            (FailureKind::Denied, Effect::None),
            "{user}: {failure:?}"
        );
        no_canary(&format!("{failure:?}"));
    }
    assert_eq!(server.cli(&["dbsize"]), "0");
}

/// Since Redis 7 a new user may use no channel unless it is said. Who waits then polls; no lease is harmed.
#[test]
fn a_user_without_the_channel_has_everything_but_the_news() {
    let server = Redis::start();
    let password = format!(">{CANARY}");
    assert_eq!(
        server.cli(&["acl", "setuser", "app", "on", &password, "~simba:*", "resetchannels", "+@all"]),
        "OK"
    );
    let url = format!("redis://app:{CANARY}@127.0.0.1:{}", server.port());
    let node = open(&url);
    for token in 1..=3 {
        assert_eq!(node.take("a", PLENTY), Ok(token));
        node.release("a", token, PLENTY).unwrap();
    }
    assert_eq!(node.take("a", PLENTY), Ok(4));
    wait(node.store.close(node.session, PLENTY)).unwrap();
    let next = open(&url);
    assert_eq!(next.take("a", PLENTY), Ok(5), "the closed session blocks nobody");
    let failure = wait(node.store.watch(simba_backend::HintSink::new(|_| ())));
    assert_eq!(failure.kind, FailureKind::Denied, "{failure:?}");
    no_canary(&format!("{failure:?}"));
}

#[test]
fn a_wrong_password_is_denied_and_no_password_is_ever_shown() {
    let server = Redis::start();
    assert_eq!(server.cli(&["config", "set", "requirepass", "right"]), "OK");
    let port = server.port();
    let nobody = free_port();
    for (url, kind) in [
        (format!("redis://:{CANARY}@127.0.0.1:{port}"), FailureKind::Denied),
        (format!("redis://app:{CANARY}@127.0.0.1:{port}"), FailureKind::Denied),
        (format!("redis://127.0.0.1:{port}"), FailureKind::Denied),
        (format!("redis://:{CANARY}@127.0.0.1:{nobody}"), FailureKind::Unreachable),
        (format!("redis+sentinel://:{CANARY}@127.0.0.1:{nobody}/main"), FailureKind::Unreachable),
        (format!("redis+cluster://:{CANARY}@127.0.0.1:{nobody}"), FailureKind::Unreachable),
        (format!("redis://:{CANARY}@no-such-host.invalid:{port}"), FailureKind::Unreachable),
    ] {
        let config = RedisConfig::from_url(&url).unwrap();
        no_canary(&format!("{config:?}"));
        let store = RedisBackend::new(config).unwrap();
        no_canary(&format!("{store:?} {:?}", store.schema()));
        let failure = wait(store.open(LEASE, &owner(), PLENTY)).unwrap_err();
        assert_eq!((failure.kind, failure.effect), (kind, Effect::None), "{failure:?}");
        no_canary(&format!("{failure} {failure:?}"));
        no_canary(&format!("{:?}", wait(store.examine(PLENTY))));
        no_canary(&format!("{:?}", wait(store.watch(simba_backend::HintSink::new(|_| ())))));
    }
    for url in [
        format!("redis://:{CANARY}@h:port"),
        format!("redis://:{CANARY}@"),
        format!("redis://:{CANARY}@h?password={CANARY}"),
        format!("redis://:{CANARY}@h#x"),
        format!("redis://:{CANARY}@h/{CANARY}"),
        format!("rediss+what://:{CANARY}@h"),
        format!("valkey://:{CANARY}@h"),
        format!("redis://u:{CANARY}/x@h"),
        CANARY.to_owned(),
    ] {
        let error = RedisConfig::from_url(&url).unwrap_err();
        no_canary(&format!("{error} {error:?}"));
    }
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused() {
    let (ours, others) = (Certificates::new(), Certificates::new());
    let server = Redis::start_with_tls(&ours);
    assert_eq!(open(&server.url()).take("a", PLENTY), Ok(1));
    let port = server.port();
    for url in [
        format!("rediss://127.0.0.1:{port}"),
        format!("rediss://127.0.0.1:{port}?ca={}", others.ca().display()),
        format!("rediss://127.0.0.1:{port}?ca=/no/such/file.pem"),
        // It speaks TLS only.
        format!("redis://127.0.0.1:{port}"),
    ] {
        let failure = wait(store(&url).open(LEASE, &owner(), PLENTY)).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::Unreachable | FailureKind::Unsuitable), "{failure:?}");
    }
    assert_eq!(server.cli(&["dbsize"]).parse::<u32>(), Ok(4), "session, owned, lease, index");
}
