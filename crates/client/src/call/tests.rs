//! What comes next, event by event. No time passes here: it is told.

use super::*;
use onefold_core::retry::Backoff;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn policy() -> Policy {
    Policy {
        attempts_max: 3,
        deadline: 60 * SECOND,
        attempt_timeout: 10 * SECOND,
        backoff: Backoff { first: SECOND, max: 8 * SECOND },
        wait_min: SECOND,
    }
}

fn call(repeat: Repeat) -> Call {
    Call::new(policy(), repeat)
}

fn answer(means: Means) -> Event {
    asking(means, None, None)
}

fn asking(means: Means, retry_after: Option<Duration>, poll: Option<&str>) -> Event {
    Event::Answer(Reading {
        means,
        replayed: false,
        retry_after,
        poll: poll.map(str::to_owned),
        safe_to_use_new_key: None,
        settles: true,
        in_trouble: false,
    })
}

#[track_caller]
fn ends(call: &mut Call, event: Event, verdict: Verdict, stopped: Stopped) -> End {
    match call.next(event, SECOND, 0.5) {
        Next::End(end) => {
            assert_eq!((end.verdict, end.stopped), (verdict, stopped));
            end
        }
        other => panic!("goes on: {other:?}"),
    }
}

#[track_caller]
fn retries(call: &mut Call, event: Event) -> Duration {
    match call.next(event, SECOND, 1.0) {
        Next::Send { after, is_retry: true } => after,
        other => panic!("no retry: {other:?}"),
    }
}

#[test]
fn final_answers_end_it() {
    for (means, verdict, new_key) in [
        (Means::Succeeded, Verdict::Succeeded, false),
        (Means::Rejected, Verdict::Rejected, true),
        (Means::Conflict, Verdict::Conflict, false),
        (Means::Expired, Verdict::Expired, false),
        (Means::NotKept, Verdict::AnswerNotKept, false),
    ] {
        let end = ends(&mut call(Repeat::ByKey), answer(means), verdict, Stopped::Final);
        assert_eq!(end.safe_to_use_new_key, new_key, "{means:?}");
    }
    ends(&mut call(Repeat::ByKey), answer(Means::Refused), Verdict::NotDone, Stopped::Useless);
    ends(&mut call(Repeat::ByKey), answer(Means::UnknownFinal), Verdict::OutcomeUnknown, Stopped::Useless);
}

#[test]
fn a_lost_answer_is_asked_for_again_under_the_key_and_stays_unknown_until_it_comes() {
    let mut lost = call(Repeat::ByKey);
    assert_eq!(retries(&mut lost, Event::Lost), SECOND);
    assert_eq!(retries(&mut lost, Event::NotSent), 2 * SECOND);
    let end = ends(&mut lost, Event::NotSent, Verdict::OutcomeUnknown, Stopped::AttemptsSpent);
    assert!(!end.safe_to_use_new_key, "the first attempt may have had its effect");
    let mut found = call(Repeat::ByKey);
    retries(&mut found, Event::TimedOut);
    ends(&mut found, answer(Means::Succeeded), Verdict::Succeeded, Stopped::Final);
}

#[test]
fn a_later_refusal_does_not_unmake_what_may_have_happened() {
    let mut lost = call(Repeat::ByKey);
    retries(&mut lost, Event::Lost);
    ends(&mut lost, answer(Means::Refused), Verdict::OutcomeUnknown, Stopped::Useless);
    let mut lost = call(Repeat::ByKey);
    retries(&mut lost, Event::Lost);
    retries(&mut lost, answer(Means::NotDone));
    ends(&mut lost, answer(Means::NotDone), Verdict::OutcomeUnknown, Stopped::AttemptsSpent);
}

#[test]
fn without_a_key_nothing_is_repeated_after_bytes_were_sent() {
    let end = ends(&mut call(Repeat::Never), Event::Lost, Verdict::OutcomeUnknown, Stopped::NotRepeatable);
    assert!(!end.safe_to_use_new_key);
    for (means, verdict) in [
        (Means::NotDone, Verdict::NotDone),
        (Means::Unknown, Verdict::OutcomeUnknown),
        (Means::InProgress, Verdict::InProgress),
    ] {
        ends(&mut call(Repeat::Never), answer(means), verdict, Stopped::NotRepeatable);
    }
    ends(&mut call(Repeat::Never), Event::TimedOut, Verdict::OutcomeUnknown, Stopped::NotRepeatable);
    let mut refused = call(Repeat::Never);
    retries(&mut refused, Event::NotSent);
    retries(&mut refused, Event::NotSent);
    ends(&mut refused, Event::NotSent, Verdict::NotDone, Stopped::AttemptsSpent);
}

#[test]
fn what_is_in_progress_is_waited_for_and_neither_takes_nor_gives_attempts() {
    let mut waiting = call(Repeat::ByKey);
    retries(&mut waiting, Event::Lost);
    for _ in 0..20 {
        let next = waiting.next(asking(Means::InProgress, Some(2 * SECOND), None), SECOND, 0.0);
        assert_eq!(next, Next::Send { after: 2 * SECOND, is_retry: false });
    }
    retries(&mut waiting, Event::Lost);
    ends(&mut waiting, Event::Lost, Verdict::OutcomeUnknown, Stopped::AttemptsSpent);
}

#[test]
fn the_operations_page_is_asked_and_the_result_fetched_under_the_key() {
    let mut polling = call(Repeat::ByKey);
    let in_progress = || asking(Means::InProgress, Some(SECOND), Some("/operations/ab"));
    let poll = |after| Next::Poll { after, path: "/operations/ab".into() };
    assert_eq!(polling.next(in_progress(), SECOND, 0.0), poll(SECOND));
    let running = Event::Page(Page::Running { retry_after: Some(3 * SECOND) });
    assert_eq!(polling.next(running, SECOND, 0.0), poll(3 * SECOND));
    assert_eq!(
        polling.next(Event::Page(Page::Settled), SECOND, 0.0),
        Next::Send { after: Duration::ZERO, is_retry: false }
    );
    let mut free = call(Repeat::ByKey);
    free.next(in_progress(), SECOND, 0.0);
    retries(&mut free, Event::Page(Page::Free));
    retries(&mut free, Event::NotSent);
    ends(&mut free, Event::NotSent, Verdict::NotDone, Stopped::AttemptsSpent);
}

#[test]
fn a_page_that_is_gone_or_never_settles_is_left_for_the_request_itself() {
    let unknown = || asking(Means::Unknown, None, Some("/operations/ab"));
    let mut gone = call(Repeat::ByKey);
    gone.next(unknown(), SECOND, 0.0);
    let next = gone.next(Event::Page(Page::Gone), SECOND, 0.0);
    assert_eq!(next, Next::Send { after: SECOND, is_retry: true });
    let mut stuck = call(Repeat::ByKey);
    stuck.next(unknown(), SECOND, 0.0);
    let page = || Event::Page(Page::Running { retry_after: None });
    let polls = (0..50).take_while(|_| matches!(stuck.next(page(), SECOND, 0.0), Next::Poll { .. })).count();
    assert_eq!(polls + 1, POLLS_BEFORE_SENDING as usize);
}

#[test]
fn an_attempt_gets_what_is_left_of_the_deadline_and_no_more() {
    let call = call(Repeat::ByKey);
    assert_eq!(call.time_for_attempt(SECOND), 10 * SECOND);
    assert_eq!(call.time_for_attempt(57 * SECOND), 3 * SECOND);
    assert_eq!(call.time_for_attempt(61 * SECOND), Duration::ZERO);
}

#[test]
fn a_pause_past_the_deadline_is_not_begun_and_says_when_to_come_back() {
    let mut call = call(Repeat::ByKey);
    let end =
        ends(&mut call, asking(Means::NotDone, Some(90 * SECOND), None), Verdict::NotDone, Stopped::Deadline);
    assert_eq!(end.retry_after, Some(90 * SECOND));
    let mut running = Call::new(policy(), Repeat::ByKey);
    let event = asking(Means::InProgress, Some(90 * SECOND), None);
    ends(&mut running, event, Verdict::InProgress, Stopped::Deadline);
}

#[test]
fn what_the_answer_says_against_a_new_key_counts() {
    let rejected = |says| {
        let Event::Answer(mut reading) = answer(Means::Rejected) else { unreachable!() };
        reading.safe_to_use_new_key = says;
        let end = ends(&mut call(Repeat::ByKey), Event::Answer(reading), Verdict::Rejected, Stopped::Final);
        end.safe_to_use_new_key
    };
    assert!(rejected(None) && rejected(Some(true)) && !rejected(Some(false)));
}

#[test]
fn nothing_happened_now_is_not_nothing_happened_ever() {
    let mut call = call(Repeat::ByKey);
    let Event::Answer(mut reading) = answer(Means::NotDone) else { unreachable!() };
    reading.safe_to_use_new_key = Some(false);
    retries(&mut call, Event::Answer(reading.clone()));
    retries(&mut call, answer(Means::NotDone));
    ends(&mut call, answer(Means::NotDone), Verdict::OutcomeUnknown, Stopped::AttemptsSpent);
}

fn event() -> impl Strategy<Value = Event> {
    let means = prop::sample::select(vec![
        Means::Succeeded,
        Means::Rejected,
        Means::Refused,
        Means::NotDone,
        Means::InProgress,
        Means::Unknown,
        Means::UnknownFinal,
    ]);
    let wait = prop::option::of((0u64..40).prop_map(Duration::from_secs));
    prop_oneof![
        (means, wait.clone(), any::<bool>()).prop_map(|(means, wait, page)| asking(
            means,
            wait,
            page.then_some("/operations/ab")
        )),
        Just(Event::NotSent),
        Just(Event::Lost),
        Just(Event::TimedOut),
        Just(Event::NoPage),
        wait.prop_map(|retry_after| Event::Page(Page::Running { retry_after })),
        Just(Event::Page(Page::Settled)),
        Just(Event::Page(Page::Free)),
    ]
}

proptest! {
    /// Whatever happens: bounded retries, no pause shorter than asked or past the deadline, no doubt forgotten.
    #[test]
    fn no_history_breaks_a_bound(
        events in prop::collection::vec((event(), 0.0..1.0f64), 1..60),
        repeat in prop::sample::select(vec![Repeat::ByKey, Repeat::ByMethod, Repeat::Never]),
    ) {
        let (mut call, mut elapsed, mut retries) = (Call::new(policy(), repeat), Duration::ZERO, 0);
        let mut may_have_happened = false;
        for (event, dice) in events {
            may_have_happened |= matches!(event, Event::Lost | Event::TimedOut);
            may_have_happened &= event != Event::Page(Page::Free);
            let asked = match &event {
                Event::Answer(reading) => reading.retry_after,
                Event::Page(Page::Running { retry_after }) => *retry_after,
                _ => None,
            };
            let was_sent = !matches!(event, Event::NotSent | Event::NoPage | Event::Page(_));
            match call.next(event, elapsed, dice) {
                Next::Send { after, is_retry } => {
                    retries += u32::from(is_retry);
                    prop_assert!(!(repeat == Repeat::Never && was_sent), "repeated without a key");
                    prop_assert!(asked.is_none_or(|asked| after >= asked), "sooner than asked");
                    elapsed += after;
                }
                Next::Poll { after, .. } => {
                    prop_assert!(asked.is_none_or(|asked| after >= asked), "sooner than asked");
                    elapsed += after;
                }
                Next::End(end) => {
                    let denies = matches!(end.verdict, Verdict::NotDone);
                    prop_assert!(!(denies && may_have_happened), "forgot a lost answer");
                    break;
                }
            }
            prop_assert!(retries < policy().attempts_max);
            prop_assert!(elapsed < policy().deadline);
        }
    }
}

fn bare(means: Means) -> Event {
    match answer(means) {
        Event::Answer(reading) => Event::Answer(Reading { settles: false, ..reading }),
        other => other,
    }
}

#[test]
fn after_a_lost_attempt_only_what_speaks_of_the_operation_rejects_it() {
    for repeat in [Repeat::ByKey, Repeat::ByMethod] {
        let mut echoed = call(repeat);
        retries(&mut echoed, Event::Lost);
        let end = ends(&mut echoed, bare(Means::Rejected), Verdict::OutcomeUnknown, Stopped::Useless);
        assert!(!end.safe_to_use_new_key);
        let mut replayed = call(repeat);
        retries(&mut replayed, Event::Lost);
        ends(&mut replayed, answer(Means::Rejected), Verdict::Rejected, Stopped::Final);
    }
    ends(&mut call(Repeat::ByKey), bare(Means::Rejected), Verdict::Rejected, Stopped::Final);
}

#[test]
fn an_intention_that_was_begun_before_is_in_doubt_from_the_start() {
    let begun = || call(Repeat::ByKey).after(Past::Begun);
    ends(&mut begun(), answer(Means::Refused), Verdict::OutcomeUnknown, Stopped::Useless);
    ends(&mut begun(), bare(Means::Rejected), Verdict::OutcomeUnknown, Stopped::Useless);
    assert_eq!(begun().stop(Stopped::CircuitOpen).verdict, Verdict::OutcomeUnknown);
    ends(&mut begun(), answer(Means::Succeeded), Verdict::Succeeded, Stopped::Final);
}

#[test]
fn a_key_from_elsewhere_is_never_called_safe_to_leave_for_a_new_one() {
    let mut perhaps = call(Repeat::ByKey).after(Past::Perhaps);
    let end = ends(&mut perhaps, answer(Means::Refused), Verdict::NotDone, Stopped::Useless);
    assert!(!end.safe_to_use_new_key, "an earlier call under it may have done it");
    let end = ends(&mut call(Repeat::ByKey), answer(Means::Refused), Verdict::NotDone, Stopped::Useless);
    assert!(end.safe_to_use_new_key);
}

#[test]
fn a_page_that_calls_the_key_free_knows_nothing_of_an_attempt_that_was_lost_on_its_way() {
    let mut lost = call(Repeat::ByKey);
    retries(&mut lost, Event::Lost);
    let running = asking(Means::InProgress, None, Some("/operations/ab"));
    assert!(matches!(lost.next(running, SECOND, 0.5), Next::Poll { .. }));
    let _ = lost.next(Event::Page(Page::Free), SECOND, 0.5);
    assert_eq!(lost.stop(Stopped::AttemptsSpent).verdict, Verdict::OutcomeUnknown);
}

#[test]
fn what_is_not_running_is_sent_within_the_attempts_whatever_its_page_says() {
    for page in [Page::Gone, Page::Settled] {
        let mut call = call(Repeat::ByKey);
        let mut sent = 1;
        let end = loop {
            let unknown = asking(Means::Unknown, None, Some("/operations/ab"));
            let mut next = call.next(unknown, Duration::ZERO, 0.0);
            while let Next::Poll { .. } = next {
                next = call.next(Event::Page(page), Duration::ZERO, 0.0);
            }
            match next {
                Next::Send { .. } => sent += 1,
                Next::End(end) => break end,
                Next::Poll { .. } => unreachable!("read above"),
            }
            assert!(sent <= policy().attempts_max + 1, "{page:?}: sent {sent} times");
        };
        assert_eq!((end.verdict, end.stopped), (Verdict::OutcomeUnknown, Stopped::AttemptsSpent));
    }
}
