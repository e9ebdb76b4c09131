//! Section 5: results that look like none.

use onefold_testkit::{Store, Supplier, on_each_store};

use crate::service::{Service, operation, order_of};

on_each_store!(b52_empty_and_falsy_results_are_results);

async fn b52_empty_and_falsy_results_are_results(store: &Store) {
    let supplier = Supplier::default();
    let service = Service::start(store.url(), &supplier, &operation()).await;
    for (n, value) in ["null", "0", "false", "\"\"", "[]", "{}"].into_iter().enumerate() {
        let order = order_of(&format!("k-{n}"), &format!(r#"{{"value":{value}}}"#));
        for replayed in [false, true, true] {
            let answer = service.send(&order).await;
            assert_eq!((answer.status, answer.is_replay()), (200, replayed), "{answer}");
            assert_eq!(answer.text(), value, "{answer}");
        }
        assert_eq!(supplier.times(), n as u64 + 1, "{value} is a result");
    }
}
