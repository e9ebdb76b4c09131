//! Statements that the server plans once for each connection, where nobody stands between.
//!
//! Behind a pooler in transaction mode, what was prepared on one connection may be asked for on another, where the name
//! is unknown or, worse, means another statement. So a statement is prepared only on a connection that is known to lead
//! to one server process: the process that answers there is the one that introduced itself when the connection was
//! made. A pooler introduces itself under numbers of its own. Any other connection gets each statement unnamed, which
//! costs a plan each time and is right everywhere.
//!
//! The store has a fixed number of statements; what a closure sends is never prepared here. (For a column of a type
//! that is not built in, the driver itself prepares look-ups by name: see `docs/library.md`.)

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use deadpool_postgres::{ClientWrapper, Hook, HookError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::time::timeout;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Error, Row, Statement};

use crate::server::{CONNECTION_WAIT_MAX, Params};

/// Which process of the server works for a connection.
const PROCESS: &str = "SELECT pg_backend_pid()";

/// Looks at each new connection; on one without a pooler [`PROCESS`] is prepared, as the sign of it.
pub(crate) fn look() -> Hook {
    Hook::async_fn(|client, _| {
        Box::pin(async move {
            // Behind a pooler that has no server for it the question may wait for long.
            match timeout(CONNECTION_WAIT_MAX, seen(client)).await {
                Ok(seen) => seen.map_err(HookError::Backend),
                Err(_) => Err(HookError::message("the server does not answer on a new connection")),
            }
        })
    })
}

async fn seen(client: &ClientWrapper) -> Result<(), Error> {
    let answers: i32 = client.query_typed(PROCESS, &[]).await?.first().map_or(Ok(0), |row| row.try_get(0))?;
    if introduced(client.cancel_token()).await == Some(answers) {
        client.prepare_typed_cached(PROCESS, &[]).await?;
    }
    Ok(())
}

/// Whether statements are prepared on this connection.
pub(crate) fn may_be(client: &ClientWrapper) -> bool {
    client.statement_cache.size() > 0
}

/// A statement on its way over one connection.
pub(crate) enum Prepared<'s> {
    /// The server has its plan.
    Planned(Statement),
    /// It goes as a text.
    Text(&'s str),
}

impl<'s> Prepared<'s> {
    /// Prepares a statement with parameters of these types, once for each connection, if nobody stands between. To be
    /// asked for before a transaction is begun: it may cost a round trip.
    pub(crate) async fn on(
        client: &ClientWrapper,
        sql: &'s str,
        params: &Params<'_>,
    ) -> Result<Prepared<'s>, Error> {
        if !may_be(client) {
            return Ok(Prepared::Text(sql));
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        client.prepare_typed_cached(sql, &types).await.map(Prepared::Planned)
    }

    /// Sends it, over the connection on which it was prepared. It is written at the first look at the future.
    pub(crate) async fn query(&self, client: &Client, params: &Params<'_>) -> Result<Vec<Row>, Error> {
        match self {
            Prepared::Planned(statement) => {
                let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
                client.query(statement, &values).await
            }
            Prepared::Text(sql) => client.query_typed(sql, params).await,
        }
    }
}

/// The number under which the process at the other end introduced itself. The driver has it for requests to cancel and
/// shows it nowhere else, so such a request is written, to nobody.
async fn introduced(token: CancelToken) -> Option<i32> {
    /// Its length, what says that it is one, the number of the process, and its secret.
    const REQUEST: usize = 16;
    const CANCELS: [u8; 4] = 80_877_102_u32.to_be_bytes();
    let (mut ours, theirs) = duplex(64);
    // What a server says to a request for TLS; it is not read where none is made.
    ours.write_all(b"S").await.ok()?;
    token.cancel_query_raw(theirs, Nobody).await.ok()?;
    let mut written = Vec::new();
    ours.read_to_end(&mut written).await.ok()?;
    let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = *written.last_chunk::<REQUEST>()?;
    ([a, b, c, d] == CANCELS).then(|| i32::from_be_bytes([e, f, g, h]))
}

/// Encrypts nothing: what is written does not leave the process.
struct Nobody;

impl TlsConnect<DuplexStream> for Nobody {
    type Stream = Plain;
    type Error = Infallible;
    type Future = Ready<Result<Plain, Infallible>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(Plain(stream)))
    }
}

struct Plain(DuplexStream);

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
