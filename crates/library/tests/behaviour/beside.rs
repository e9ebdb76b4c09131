//! The service's own reads and writes, beside the boundary; and where operations and messages stand.

use onefold::inbox::{Handled, Inbound, InboxState};
use onefold::messages::{Message, OutboxState};
use onefold::{AccessError, Key, OperationId, State, Verdict};

use crate::shop::{Shop, call, insert};

const COUNT: &str = "SELECT count(*) FROM orders";

fn note(id: &str) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "notes".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
    }
}

async fn orders(shop: &Shop) -> i64 {
    shop.onefold.read(|own| Ok(own.query_row(COUNT, [], |row| row.get(0))?)).await.unwrap()
}

#[tokio::test]
async fn a_write_is_there_whole_with_its_messages_or_not_at_all() {
    let shop = Shop::open();
    let number = shop.onefold.write(|tx| {
        tx.enqueue(&note("n-1"))?;
        insert(tx, "lamp")
    });
    assert_eq!(number.await.unwrap(), 1);
    let waits = shop.onefold.outgoing("n-1").await.unwrap().unwrap();
    assert_eq!(waits.state, OutboxState::Waiting);

    let failed = shop.onefold.write(|tx| {
        tx.enqueue(&note("n-2"))?;
        insert(tx, "chair")?;
        Err::<(), _>("no such chair".into())
    });
    assert!(matches!(failed.await, Err(AccessError::Closure(why)) if why.to_string() == "no such chair"));
    let panicked = shop.onefold.write(|tx| {
        insert(tx, "table")?;
        panic!("a bug of the business");
        #[expect(unreachable_code, reason = "it has a type")]
        Ok(())
    });
    assert!(matches!(panicked.await, Err(AccessError::Stopped(_))));
    let forbidden = shop.onefold.write(|tx| Ok(tx.execute("DELETE FROM onefold_outbox", [])?));
    assert!(matches!(forbidden.await, Err(AccessError::Closure(_))), "the layer's tables are the layer's");
    assert_eq!(orders(&shop).await, 1);
    assert!(shop.onefold.outgoing("n-2").await.unwrap().is_none());
}

#[tokio::test]
async fn a_read_sees_one_state_and_leaves_nothing_behind() {
    let shop = Shop::open();
    let (begun, is_begun) = tokio::sync::oneshot::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let reading = tokio::spawn({
        let onefold = shop.onefold.clone();
        async move {
            let read = onefold.read(move |own| {
                let first: i64 = own.query_row(COUNT, [], |row| row.get(0))?;
                begun.send(()).map_err(|()| "nobody waits")?;
                gone.recv()?;
                Ok((first, own.query_row(COUNT, [], |row| row.get::<_, i64>(0))?))
            });
            read.await.unwrap()
        }
    });
    is_begun.await.unwrap();
    shop.place("k-1", "lamp").await.unwrap();
    go.send(()).unwrap();
    assert_eq!(reading.await.unwrap(), (0, 0), "one state, and nobody waited for anybody");
    assert_eq!(orders(&shop).await, 1);

    let written = shop.onefold.read(|own| Ok(own.execute("INSERT INTO orders (sku) VALUES ('x')", [])?));
    assert!(matches!(written.await, Err(AccessError::Closure(_))), "it only reads");
    let disturbs = "COMMIT; PRAGMA query_only = off; BEGIN";
    shop.onefold.read(move |own| Ok(own.execute_batch(disturbs)?)).await.unwrap();
    let written = shop.onefold.read(|own| Ok(own.execute("INSERT INTO orders (sku) VALUES ('x')", [])?));
    assert!(matches!(written.await, Err(AccessError::Closure(_))), "the next one has another connection");
    let panics = shop.onefold.clone();
    let panicked = tokio::spawn(async move {
        panics.read(|_| -> Result<(), onefold::BoxError> { panic!("a bug of the business") }).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(orders(&shop).await, 1);
}

#[tokio::test]
async fn where_operations_and_messages_stand_is_told_without_a_call() {
    let shop = Shop::open();
    let asked = call("k-1", "lamp");
    assert!(shop.onefold.stands(&asked).await.unwrap().is_none());
    let placed = shop.onefold.atomic(asked.clone().correlated("flow-7"), |tx| {
        let number = insert(tx, "lamp")?;
        Ok(Verdict::created("order", number, number))
    });
    let id: OperationId = placed.await.unwrap().id();
    let stands = shop.onefold.operation(id).await.unwrap().unwrap();
    assert_eq!(
        (stands.state(), stands.attempt(), stands.correlation_id()),
        (State::Succeeded, 1, Some("flow-7"))
    );
    assert_eq!(stands.resource().unwrap().id, "1");
    assert_eq!(stands.result::<i64>(&asked).unwrap().unwrap().into_value(), 1);

    let consumer =
        shop.onefold.inbox("loyalty").consumer(|_, _| Ok(Handled::rejected("of another customer")));
    assert!(shop.onefold.incoming("loyalty", "shop", "evt-1").await.unwrap().is_none());
    consumer.handle(Inbound::new("shop", "evt-1", "ann")).await;
    let entry = shop.onefold.incoming("loyalty", "shop", "evt-1").await.unwrap().unwrap();
    assert_eq!((entry.state, entry.reason.as_deref()), (InboxState::Rejected, Some("of another customer")));
}
