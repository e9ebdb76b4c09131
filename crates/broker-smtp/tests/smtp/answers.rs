//! What one sending tells of a server's answers.

use std::time::Duration;

use onefold_broker_smtp::{SetupError, SmtpSink};
use onefold_messages::{IfLost, Message, Sending, Sink};
use onefold_testkit::{SmtpServer, TestDirectory};

use crate::rig::{large, message, sink};

fn word(sending: &Sending) -> &'static str {
    match sending {
        Sending::Accepted => "accepted",
        Sending::NotYet { .. } => "not yet",
        Sending::Failed { .. } => "failed",
        Sending::Refused { .. } => "refused",
        Sending::Unknown { .. } => "unknown",
    }
}

#[tokio::test]
async fn mail_is_taken_with_an_id_that_is_the_same_in_every_sending() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("mail", &directory) else { return };
    for _ in 1..=2 {
        assert_eq!(sink(&server).send(&message("order-5001")).await, Sending::Accepted);
    }
    let taken = server.taken();
    assert_eq!(taken.len(), 2);
    for mail in taken {
        assert_eq!((mail.from.as_str(), mail.to), ("shop@example.org", vec!["ann@example.org".to_owned()]));
        let mail_field = |name: &str| mail.text.lines().any(|line| line == name);
        assert!(mail_field("Message-ID: <order-5001@example.org>"), "{}", mail.text);
        assert!(
            mail_field("Subject: Your order") && mail.text.trim_end().ends_with("\r\n\r\nThank you."),
            "{}",
            mail.text
        );
    }
}

#[tokio::test]
async fn every_answer_has_its_meaning_and_no_reason_holds_an_address() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("answers of a mail server", &directory) else { return };
    let table = [
        ("mail 550", "refused"),
        ("rcpt 550", "refused"),
        ("data 554", "refused"),
        ("content 554", "refused"),
        ("mail 451", "failed"),
        ("rcpt 450", "failed"),
        ("data 451", "failed"),
        ("content 452", "failed"),
        ("mail 421", "not yet"),
        ("content 421", "not yet"),
        ("data 250", "failed"),
        ("content 354", "unknown"),
        ("take", "accepted"),
    ];
    server.orders(&table.map(|(order, _)| order));
    for (order, expected) in table {
        let sending = sink(&server).send(&message("m-1")).await;
        assert_eq!(word(&sending), expected, "{order}: {sending:?}");
        assert!(!format!("{sending:?}").contains('@'), "{order}: {sending:?}");
    }
    assert_eq!(server.taken().len(), 1);
}

#[tokio::test]
async fn mail_goes_to_all_of_its_recipients_or_to_none() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("several recipients", &directory) else { return };
    server.orders(&["last 550", "take"]);
    let body = br#"{"to":["ann@example.org"],"cc":["last@example.org"],"subject":"x","text":"x"}"#.to_vec();
    let both = Message { body, ..message("m-1") };
    let sending = sink(&server).send(&both).await;
    assert_eq!((word(&sending), server.taken().len()), ("refused", 0), "{sending:?}");
    assert_eq!(sink(&server).send(&both).await, Sending::Accepted);
    assert_eq!(server.taken()[0].to, ["ann@example.org", "last@example.org"]);
}

#[tokio::test]
async fn loss_before_the_final_dot_is_a_failed_try_and_behind_it_unknown() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("lost connections", &directory) else { return };
    server.orders(&["cut-recipient", "cut-content", "take-and-drop", "take-and-drop"]);
    assert_eq!(word(&sink(&server).send(&message("m-1")).await), "failed");
    let cut = sink(&server).send(&large("m-2")).await;
    assert_eq!(word(&cut), "failed", "{cut:?}");
    assert_eq!(server.taken().len(), 0);
    let lost = sink(&server).send(&message("m-3")).await;
    assert_eq!(word(&lost), "unknown", "{lost:?}");
    let twice_is_fine = sink(&server).lost_answers(IfLost::SendAgain);
    assert_eq!(word(&twice_is_fine.send(&message("m-4")).await), "failed");
    assert_eq!(server.taken().len(), 2);
}

#[tokio::test]
async fn no_answer_to_its_end_in_time_is_unknown() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a silent mail server", &directory) else { return };
    server.orders(&["take-and-hang"]);
    let hasty = sink(&server).answer_within(Duration::from_millis(300));
    let sending = hasty.send(&message("m-1")).await;
    assert_eq!(word(&sending), "unknown", "{sending:?}");
}

#[tokio::test]
async fn server_that_takes_nobody_s_mail_costs_no_failure() {
    let directory = TestDirectory::create();
    let Some(mut server) = SmtpServer::start("a closed mail server", &directory) else { return };
    for (code, expected) in [(421, "not yet"), (451, "not yet"), (550, "failed")] {
        server.greets_with(code);
        let sending = sink(&server).send(&message("m-1")).await;
        assert_eq!(word(&sending), expected, "{code}: {sending:?}");
    }
    server.kill();
    let sending = sink(&server).send(&message("m-1")).await;
    assert_eq!(word(&sending), "not yet", "{sending:?}");
    assert_eq!((server.begun(), server.taken().len()), (0, 0));
}

#[tokio::test]
async fn mail_and_password_go_over_tls_only() {
    let directory = TestDirectory::create();
    let what = "mail over STARTTLS";
    let Some((server, certificate)) = SmtpServer::start_encrypted(what, &directory) else { return };
    let certificate = std::fs::read(certificate).unwrap();
    let to = |password: &str| {
        let sink = SmtpSink::starttls("localhost").unwrap().port(server.port());
        sink.sender("shop@example.org").unwrap().credentials("shop", password).unwrap()
    };
    let stranger = to("open sesame").send(&message("m-1")).await;
    assert!(matches!(stranger, Sending::Failed { .. }), "nobody vouches for the server: {stranger:?}");
    let known = |password: &str| to(password).trust(&certificate).unwrap();
    let wrong = known("open barley").send(&message("m-2")).await;
    assert!(matches!(&wrong, Sending::Failed { reason } if !reason.contains("barley")), "{wrong:?}");
    assert_eq!(server.begun(), 0);
    assert_eq!(known("open sesame").send(&message("m-3")).await, Sending::Accepted);
    let taken = server.taken();
    assert_eq!((taken[0].encrypted, taken[0].user.as_deref()), (true, Some("shop")));

    let clear = SmtpSink::unencrypted("localhost").credentials("shop", "open sesame");
    assert!(matches!(clear, Err(SetupError::CredentialsInClear)));
}

#[tokio::test]
async fn server_without_starttls_gets_nothing_from_who_wants_it() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("a mail server without TLS", &directory) else { return };
    let sink =
        SmtpSink::starttls("localhost").unwrap().port(server.port()).sender("shop@example.org").unwrap();
    let sending = sink.send(&message("m-1")).await;
    assert_eq!((word(&sending), server.begun()), ("failed", 0), "{sending:?}");
}

#[tokio::test]
async fn what_is_no_mail_is_refused_unsent() {
    let directory = TestDirectory::create();
    let Some(server) = SmtpServer::start("what is no mail", &directory) else { return };
    let bad = Message { body: b"Thank you.".to_vec(), ..message("m-1") };
    assert_eq!(word(&sink(&server).send(&bad).await), "refused");
    assert_eq!(server.begun(), 0);
}
