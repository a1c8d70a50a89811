//! Each bug that can be planted in the store is caught by the case of the suite that is named for the promise.
#![cfg(feature = "planted")]

mod stage;

use simba_memory::Planted;
use simba_tck::{backend::judge_only, failed};

#[test]
fn every_planted_bug_is_caught_by_its_case() {
    for &bug in Planted::ALL {
        let case = match bug {
            Planted::M05RemainingRoundedUp => "C1_remaining_is_never_more_than_granted",
            Planted::M12RenewsExpired => "C2_an_expired_session_is_never_revived",
            Planted::M15SessionIdReused => "C2_ids_are_never_used_again",
            Planted::M16ExpiredAcquires => "C3_an_expired_session_gets_nothing",
            Planted::M23ReleaseWithoutToken => "C4_a_release_with_another_token_frees_nothing",
            Planted::M24ReleaseWithoutSession => "C4_a_release_by_another_session_frees_nothing",
            Planted::M26TokenNotBumped => "C1_a_session_ends_when_it_is_not_renewed",
            Planted::M27TokenReset => "C6_tokens_rise_over_release_expiry_and_close",
            Planted::M28TokenBumpedOnRepeat => "C7_acquiring_again_answers_the_same_token",
            Planted::M55NamesFolded => "C9_names_are_compared_byte_for_byte",
            Planted::ForeignChangeUnseen => "C8_a_change_by_hand_raises_the_version",
            Planted::CloseFreesNothing => "C5_close_frees_everything_at_once",
            Planted::HolderNotTold => "C12_a_refusal_tells_of_the_holder",
            Planted::ForcedWithoutToken => "C13_a_forced_release_hits_no_other_term",
            Planted::ForcedTokenNotRaised => "C13_a_forced_release_frees_and_raises_the_token",
            Planted::EvictsNobody => "C13_an_eviction_ends_one_session",
        };
        let planted = || -> Box<dyn simba_tck::backend::Store> {
            let memory = stage::Memory::default();
            memory.store.with_store(|store, _| store.plant(bug));
            Box::new(memory)
        };
        let found = failed(&judge_only(planted, |name| name == case));
        assert!(found == [case], "{bug:?}: {case} did not catch it");
    }
}
