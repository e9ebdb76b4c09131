//! The callers of the demo: each request over a TCP connection of its own, written and read by hand, so that it can be
//! cut where the story wants it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::demo::order_service::PAUSE;

/// Nobody in the story waits longer for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// A caller that is asked to wait asks again so often at most.
const ASKS_MAX: usize = 10;
/// Who the callers are: keys are unique for each credential.
pub(crate) const CREDENTIAL: &str = "Bearer demo-shop";

/// When the order service is to think, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    None,
    BeforeCommit(Duration),
    AfterCommit(Duration),
}

/// What a caller wants, under the key that was made for it.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) key: &'static str,
    pub(crate) item: &'static str,
    pub(crate) quantity: u32,
    pub(crate) pause: Pause,
}

/// What a caller has in hand after one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The connection ended before an answer was there, or the caller left.
    Nothing,
    /// A whole answer.
    Answer {
        status: u16,
        /// The code of a problem document.
        code: Option<String>,
        /// The number of the order that it confirms.
        order: Option<i64>,
        replayed: bool,
        retry_after: Option<Duration>,
    },
}

/// Somebody who places orders at the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) gateway: SocketAddr,
}

impl Caller {
    /// Sends a request and leaves the answer on the connection. Dropping that is hanging up.
    pub(crate) async fn send(self, order: &Order) -> io::Result<TcpStream> {
        let mut connection = TcpStream::connect(self.gateway).await?;
        connection.write_all(self.request(order).as_bytes()).await?;
        Ok(connection)
    }

    /// Sends a request and reads what comes.
    pub(crate) async fn ask(self, order: &Order) -> Got {
        let answer = async {
            let mut bytes = Vec::new();
            self.send(order).await?.read_to_end(&mut bytes).await?;
            io::Result::Ok(bytes)
        };
        match timeout(ANSWER_MAX, answer).await {
            Ok(Ok(bytes)) => Got::read(&bytes).unwrap_or(Got::Nothing),
            Ok(Err(_)) | Err(_) => Got::Nothing,
        }
    }

    /// Does as it is told: while the answer is "still running", waits and sends the request again.
    pub(crate) async fn ask_until_told(self, order: &Order) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            let got = self.ask(order).await;
            let wait = got.asks_to_wait();
            all.push(got);
            match wait {
                Some(wait) if all.len() < ASKS_MAX => sleep(wait).await,
                _ => return all,
            }
        }
    }

    fn request(self, order: &Order) -> String {
        let body = json!({"item": order.item, "quantity": order.quantity}).to_string();
        let pause = match order.pause {
            Pause::None => String::new(),
            Pause::BeforeCommit(pause) => format!("{PAUSE}: before-commit={}\r\n", pause.as_millis()),
            Pause::AfterCommit(pause) => format!("{PAUSE}: after-commit={}\r\n", pause.as_millis()),
        };
        format!(
            "POST /orders HTTP/1.1\r\nHost: {}\r\nAuthorization: {CREDENTIAL}\r\nIdempotency-Key: \"{}\"\r\n{pause}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.gateway,
            order.key,
            body.len(),
        )
    }
}

impl Got {
    /// Reads a whole answer; none for one that was cut.
    fn read(bytes: &[u8]) -> Option<Got> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let field = |name: &str| {
            let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
            fields.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
        };
        if field("content-length")?.parse() != Ok(body.len()) {
            return None;
        }
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Some(Got::Answer {
            status: head.split(' ').nth(1)?.parse().ok()?,
            code: body["code"].as_str().map(str::to_owned),
            order: body["order"].as_i64(),
            replayed: field("idempotent-replayed") == Some("true"),
            retry_after: field("retry-after").and_then(|s| s.parse().ok()).map(Duration::from_secs),
        })
    }

    /// What kind of answer it is, whichever order it is about: `201`, `201 replayed`, `409 outcome-unknown`.
    pub(crate) fn kind(&self) -> String {
        match self {
            Got::Nothing => "no answer".to_owned(),
            Got::Answer { status, code: Some(code), .. } => format!("{status} {code}"),
            Got::Answer { status, replayed: true, .. } => format!("{status} replayed"),
            Got::Answer { status, .. } => status.to_string(),
        }
    }

    /// The number of the order that it confirms.
    pub(crate) fn order(&self) -> Option<i64> {
        match self {
            Got::Answer { order, .. } => *order,
            Got::Nothing => None,
        }
    }

    /// How long to wait before the next request, when that is what the answer says.
    pub(crate) fn asks_to_wait(&self) -> Option<Duration> {
        match self {
            Got::Answer { code: Some(code), retry_after, .. } if code == "in-progress" => {
                Some(retry_after.unwrap_or(Duration::from_secs(1)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Got {
    /// The kind, and the order where there is one: `201 replayed (order 3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind())?;
        self.order().map_or(Ok(()), |order| write!(f, " (order {order})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_cut_is_no_answer() {
        let whole =
            "HTTP/1.1 201 Created\r\ncontent-length: 11\r\nIdempotent-Replayed: true\r\n\r\n{\"order\":7}";
        let got = Got::read(whole.as_bytes()).unwrap();
        assert_eq!(got.to_string(), "201 replayed (order 7)");
        for length in 0..whole.len() {
            assert_eq!(Got::read(&whole.as_bytes()[..length]), None, "{length}");
        }
    }
}
