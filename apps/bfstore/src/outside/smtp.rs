//! A mail server that takes every mail and delivers none: as much of RFC 5321 as a client of one mail needs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::{Fault, Held, World};

/// A mail that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// Its subject.
    pub subject: String,
    /// Its Message-ID, without the brackets.
    pub message_id: String,
}

pub(super) async fn serve(listener: TcpListener, world: Arc<World>) {
    while let Ok((connection, _)) = listener.accept().await {
        let world = world.clone();
        tokio::spawn(async move {
            if let Err(error) = converse(connection, &world).await {
                tracing::debug!(%error, "a conversation broke off");
            }
        });
    }
}

async fn converse(connection: TcpStream, world: &World) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    say(&mut connection, "220 outside").await?;
    let mut to = Vec::new();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let verb = line.split([' ', '\r']).next().unwrap_or_default().to_ascii_uppercase();
        let answer = match verb.as_str() {
            "EHLO" | "HELO" | "MAIL" | "RSET" | "NOOP" => "250 yes",
            "RCPT" => {
                to.extend(line.split(['<', '>']).nth(1).map(str::to_owned));
                "250 yes"
            }
            "DATA" => {
                say(&mut connection, "354 go on").await?;
                let mail = content(&mut connection, std::mem::take(&mut to)).await?;
                let is_unanswered = mail.to.iter().any(|to| world.unanswered.lock().remove(to));
                let is_awaited = |to: &&String| world.held.lock().get(*to) == Some(&Held::Awaited);
                let held = mail.to.iter().find(is_awaited).cloned();
                world.happened.lock().mails.push(mail);
                if let Some(to) = held {
                    return hold(&mut connection, world, to).await;
                }
                if is_unanswered || world.takes(Fault::MailAnswerLost) {
                    return Ok(());
                }
                "250 taken"
            }
            "QUIT" => return say(&mut connection, "221 bye").await,
            _ => "502 what?",
        };
        say(&mut connection, answer).await?;
    }
}

/// Says nothing until the other side is gone.
async fn hold(connection: &mut BufReader<TcpStream>, world: &World, to: String) -> std::io::Result<()> {
    let taken = Instant::now();
    world.held.lock().insert(to.clone(), Held::Open);
    let gone = connection.read_line(&mut String::new()).await;
    world.held.lock().insert(to, Held::Gone(taken.elapsed()));
    gone.map(drop)
}

async fn content(connection: &mut BufReader<TcpStream>, to: Vec<String>) -> std::io::Result<Mail> {
    let mut mail = Mail { to, subject: String::new(), message_id: String::new() };
    let mut in_head = true;
    loop {
        let mut line = String::new();
        let read = connection.read_line(&mut line).await?;
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if read == 0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ if line == "." => return Ok(mail),
            _ if line.is_empty() => in_head = false,
            Some(("Subject", subject)) if in_head => mail.subject = subject.to_owned(),
            Some(("Message-ID", id)) if in_head => mail.message_id = id.trim_matches(['<', '>']).to_owned(),
            _ => {}
        }
    }
}

async fn say(connection: &mut BufReader<TcpStream>, line: &str) -> std::io::Result<()> {
    connection.write_all(format!("{line}\r\n").as_bytes()).await
}
