//! The conformance suite against MariaDB: plain, in a namespace, over restarts; and with bugs in the procedures, each of
//! which a case must catch.

#[path = "mysql/stage.rs"]
mod stage;

use std::process::ExitCode;

use simba_tck::{
    backend::{Store, judge_only, left_out, run},
    failed,
};
use stage::{Ground, Stage};

/// A text of the schema as it should be, and as it is with a bug.
type Edit = (&'static str, &'static str);

/// Bugs: the name, the edits, and the case that catches it.
const PLANTED: &[(&str, &[Edit], &str)] = &[
    (
        "M12 an expired session is renewed",
        &[(
            "    if p_expires_us <= cast(unix_timestamp(sysdate(6)) * 1000000 as signed) then",
            "    if false then",
        )],
        "C2_an_expired_session_is_never_revived",
    ),
    (
        "M13 the dead row is kept",
        &[("                delete from simba_session where id = v_holder;\n", "")],
        "C2_a_clock_that_steps_back_revives_nothing",
    ),
    (
        "M16 an expired session acquires",
        &[(
            "    if v_version is null then\n        select v_version, v_version;\n    else",
            "    set v_version = coalesce(v_version, 0), v_expires_us = 9223372036854775807;\n    if false then\n        \
             select 1;\n    else",
        )],
        "C3_an_expired_session_gets_nothing",
    ),
    (
        "M23 released without the token",
        &[("where l.token = g.token and l.session", "where l.session")],
        "C4_a_release_with_another_token_frees_nothing",
    ),
    (
        "M24 released without the session",
        &[("where l.token = g.token and l.session = p_session", "where l.token = g.token")],
        "C4_a_release_by_another_session_frees_nothing",
    ),
    (
        "M26 the token is not raised",
        &[("set token = token + 1, session = p_session", "set session = p_session")],
        "C6_tokens_rise_over_release_expiry_and_close",
    ),
    (
        "M27 a close deletes the leases",
        &[(
            "    delete from simba_session where id = p_session;\n    select v_version is not null;",
            "    delete from simba_lease where session = p_session;\n    select v_version is not null;",
        )],
        "C6_tokens_rise_over_release_expiry_and_close",
    ),
    (
        "M28 the token is raised for its own owner",
        &[
            (
                "        where not (l.session <=> p_session) and (s.id is null or",
                "        where (s.id = p_session or",
            ),
            ("and not (v_holder <=> p_session) then", "then set v_holder = nullif(v_holder, p_session);"),
        ],
        "C7_acquiring_again_answers_the_same_token",
    ),
    (
        "the call does not count",
        &[("update simba_session set version = v_version + v_won where id = p_session;", "do 1;")],
        "C8_each_lease_is_one_step",
    ),
    (
        "M55 names are folded",
        &[(
            "    name        varchar(257) character set ascii collate ascii_bin primary key",
            "    name        varchar(257) character set ascii collate ascii_general_ci primary key",
        )],
        "C9_names_are_compared_byte_for_byte",
    ),
    (
        "a forced release hits any term",
        &[("elseif v_token = p_token then", "elseif true then")],
        "C13_a_forced_release_hits_no_other_term",
    ),
];

type Boxed = Box<dyn Store>;

fn plain(stage: Stage) -> Boxed {
    Box::new(stage)
}

fn planted() -> bool {
    let mut blind = 0;
    for (bug, edits, case) in PLANTED {
        let ground = Ground::new(|mut sql| {
            for (right, wrong) in *edits {
                assert!(sql.contains(right), "{bug}: the schema has no {right:?}");
                sql = sql.replacen(right, wrong, 1);
            }
            sql
        });
        let found = failed(&judge_only(|| plain(ground.stage(|config| config)), |name| name == *case));
        let caught = found == [*case];
        eprintln!("planted {bug}: {}", if caught { "caught" } else { "NOT CAUGHT" });
        blind += u32::from(!caught);
    }
    blind == 0
}

fn main() -> ExitCode {
    let ground = Ground::new(|sql| sql);
    let (one, two) = (ground.clone(), ground.clone());
    let namespace = "staging".parse::<simba_backend::Namespace>().expect("a namespace");
    let restarting = || plain(Ground::new(|sql| sql).stage(|config| config).restarting());
    let left_out = left_out(|| plain(ground.stage(|config| config)));
    let all = [
        run(move || plain(one.stage(|config| config))),
        run(move || plain(two.stage(|config| config.namespace(namespace.clone())))),
    ];
    let judged = judge_only(restarting, |name| left_out.contains(&name));
    eprintln!("over restarts: {} cases, failed: {:?}", judged.len(), failed(&judged));
    let whole = judged.len() >= 2 && failed(&judged).is_empty();
    if planted() && whole && all.iter().all(|code| *code == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
