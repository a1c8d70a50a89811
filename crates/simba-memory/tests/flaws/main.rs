//! No case of the suite is there for nothing: for each there is a flaw that it catches.
#![cfg(feature = "planted")]

mod bent;

use std::thread;

use bent::{Fault, Stage};
use simba_memory::Planted;
use simba_tck::backend::{judge, judge_only, left_out, names};

enum Flaw {
    Bent(Fault),
    Planted(Planted),
}
use Flaw::{Bent, Planted as In};

/// Every case, with a flaw that is the case's own concern.
const FLAWS: &[(&str, Flaw)] = &[
    ("C1_remaining_is_never_more_than_granted", In(Planted::M05RemainingRoundedUp)),
    ("C1_a_session_lives_at_least_as_long_as_was_promised", Bent(Fault::ShortLease)),
    ("C1_a_session_ends_when_it_is_not_renewed", In(Planted::M12RenewsExpired)),
    ("C1_a_renewal_counts_from_the_renewal", Bent(Fault::RenewsNothing)),
    ("C1_leases_of_all_lengths", In(Planted::M05RemainingRoundedUp)),
    ("C1_a_session_lives_for_all_of_what_remains", Bent(Fault::ShortByAMoment)),
    ("C2_an_expired_session_is_never_revived", In(Planted::M12RenewsExpired)),
    ("C2_an_expired_session_stays_dead_after_its_lease_was_taken_and_freed", Bent(Fault::RenewsNothing)),
    ("C2_a_clock_that_steps_back_revives_nothing", Bent(Fault::RevivedByTheClock)),
    ("C2_ids_are_never_used_again", In(Planted::M15SessionIdReused)),
    ("C2_a_session_that_had_released_stays_dead", In(Planted::M12RenewsExpired)),
    ("C2_no_judgement_is_taken_back_by_the_clock", Bent(Fault::RevivedByTheClock)),
    ("C2_a_renewal_and_a_takeover_across_the_instant_of_expiry", Bent(Fault::RenewsInTwoSteps)),
    ("C2_a_renewal_and_a_takeover_at_the_same_instant_have_one_outcome", Bent(Fault::RenewsNothing)),
    ("C3_an_unknown_session_gets_nothing", Bent(Fault::GrantsToTheDead)),
    ("C3_an_expired_session_gets_nothing", In(Planted::M16ExpiredAcquires)),
    ("C3_a_closed_session_gets_nothing", Bent(Fault::GrantsToTheDead)),
    ("C3_nothing_is_written_for_the_dead", Bent(Fault::WritesForTheDead)),
    ("C4_one_owner_at_a_time", Bent(Fault::StealsLeases)),
    ("C4_a_release_frees", Bent(Fault::ReleasesNothing)),
    ("C4_a_release_with_another_token_frees_nothing", In(Planted::M23ReleaseWithoutToken)),
    ("C4_a_release_by_another_session_frees_nothing", In(Planted::M24ReleaseWithoutSession)),
    ("C4_a_late_release_frees_no_later_term", In(Planted::M23ReleaseWithoutToken)),
    ("C4_a_release_of_what_never_was_is_no_fault", Bent(Fault::MissedReleaseFails)),
    ("C4_of_eight_that_race_one_wins", Bent(Fault::AcquiresInTwoSteps)),
    ("C5_close_frees_everything_at_once", In(Planted::CloseFreesNothing)),
    ("C5_close_frees_nothing_of_others", Bent(Fault::CloseFreesAll)),
    ("C5_a_late_close_frees_nothing_of_the_next_owner", Bent(Fault::CloseFreesAll)),
    ("C6_tokens_rise_over_release_expiry_and_close", In(Planted::M27TokenReset)),
    ("C6_tokens_rise_by_one", Bent(Fault::SkipsTokens)),
    ("C6_tokens_are_constant_in_a_term", Bent(Fault::NewTokenOnRenewal)),
    ("C6_tokens_survive_a_restart", Bent(Fault::ForgetsOverARestart)),
    ("C6_a_held_lease_keeps_its_token_over_a_restart", Bent(Fault::ForgetsOverARestart)),
    ("C7_closing_again_is_harmless", Bent(Fault::SecondCloseFails)),
    ("C7_acquiring_again_answers_the_same_token", In(Planted::M28TokenBumpedOnRepeat)),
    ("C7_releasing_again_is_harmless", Bent(Fault::ReleasesByName)),
    ("C7_acquiring_again_renews_nothing", Bent(Fault::AcquireRenews)),
    ("C8_a_session_begins_at_version_zero", Bent(Fault::BeginsAtOne)),
    ("C8_each_lease_is_one_step", Bent(Fault::StepsUntold)),
    ("C8_the_present_version_is_answered_without_a_list", Bent(Fault::AlwaysLists)),
    ("C8_another_version_is_answered_with_the_list", Bent(Fault::NeverLists)),
    ("C8_the_list_is_complete", Bent(Fault::CutsTheList)),
    ("C8_a_change_by_hand_raises_the_version", In(Planted::ForeignChangeUnseen)),
    ("C8_every_list_fits_its_version", Bent(Fault::ListsLater)),
    ("C9_names_are_compared_byte_for_byte", In(Planted::M55NamesFolded)),
    ("C9_names_that_look_alike_are_apart", In(Planted::M55NamesFolded)),
    ("C9_names_come_back_byte_for_byte", In(Planted::M55NamesFolded)),
    ("C10_a_batch_is_judged_name_by_name", Bent(Fault::AllOrNothing)),
    ("C10_an_empty_batch_changes_nothing", Bent(Fault::EmptyBatchSteps)),
    ("C10_a_thousand_names_of_every_kind", Bent(Fault::AllOrNothing)),
    ("C10_a_thousand_releases_of_every_kind", Bent(Fault::ReleasesByName)),
    ("C10_a_name_given_twice_is_one_lease", In(Planted::M28TokenBumpedOnRepeat)),
    ("C10_an_empty_batch_of_a_dead_session_is_answered_so", Bent(Fault::EmptyBatchLives)),
    ("C10_batches_in_opposite_orders_do_not_block_each_other", Bent(Fault::AcquiresInTwoSteps)),
    ("C11_a_dropped_call_leaves_the_next_one_clean", Bent(Fault::SpoiledByADrop)),
    ("C11_a_call_may_be_dropped_at_any_poll", Bent(Fault::SpoiledByADrop)),
    ("C11_a_call_without_time_left_ends_at_once", Bent(Fault::HangsWithoutTime)),
    ("C11_a_held_up_call_ends_at_its_limit", Bent(Fault::IgnoresTheLimit)),
    ("C12_a_refusal_tells_of_the_holder", In(Planted::HolderNotTold)),
    ("C12_inspect_shows_holders_and_free_leases", Bent(Fault::HidesFreeLeases)),
    ("C12_inspect_gives_pages", Bent(Fault::NeverMore)),
    ("C12_inspect_needs_no_session_and_changes_nothing", Bent(Fault::LookingRenews)),
    ("C12_a_watch_tells_of_releases_and_closes", Bent(Fault::WatchIsSilent)),
    ("C12_a_prefix_is_plain_text", Bent(Fault::PrefixIsAPattern)),
    ("C12_pages_of_every_size_are_whole_and_in_order", Bent(Fault::NeverMore)),
    ("C12_an_owner_comes_back_as_it_was_given", Bent(Fault::CutsTheOwner)),
    ("C12_a_watch_tells_of_every_lease_of_a_close", Bent(Fault::WatchMissesClose)),
    ("C12_a_watch_ends_with_its_future", Bent(Fault::WatchNeverEnds)),
    ("C13_a_forced_release_frees_and_raises_the_token", In(Planted::ForcedTokenNotRaised)),
    ("C13_a_forced_release_hits_no_other_term", In(Planted::ForcedWithoutToken)),
    ("C13_an_owner_sees_a_forced_release", In(Planted::ForeignChangeUnseen)),
    ("C13_an_eviction_ends_one_session", In(Planted::EvictsNobody)),
    ("C13_an_evicted_session_stays_over", In(Planted::EvictsNobody)),
    ("C13_an_examination_names_no_failure_and_leaves_no_trace", Bent(Fault::ExaminationTakesALease)),
];

/// Without a flaw the layer is no flaw: every case runs, and none fails.
#[test]
fn the_layer_itself_passes_every_case() {
    let whole = || -> Box<dyn simba_tck::backend::Store> { Box::new(Stage::new(Fault::None, None)) };
    assert_eq!(left_out(whole), [] as [&str; 0]);
    let failed: Vec<_> = judge(whole).into_iter().filter(|case| case.verdict.is_err()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Lets a case meet its flaw; what it finds, or why it is blind.
fn meet(name: &str) -> Result<String, String> {
    let (_, flaw) =
        FLAWS.iter().find(|(case, _)| *case == name).ok_or(format!("{name} has no flaw in the table"))?;
    let (fault, planted) = match flaw {
        Bent(fault) => (*fault, None),
        In(bug) => (Fault::None, Some(*bug)),
    };
    let judged = judge_only(|| Box::new(Stage::new(fault, planted)), |case| case == name);
    match judged.first().map(|judged| &judged.verdict) {
        Some(Err(found)) => Ok(format!("{name}: {found}")),
        Some(Ok(())) => Err(format!("{name} did not catch {fault:?} {planted:?}")),
        None => Err(format!("{name} was not run")),
    }
}

#[test]
fn every_case_can_fail() {
    let names = names();
    // Some wait for what does not come, so that several are run at once.
    let met: Vec<_> = thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(12));
        let running: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().map(|name| meet(name)).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|part| part.join().expect("no case panics")).collect()
    });
    let blind: Vec<_> = met.iter().filter_map(|met| met.as_ref().err()).collect();
    assert!(blind.is_empty(), "{blind:#?}");
    for found in met.iter().flatten() {
        eprintln!("{found}");
    }
    for (case, _) in FLAWS {
        assert!(names.contains(case), "{case} is in the table, and no case of the suite");
    }
}
