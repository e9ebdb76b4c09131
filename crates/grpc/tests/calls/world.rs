//! A shop that listens on loopback, with a provider that ends as the payment says, and callers over real connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold::grpc::{OUTCOME, Protection, REPLAYED, Whose, rejected};
use onefold::messages::Message;
use onefold::{BoxError, Key, Onefold, Operation, Scope, Verdict, WhileRunning};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

pub use crate::shop::orders_client::OrdersClient;
use crate::shop::orders_server::{Orders, OrdersServer};
pub use crate::shop::{Checkout, Order, Payment, Receipt};

/// What the service's authentication has found out.
#[derive(Clone)]
struct Principal(String);

/// Where charges happen.
pub struct Provider {
    pub charges: AtomicUsize,
    /// One permit for each charge that may end.
    pub gate: Semaphore,
    /// One permit for each charge that has begun.
    pub begun: Semaphore,
}

pub struct Shop {
    place: Protection,
    charge: Protection,
    provider: Arc<Provider>,
    /// Closed: answers that are ready do not leave.
    answers: Arc<Semaphore>,
}

fn protection(
    onefold: &Onefold,
    name: &str,
    method: &str,
    whose: Whose,
    while_running: WhileRunning,
) -> Protection {
    let operation = Operation::new(name, "one effect for each key").while_running(while_running);
    Protection::new(onefold, operation, method, whose)
}

#[tonic::async_trait]
impl Orders for Shop {
    async fn place(&self, request: Request<Checkout>) -> Result<Response<Order>, Status> {
        let asked = match request.get_ref().trace.as_str() {
            "" => self.place.admit(request)?,
            _ => self.place.admit_by(request, |checkout| (checkout.sku.clone(), checkout.quantity))?,
        };
        let placed = asked.atomic(|tx, checkout| {
            tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&checkout.sku])?;
            let number = tx.last_insert_rowid();
            tx.enqueue(&placed_event(number))?;
            match checkout.sku.as_str() {
                "panic" => panic!("a bug of the business"),
                "nothing" => Ok(Verdict::succeeded(Order::default())),
                "sold out" => {
                    Err(faked(Status::with_details(Code::NotFound, "none", vec![7, 8].into())).into())
                }
                "later" => Err(Status::internal("the supplier is closed").into()),
                sku => Ok(Verdict::created("order", number, Order { number, sku: sku.to_owned() })),
            }
        });
        let placed = placed.await;
        let _open = self.answers.acquire().await;
        placed
    }

    async fn charge(&self, request: Request<Payment>) -> Result<Response<Receipt>, Status> {
        let provider = self.provider.clone();
        let call = self.charge.call(&request)?;
        if call.is_none() && request.metadata().contains_key("key-is-optional") {
            let charge = provider.charge(&request.into_inner()).await.map_err(|_| Status::internal("no"))?;
            return Ok(Response::new(Receipt { charge }));
        }
        if request.get_ref().ends.starts_with("workflow") {
            let charged = self.charge.resumable(request, |steps, payment| async move {
                let ask = |_key| async { provider.charge(&payment).await };
                steps.run("charge", ask).await?;
                // Taken at its word this would free the next key although the card was charged.
                Err(Status::already_exists("an earlier attempt was here").into())
            });
            return charged.await;
        }
        let charged = self.charge.reserved(request, |_, payment| async move {
            let charge = provider.charge(&payment).await?;
            Ok(Verdict::succeeded(Receipt { charge }))
        });
        charged.await
    }
}

impl Provider {
    async fn charge(&self, payment: &Payment) -> Result<String, BoxError> {
        self.begun.add_permits(1);
        if payment.ends == "waits" {
            self.gate.acquire().await?.forget();
        }
        let number = self.charges.fetch_add(1, Ordering::SeqCst) + 1;
        let retry = || ErrorDetails::with_retry_info(Some(std::time::Duration::from_secs(2)));
        Err(match payment.ends.as_str() {
            "refused" => Status::failed_precondition("no cover").into(),
            "refused by the business" => rejected(Status::internal("no cover, says the rulebook")),
            "down" => Status::with_error_details(Code::Unavailable, "down", retry()).into(),
            "lost" => Status::unavailable("the connection broke").into(),
            "untyped" => "the line is dead".into(),
            "panic" => panic!("a bug of the business"),
            "workflow lost" if number == 1 => "the line is dead".into(),
            _ => return Ok(format!("charge {number}")),
        })
    }
}

/// That an order was placed.
pub fn placed_event(number: i64) -> Message {
    Message {
        id: Key::new(format!("order-{number}/placed")).unwrap(),
        destination: "events".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
    }
}

/// A status that pretends to be a replay.
fn faked(mut status: Status) -> Status {
    status.metadata_mut().insert(REPLAYED, "true".parse().unwrap());
    status
}

/// Everything that runs.
pub struct World {
    pub orders: OrdersClient<Channel>,
    pub onefold: Onefold,
    pub provider: Arc<Provider>,
    pub answers: Arc<Semaphore>,
    address: String,
    server: JoinHandle<()>,
    directory: Arc<tempfile::TempDir>,
}

impl World {
    /// Duplicates wait; whose key it is says the interceptor.
    pub async fn open() -> World {
        World::with(WhileRunning::Wait(std::time::Duration::from_secs(20)), by_principal()).await
    }

    pub async fn with(while_running: WhileRunning, whose: Whose) -> World {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let path = directory.path().join("shop.db");
        drop(Onefold::sqlite(&path).unwrap());
        let database = rusqlite::Connection::open(path).unwrap();
        database.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)").unwrap();
        World::over(directory, while_running, whose).await
    }

    async fn over(directory: Arc<tempfile::TempDir>, while_running: WhileRunning, whose: Whose) -> World {
        let onefold = Onefold::sqlite(directory.path().join("shop.db")).unwrap();
        let provider =
            Provider { charges: AtomicUsize::new(0), gate: Semaphore::new(0), begun: Semaphore::new(0) };
        let (provider, answers) = (Arc::new(provider), Arc::new(Semaphore::new(1000)));
        let protected = |name, method| protection(&onefold, name, method, whose.clone(), while_running);
        let shop = Shop {
            place: protected("PlaceOrder", "/shop.v1.Orders/Place")
                .key_of(|asked: &Checkout| asked.labels.get("key").map_or("", String::as_str)),
            charge: protected("Charge", "/shop.v1.Orders/Charge"),
            provider: provider.clone(),
            answers: answers.clone(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let service = OrdersServer::with_interceptor(shop, authenticate);
        let serving = Server::builder().add_service(service).serve_with_incoming(incoming);
        let server = tokio::spawn(async move { serving.await.unwrap() });
        let orders = OrdersClient::connect(address.clone()).await.unwrap();
        World { orders, onefold, address, provider, answers, server, directory }
    }

    /// The server and its connections are gone; another one begins over the same file.
    pub async fn restart(self) -> World {
        let directory = self.directory.clone();
        drop(self);
        World::over(directory, WhileRunning::Wait(std::time::Duration::from_secs(20)), by_principal()).await
    }

    pub fn url(&self) -> &str {
        &self.address
    }

    pub async fn channel(&self) -> Channel {
        Channel::from_shared(self.address.clone()).unwrap().connect().await.unwrap()
    }

    pub fn order_rows(&self) -> i64 {
        let database = rusqlite::Connection::open(self.directory.path().join("shop.db")).unwrap();
        database.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }

    pub fn records(&self) -> i64 {
        let database = rusqlite::Connection::open(self.directory.path().join("shop.db")).unwrap();
        database.query_row("SELECT count(*) FROM onefold_operations", [], |row| row.get(0)).unwrap()
    }

    /// The id of the one operation.
    pub fn operation_id(&self) -> String {
        let database = rusqlite::Connection::open(self.directory.path().join("shop.db")).unwrap();
        database.query_row("SELECT lower(hex(id)) FROM onefold_operations", [], |row| row.get(0)).unwrap()
    }

    pub fn charges(&self) -> usize {
        self.provider.charges.load(Ordering::SeqCst)
    }

    pub async fn place(&self, key: &str, sku: &str) -> Result<Response<Order>, Status> {
        self.orders.clone().place(keyed(key, checkout(sku))).await
    }

    pub async fn charge(&self, key: &str, ends: &str) -> Result<Response<Receipt>, Status> {
        self.orders.clone().charge(keyed(key, payment(ends))).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

pub fn by_principal() -> Whose {
    let scope = |principal: &Principal| Scope::new([("customer", principal.0.clone())]);
    Whose::principal(move |extensions| extensions.get().map(scope))
}

#[allow(clippy::result_large_err, reason = "the signature of tonic's interceptors")]
fn authenticate(mut request: Request<()>) -> Result<Request<()>, Status> {
    let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    if let Some(who) = token.and_then(|token| token.strip_prefix("Bearer ")) {
        let principal = Principal(who.to_owned());
        request.extensions_mut().insert(principal);
    }
    Ok(request)
}

pub fn checkout(sku: &str) -> Checkout {
    Checkout { sku: sku.to_owned(), quantity: 1, ..Checkout::default() }
}

pub fn payment(ends: &str) -> Payment {
    Payment { card: "4242".into(), cents: 1999, ends: ends.to_owned() }
}

/// A request of "me" under this key.
pub fn keyed<M>(key: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    request.metadata_mut().insert("authorization", "Bearer me".parse().unwrap());
    request
}

pub fn replayed<T>(response: &Response<T>) -> bool {
    response.metadata().get(REPLAYED).is_some_and(|value| value == "true")
}

/// A status of the layer: its code, reason, and the member on new keys.
pub fn is_problem(status: &Status, code: Code, reason: &str) -> ErrorDetails {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no details: {status:?}"));
    assert_eq!((status.code(), info.reason.as_str(), info.domain.as_str()), (code, reason, "onefold.dev"));
    assert!(status.metadata().get(REPLAYED).is_none());
    assert!(status.metadata().get(OUTCOME).is_none(), "it is no word of the business");
    details
}
