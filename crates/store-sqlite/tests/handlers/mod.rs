//! The work of a handler of the suite, over SQLite.

use onefold_store_conformance::{ENTITY, Handler};
use onefold_store_sqlite::{SqliteTx, SqliteWork};

fn act(handler: &Handler, tx: &mut SqliteTx<'_>) -> rusqlite::Result<()> {
    if let Some(row) = &handler.row {
        tx.execute("INSERT INTO business VALUES (?1)", [row])?;
    }
    for version in handler.versions.iter().copied() {
        handler.applied(tx.apply_if_newer(ENTITY, version)?);
    }
    if let Some(message) = &handler.message {
        let made = match &handler.effect {
            Some(effect) => tx.enqueue_once(effect, message.clone())?,
            None => tx.enqueue(message)?,
        };
        handler.noted(made);
    }
    Ok(())
}

pub fn work(handler: Handler) -> SqliteWork {
    SqliteWork::new(move |tx| {
        act(&handler, tx).expect("what the handler writes is new");
        handler.end()
    })
}
