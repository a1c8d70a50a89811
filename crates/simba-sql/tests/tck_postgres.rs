//! The conformance suite against PostgreSQL: plain, in a namespace, through PgBouncer, over restarts; and with bugs in
//! the functions, each of which a case must catch.

#[path = "postgres/stage.rs"]
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
        &[("if own.expires_us <= simba_now() then", "if false then")],
        "C2_an_expired_session_is_never_revived",
    ),
    (
        "M13 the dead row is kept",
        &[
            (
                "        perform simba_end(ended, p_tell);\n        end loop",
                "        perform 1;\n        end loop",
            ),
            (
                "from simba_session s where s.id = l.session);",
                "from simba_session s where s.id = l.session and s.expires_us > instant);",
            ),
        ],
        "C2_a_clock_that_steps_back_revives_nothing",
    ),
    (
        "M16 an expired session acquires",
        &[(
            "    if own.id is null then\n        return;\n    end if;\n    before := own.version;\n\n",
            "    own.id := p_session;\n    own.expires_us := 9223372036854775807;\n    before := coalesce(own.version, 0);\n\n",
        )],
        "C3_an_expired_session_gets_nothing",
    ),
    (
        "M23 released without the token",
        &[("and (l.name, l.token) in (select * from unnest(p_names, p_tokens))", "")],
        "C4_a_release_with_another_token_frees_nothing",
    ),
    (
        "M24 released without the session",
        &[("and l.session is not distinct from p_session\n            and (l.name", "and (l.name")],
        "C4_a_release_by_another_session_frees_nothing",
    ),
    (
        "M26 the token is not raised",
        &[("set token = l.token + 1, session = p_session", "set session = p_session")],
        "C6_tokens_rise_over_release_expiry_and_close",
    ),
    (
        "M27 a close deletes the leases",
        &[(
            "    perform simba_end(p_session, p_tell);\n    return true;",
            "    delete from simba_lease where session = p_session;\n    perform simba_end(p_session, p_tell);\n    return true;",
        )],
        "C6_tokens_rise_over_release_expiry_and_close",
    ),
    (
        "M28 the token is raised for its own owner",
        &[
            (
                "and l.session is distinct from p_session\n            and (s.id is null or",
                "and (s.id is null or s.id = p_session or",
            ),
            (
                "from simba_session s where s.id = l.session);",
                "from simba_session s where s.id = l.session and s.id <> p_session);",
            ),
        ],
        "C7_acquiring_again_answers_the_same_token",
    ),
    (
        "the call does not count",
        &[("update simba_session set version = after where id = p_session;", "null;")],
        "C8_each_lease_is_one_step",
    ),
    (
        "M30 the triggers do not count",
        &[("insert into simba_meta", "alter table simba_lease disable trigger all;\ninsert into simba_meta")],
        "C8_a_change_by_hand_raises_the_version",
    ),
    (
        "a forced release hits any term",
        &[("freed := lease.token = p_token;", "freed := true;")],
        "C13_a_forced_release_hits_no_other_term",
    ),
    (
        "nobody is told",
        &[("perform pg_notify('simba_freed', name)", "perform pg_notify('nowhere', name)")],
        "C12_a_watch_tells_of_releases_and_closes",
    ),
];

type Boxed = Box<dyn Store>;

fn plain(stage: Stage) -> Boxed {
    Box::new(stage)
}

fn planted() -> bool {
    let mut blind = 0;
    for (bug, edits, case) in PLANTED {
        let ground = Ground::new(false, |mut sql| {
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
    let direct = Ground::new(false, |sql| sql);
    let pooled = Ground::new(true, |sql| sql);
    let (one, two, three) = (direct.clone(), direct, pooled);
    let namespace = "staging".parse::<simba_backend::Namespace>().expect("a namespace");
    let restarting = || plain(Ground::new(false, |sql| sql).stage(|config| config).restarting());
    let over_restarts = left_out({
        let one = one.clone();
        move || plain(one.stage(|config| config))
    });
    let all = [
        run(move || plain(one.stage(|config| config))),
        run(move || plain(two.stage(|config| config.namespace(namespace.clone())))),
        run(move || plain(three.stage(|config| config))),
    ];
    let judged = judge_only(restarting, |name| over_restarts.contains(&name));
    eprintln!("over restarts: {} cases, failed: {:?}", judged.len(), failed(&judged));
    let whole = judged.len() >= 2 && failed(&judged).is_empty();
    if planted() && whole && all.iter().all(|code| *code == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
