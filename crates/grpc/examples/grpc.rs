//! A service whose orders are placed once for each key, and a caller that asks twice: `cargo run --example grpc`.

use onefold::grpc::{Protection, Whose};
use onefold::{BoxError, Onefold, Operation, Verdict};
use tonic::{Request, Response, Status};

use shop::orders_client::OrdersClient;
use shop::orders_server::{Orders, OrdersServer};
use shop::{Checkout, Order, Payment, Receipt};

#[path = "../proto/shop.rs"]
#[rustfmt::skip]
mod shop;

struct Shop {
    place: Protection,
    charge: Protection,
}

impl Shop {
    fn new(onefold: &Onefold) -> Shop {
        let place = Operation::new("PlaceOrder", "one order row for each key");
        let charge = Operation::new("Charge", "one charge at the provider for each key");
        Shop {
            place: Protection::new(onefold, place, "/shop.v1.Orders/Place", Whose::credential()),
            charge: Protection::new(onefold, charge, "/shop.v1.Orders/Charge", Whose::credential()),
        }
    }
}

#[tonic::async_trait]
impl Orders for Shop {
    async fn place(&self, request: Request<Checkout>) -> Result<Response<Order>, Status> {
        let placed = self.place.atomic(request, |tx, checkout| {
            if checkout.quantity == 0 {
                return Err(Status::invalid_argument("how many?").into()); // refused for good, and remembered
            }
            tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&checkout.sku])?;
            let number = tx.last_insert_rowid();
            Ok(Verdict::created("order", number, Order { number, sku: checkout.sku.clone() }))
        });
        placed.await
    }

    async fn charge(&self, request: Request<Payment>) -> Result<Response<Receipt>, Status> {
        let charged = self.charge.reserved(request, |performing, _payment| async move {
            // Here the provider is asked, under a key that is the same in every attempt.
            let charge = format!("charge under {}", performing.downstream_key("charge"));
            Ok(Verdict::succeeded(Receipt { charge }))
        });
        charged.await
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.db");
    let onefold = Onefold::sqlite(&path)?;
    let database = rusqlite::Connection::open(&path)?;
    database.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)")?;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let service = OrdersServer::new(Shop::new(&onefold));
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));

    let mut orders = OrdersClient::connect(address).await?;
    for quantity in [1, 1, 2] {
        let checkout = Checkout { sku: "lamp".into(), quantity, ..Checkout::default() };
        let mut request = Request::new(checkout);
        request.metadata_mut().insert("idempotency-key", "checkout-7f82".parse()?);
        request.metadata_mut().insert("authorization", "Bearer me".parse()?);
        match orders.place(request).await {
            Ok(order) => {
                let replayed = order.metadata().contains_key(onefold::grpc::REPLAYED);
                println!("{quantity} lamp: order {}, replayed: {replayed}", order.get_ref().number);
            }
            Err(status) => println!("{quantity} lamps: {:?}, {}", status.code(), status.message()),
        }
    }
    Ok(())
}
