//! The work of a handler of the suite, over PostgreSQL.

use onefold_store_conformance::{ENTITY, Handler};
use onefold_store_postgres::{PostgresTx, PostgresWork, TxError};

async fn act(handler: &Handler, tx: &mut PostgresTx) -> Result<(), TxError> {
    if let Some(row) = &handler.row {
        tx.execute("INSERT INTO business VALUES ($1)", &[row]).await?;
    }
    for version in handler.versions.iter().copied() {
        handler.applied(tx.apply_if_newer(ENTITY, version).await?);
    }
    if let Some(message) = &handler.message {
        let made = match &handler.effect {
            Some(effect) => tx.enqueue_once(effect, message.clone()).await?,
            None => tx.enqueue(message).await?,
        };
        handler.noted(made);
    }
    Ok(())
}

pub fn work(handler: Handler) -> PostgresWork {
    PostgresWork::new(move |tx| {
        let handler = handler.clone();
        Box::pin(async move {
            // What failed is kept by the transaction, which says what follows.
            let _ = act(&handler, tx).await;
            handler.end()
        })
    })
}
