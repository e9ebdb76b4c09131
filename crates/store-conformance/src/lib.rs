//! What every store of Onefold must do, as one suite; and the memory store.
//!
//! [`conformance!`] makes one test of each behaviour for a store. Behaviours are told through the port alone and with
//! a clock that is turned by hand, so nothing sleeps and nothing depends on how a store keeps its rows. What belongs
//! to one engine (files, locks, crashes) is tested beside that engine. A new store runs the suite before anything
//! else; a new rule for stores is a new behaviour here.

pub mod behaviours;
mod fixture;
mod library;
mod memory;
mod messages;
pub mod releases;

pub use fixture::{Fixture, Made, clock};
pub use library::{Business, Library, Script};
pub use memory::{BusinessRows, MemoryStore, MemoryWork};
pub use messages::{ENTITY, Handler, Messages, Shop, mark_under};

/// Makes one test of each behaviour, on empty stores that `make` makes: an `async fn(Arc<ManualClock>) -> Option<Made>`
/// whose store lives by the clock; `None` says that there is no such store here, and the test is skipped.
///
/// `conformance!(server_clock: make)` is for stores whose clock is a server's. The behaviours of
/// [`time`](behaviours::time) do not apply to them: these are about the host's clock, which such a store never reads,
/// and a server has no other clock to correct its own by.
#[macro_export]
macro_rules! conformance {
    ($make:expr) => {
        $crate::conformance! { server_clock: $make }
        $crate::conformance! { @each $make;
            time::time_never_runs_back,
            time::leap_forward_ends_no_live_lease,
            time::clock_that_was_set_back_does_not_lengthen_a_lease,
        }
    };
    (server_clock: $make:expr) => {
        $crate::conformance! { @each $make;
            claims::claim_is_won_once_by_many_claimers,
            claims::loser_of_a_claim_sees_the_winners_record,
            claims::key_that_is_too_old_makes_no_record,
            claims::claim_keeps_everything_it_was_given,
            claims::claim_of_a_finished_record_shows_its_result,
            claims::absent_record_reads_as_absent_with_the_time,
            transitions::transition_from_another_attempt_changes_nothing,
            transitions::transition_from_another_state_changes_nothing,
            transitions::transition_of_no_record_is_missing,
            transitions::event_is_written_with_its_transition_and_only_then,
            transitions::late_success_of_superseded_attempt_is_kept_as_evidence,
            transitions::attempt_that_holds_the_number_settles_an_unknown_outcome,
            transitions::one_of_many_transitions_from_one_start_is_done,
            leases::lease_lives_and_ends_by_the_stores_clock,
            leases::renewal_keeps_a_lease_alive,
            leases::renewal_of_a_settled_record_is_superseded,
            leases::lapsed_lease_is_over_and_the_state_stays,
            leases::only_processing_records_have_a_lease,
            takeovers::takeover_waits_for_the_end_of_the_lease,
            takeovers::lease_is_judged_when_the_takeover_is_written,
            takeovers::failed_record_begins_again_with_another_fingerprint,
            takeovers::settling_lets_go_of_what_the_attempt_before_left,
            retention::only_terminal_records_expire,
            retention::retention_begins_at_completion,
            retention::record_for_good_never_expires,
            retention::retention_is_that_of_the_latest_attempt,
            retention::expiry_is_decided_by_time_without_a_sweep,
            retention::begin_from_expired_needs_the_retention_to_be_over,
            retention::expired_record_begins_anew_and_its_attempt_goes_on,
            retention::tombstone_begins_anew,
            tombstones::sweep_leaves_a_tombstone_without_payload,
            tombstones::tombstone_keeps_its_history_until_it_is_deleted,
            tombstones::tombstone_of_no_length_is_deleted_at_once,
            tombstones::sweep_is_bounded_and_comes_to_an_end,
            tombstones::sweep_touches_nothing_before_its_time,
            lost::stale_attempt_becomes_an_unknown_outcome_with_an_event,
            lost::stale_attempt_that_may_resume_is_left_alone,
            lost::living_attempt_is_left_alone,
            lost::marking_is_bounded,
            interrupted::attempt_that_may_be_resumed_is_found_once_its_lease_is_over,
            interrupted::those_that_wait_longest_come_first_and_are_bounded,
            quota::claim_beyond_the_quota_writes_nothing,
            quota::known_key_is_never_refused_by_the_quota,
            quota::finished_record_counts_until_it_is_a_tombstone,
            quota::record_that_begins_again_counts_once,
            quota::tombstone_that_begins_anew_counts_again,
            quota::each_scope_has_its_own_quota,
            probes::unknown_outcome_is_due_at_once_and_says_since_when,
            probes::stale_attempt_that_is_to_be_reconciled_becomes_unknown,
            probes::turn_is_given_to_one_and_comes_back_when_it_is_over,
            probes::each_of_many_turns_is_given_to_one,
            probes::probe_of_what_is_not_unknown_is_not_noted,
            probes::turns_are_bounded_and_of_the_named_operations,
            probes::probe_that_settles_nothing_is_due_again_when_it_says,
            probes::record_that_is_no_longer_open_is_not_due,
            probes::outcome_that_is_lost_again_is_probed_from_the_beginning,
            probes::verdict_that_comes_too_late_is_evidence_only,
            probes::verdict_settles_the_record_and_its_retention_begins,
            probes::own_success_counts_more_than_a_verdict,
            probes::next_attempt_forgets_what_was_found_about_the_one_before,
            counting::counters_add_up_and_pass_over_what_is_gone,
            listing::pages_show_everything_once_while_records_come_and_go,
            listing::every_filter_narrows_the_list,
            listing::filters_hold_together,
            listing::list_has_payloads_and_judged_leases,
            identity::keys_are_compared_byte_for_byte,
            identity::longest_key_and_odd_scopes_come_back_as_they_were,
            payloads::every_kind_of_result_comes_back_as_it_was,
            payloads::empty_body_differs_from_nothing_kept,
            payloads::body_of_a_mebibyte_comes_back_byte_for_byte,
            survey::survey_counts_open_records_and_the_age_of_the_unknown,
            survey::sweep_lag_is_how_long_the_oldest_has_been_due,
            survey::working_store_is_ready,
        }
    };
    (@each $make:expr; $($file:ident :: $behaviour:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                let clock = $crate::clock();
                if let Some(made) = $make(clock.clone()).await {
                    $crate::behaviours::$file::$behaviour($crate::Fixture::new(made, clock)).await;
                }
            }
        )*
    };
}

/// Makes one test of each behaviour of the library's modes: atomic attempts and steps. The given function takes the
/// clock and makes a [`Business`]: a store with a table of a business beside the records. It is an
/// `async fn(Arc<ManualClock>) -> Option<Business<_>>`, as for [`conformance!`].
#[macro_export]
macro_rules! library_conformance {
    ($make:expr) => {
        $crate::library_conformance! { @each $make;
            atomic::record_and_row_are_committed_together,
            atomic::record_keeps_everything_it_was_given,
            atomic::rejection_is_recorded_without_its_writes,
            atomic::work_that_did_nothing_leaves_nothing,
            atomic::work_that_panics_leaves_nothing,
            atomic::contended_work_leaves_nothing_and_may_run_again,
            atomic::record_that_stands_keeps_the_work_from_running,
            atomic::one_of_many_works_under_one_key_is_done,
            atomic::rollback_of_the_winner_lets_the_next_one_in,
            atomic::free_record_is_begun_and_finished_at_once,
            atomic::expired_record_begins_anew_and_its_attempt_goes_on,
            atomic::next_from_another_start_does_not_run,
            atomic::key_that_is_too_old_does_not_run,
            atomic::quota_is_held_and_a_work_that_did_nothing_takes_no_place,
            atomic::retention_begins_at_the_commit,
            beside::outcome_and_rows_are_committed_together,
            beside::rejection_keeps_the_rows_beside_it,
            beside::work_that_fails_leaves_the_record_as_it_was,
            beside::work_does_not_run_where_another_has_settled_it,
            beside::verdict_and_rows_are_committed_together,
            beside::one_of_many_that_settle_it_is_done,
            beside::companion_is_noted_once_and_for_its_operation,
            steps::results_come_back_in_their_order,
            steps::step_of_a_superseded_attempt_is_not_written,
            steps::step_of_a_settled_record_is_not_written,
            steps::step_is_finished_once,
            steps::steps_outlive_the_attempt_and_not_the_record,
            steps::steps_before_a_free_key_are_forgotten,
        }
    };
    (@each $make:expr; $($file:ident :: $behaviour:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                let clock = $crate::clock();
                if let Some(made) = $make(clock.clone()).await {
                    $crate::behaviours::$file::$behaviour($crate::Library::new(made, clock)).await;
                }
            }
        )*
    };
}

/// Makes one test of each behaviour of messages: outbox, inbox and handlers. The given function takes the clock and
/// makes a [`Shop`]: a store with a table of a business beside the messages. It is an `async fn(Arc<ManualClock>) ->
/// Option<Shop<_>>`, as for [`conformance!`].
#[macro_export]
macro_rules! messages_conformance {
    ($make:expr) => {
        $crate::messages_conformance! { @each $make;
            outbox::no_more_bytes_are_given_than_are_asked_for_but_for_one_message,
            outbox::message_is_given_to_one_and_comes_back_as_it_was,
            outbox::lost_sending_is_sent_again_and_the_late_settlement_changes_nothing,
            outbox::sending_that_lives_is_nobody_elses,
            outbox::lost_sending_is_held_where_nobody_would_know_it_again,
            outbox::dead_head_holds_up_its_own_key_until_a_person_acts,
            outbox::messages_of_one_key_leave_in_their_order,
            outbox::those_that_wait_behind_one_hold_up_no_other_key,
            outbox::destinations_hold_up_nothing_of_each_other,
            outbox::id_of_a_message_that_goes_elsewhere_is_refused,
            outbox::failure_is_sent_again_when_it_says,
            outbox::no_more_are_given_than_are_asked_for,
            outbox::ends_and_what_they_let_go_are_one_call,
            outbox::pages_surveys_and_the_sweep_see_what_stands,
            outbox::sweep_is_bounded_and_takes_the_acts_along,
            outbox::hint_is_given_for_what_is_committed,
            inbox::mark_and_messages_are_made_once_and_together,
            inbox::deliveries_are_counted,
            inbox::builds_side_by_side_and_parallel_deliveries_handle_a_message_once,
            inbox::failures_count_up_to_the_dead_list_and_a_redrive_counts_once,
            inbox::permit_lets_each_message_through_once,
            inbox::older_and_equal_versions_of_others_are_superseded_and_lost_to_nobody,
            inbox::one_of_equal_versions_at_once_counts,
            inbox::marks_go_when_their_time_is_over_and_their_messages_are_done,
            inbox::message_that_comes_after_its_mark_is_forgotten_goes_on_again,
            inbox::mark_of_a_later_round_stays_no_shorter_than_the_first,
            inbox::mark_of_a_later_round_stands_in_the_way_of_a_round_that_is_forgotten,
            inbox::pages_show_every_entry_once,
            inbox::version_of_an_entity_is_known_as_long_as_the_mark_of_what_brought_it,
            inbox::versions_are_looked_through_in_steps_that_come_to_all,
            consume::effect_and_mark_are_one_commit_and_happen_once,
            consume::handler_that_ends_otherwise_leaves_neither_effect_nor_message,
            consume::message_that_failed_is_handled_and_its_failures_stay,
            consume::message_whose_handler_finds_a_newer_version_is_superseded,
            consume::notes_of_late_versions_go_with_the_marks_of_what_brought_them,
            consume::message_that_is_not_newer_reaches_no_handler,
            consume::one_handler_of_equal_versions_at_once_runs,
            consume::message_of_a_handler_keeps_the_mark_until_it_is_done,
            consume::two_events_that_ask_for_one_effect_make_one_message,
            consume::messages_of_handlers_keep_the_order_of_their_commits,
            consume::message_of_atomic_mode_goes_with_the_rollback_and_stays_with_the_commit,
            rounds::rebuild_takes_an_entity_through_its_versions_again,
            rounds::message_that_fails_in_a_round_is_believed_to_come_until_it_is_parked,
            rounds::newer_event_wins_over_a_rebuild,
            rounds::what_a_permit_does_not_bring_again_stands,
            rounds::message_of_several_versions_is_told_the_same_in_every_round,
            rounds::version_of_an_operation_stands_in_every_round,
        }
    };
    (@each $make:expr; $($file:ident :: $behaviour:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                let clock = $crate::clock();
                if let Some(made) = $make(clock.clone()).await {
                    $crate::behaviours::$file::$behaviour($crate::Messages::new(made, clock)).await;
                }
            }
        )*
    };
}
