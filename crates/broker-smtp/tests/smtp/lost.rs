//! A mail whose answer was lost: held, never sent again by itself, settled by a person once.

use std::time::Duration;

use async_trait::async_trait;
use onefold_broker_smtp::{Found, MailLookUp};
use onefold_core::{ActKind, OutboxState};
use onefold_messages::{IfLost, Message};
use onefold_store::Redrive;
use onefold_testkit::{SmtpServer, TestDirectory, wait};

use crate::rig::{message, outbox, sink};

const GRACE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn accepted_mail_whose_answer_was_lost_is_unknown_and_never_sent_again() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a lost answer", &directory) else { return };
    server.orders(&["take-and-drop", "take"]);
    let outbox = outbox(&directory);
    let relay = outbox.relay(sink(&server));
    outbox.put(message("m-1")).await;
    outbox.becomes("m-1", OutboxState::Unknown).await;
    outbox.clock.pass(Duration::from_secs(3600));
    outbox.put(message("m-2")).await;
    outbox.becomes("m-2", OutboxState::Delivered).await;
    assert_eq!(relay.stop(GRACE).await, 0);
    assert_eq!((outbox.entry("m-1").await.state, server.begun()), (OutboxState::Unknown, 2));
}

#[tokio::test]
async fn relay_that_dies_while_the_server_has_the_mail_leaves_it_unknown() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a relay that dies", &directory) else { return };
    server.orders(&["take-and-hang"]);
    let outbox = outbox(&directory);
    let relay = outbox.relay(sink(&server));
    outbox.put(message("m-1")).await;
    wait::until("the server has the mail", || server.taken().len() == 1).await;
    drop(relay);
    outbox.clock.pass(Duration::from_secs(3600));
    let another = outbox.relay(sink(&server));
    outbox.becomes("m-1", OutboxState::Unknown).await;
    outbox.put(message("m-2")).await;
    outbox.becomes("m-2", OutboxState::Delivered).await;
    assert_eq!(another.stop(GRACE).await, 0);
    assert_eq!(server.begun(), 2);
}

#[tokio::test]
async fn loss_before_the_final_dot_is_sent_again_by_itself() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a loss before the dot", &directory) else { return };
    server.orders(&["cut-recipient", "data 451", "content 451", "take"]);
    let outbox = outbox(&directory);
    let _relay = outbox.relay(sink(&server));
    outbox.put(message("m-1")).await;
    outbox.becomes("m-1", OutboxState::Delivered).await;
    assert_eq!((server.begun(), server.taken().len(), outbox.entry("m-1").await.failures), (4, 1, 3));
}

#[tokio::test]
async fn mail_that_may_come_twice_is_sent_again_under_one_message_id() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a mail that may come twice", &directory) else { return };
    server.orders(&["take-and-drop", "take"]);
    let outbox = outbox(&directory);
    let _relay = outbox.relay(sink(&server).lost_answers(IfLost::SendAgain));
    outbox.put(message("m-1")).await;
    outbox.becomes("m-1", OutboxState::Delivered).await;
    let ids: Vec<_> = server.taken().iter().map(|mail| mail.field("Message-ID").map(str::to_owned)).collect();
    assert_eq!(ids, vec![Some("<m-1@example.org>".to_owned()); 2]);
}

#[tokio::test]
async fn person_settles_an_unknown_mail_once_and_with_a_reason() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a person's word on a mail", &directory) else { return };
    server.orders(&["take-and-drop", "take-and-drop", "take"]);
    let outbox = outbox(&directory);
    let relay = outbox.relay(sink(&server));
    for id in ["found", "missing"] {
        outbox.put(message(id)).await;
        outbox.becomes(id, OutboxState::Unknown).await;
    }
    let attempt = outbox.entry("found").await.attempt;
    assert!(outbox.redrive("found", attempt, Redrive::Delivered).await);
    assert!(!outbox.redrive("found", attempt, Redrive::Delivered).await, "pressed twice");
    assert!(!outbox.redrive("found", attempt, Redrive::SendAgain).await, "and the other button");

    let attempt = outbox.entry("missing").await.attempt;
    assert!(outbox.redrive("missing", attempt, Redrive::SendAgain).await);
    assert!(!outbox.redrive("missing", attempt, Redrive::SendAgain).await, "pressed twice");
    outbox.becomes("missing", OutboxState::Delivered).await;
    assert!(!outbox.redrive("missing", attempt, Redrive::SendAgain).await, "pressed late");
    assert_eq!(relay.stop(GRACE).await, 0);

    assert_eq!(server.begun(), 3);
    let ids: Vec<_> =
        server.taken().iter().filter_map(|mail| mail.field("Message-ID").map(str::to_owned)).collect();
    assert_eq!(ids[1], ids[2], "sent again under its id");
    for (id, kind) in [("found", ActKind::Delivered), ("missing", ActKind::Redriven)] {
        let acts = outbox.acts(id).await;
        let said: Vec<_> = acts.iter().map(|act| (act.kind, act.who.as_str(), act.reason.as_str())).collect();
        assert_eq!(said, [(kind, "ann", "the mailbox was looked into")]);
    }
}

/// Knows the mails that the server has taken.
struct Log(Vec<String>);

#[async_trait]
impl MailLookUp for Log {
    fn settled_after(&self) -> Duration {
        Duration::from_secs(3600)
    }

    async fn look_up(&self, message_id: &str) -> Found {
        match self.0.iter().any(|taken| taken == message_id) {
            true => Found::Happened { evidence: "it is in the log".into() },
            false => Found::DidNotHappen { evidence: "it is not in the log".into() },
        }
    }
}

#[tokio::test]
async fn look_up_is_asked_for_the_message_id_under_which_the_mail_was_sent() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a look-up of mails", &directory) else { return };
    server.orders(&["take-and-drop", "take-and-drop"]);
    let outbox = outbox(&directory);
    let relay = outbox.relay(sink(&server));
    let own = b"From: x@example.net\r\nTo: ann@example.org\r\nMessage-ID: <own@example.net>\r\n\r\nHi\r\n";
    let raw = Message {
        headers: vec![("content-type".into(), "message/rfc822".into())],
        body: own.to_vec(),
        ..message("m-2")
    };
    for message in [message("m-1"), raw] {
        let id = message.id.as_str().to_owned();
        outbox.put(message).await;
        outbox.becomes(&id, OutboxState::Unknown).await;
    }
    assert_eq!(relay.stop(GRACE).await, 0);
    let taken: Vec<_> =
        server.taken().iter().filter_map(|mail| mail.field("Message-ID").map(str::to_owned)).collect();
    assert_eq!(taken, ["<m-1@example.org>", "<own@example.net>"]);
    let _relay = outbox.relay(sink(&server).look_up(Log(taken), Duration::from_millis(10)));
    for id in ["m-1", "m-2"] {
        outbox.becomes(id, OutboxState::Delivered).await;
        assert_eq!(outbox.acts(id).await[0].reason, "it is in the log");
    }
    assert_eq!(server.begun(), 2, "nothing is sent again");
}
