//! A proxy between a client and the server that can swallow what goes one way, and cut every connection.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swallow {
    Nothing,
    ToClient,
    ToServer,
    /// What goes to the client, from when it asks to consume.
    ToClientOnceItConsumes,
}

/// The class and the number of `basic.consume`.
const CONSUME: [u8; 4] = [0, 60, 0, 20];

pub struct Proxy {
    pub url: String,
    swallow: Arc<watch::Sender<Swallow>>,
    cut: watch::Sender<u32>,
}

impl Proxy {
    /// In front of the server of this address.
    pub async fn start(url: &str) -> Proxy {
        let (front, server) = url.rsplit_once('@').expect("an address with a user");
        let server: SocketAddr = server.trim_end_matches('/').parse().expect("an address of loopback");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{front}@{}", listener.local_addr().unwrap());
        let swallow = Arc::new(watch::Sender::new(Swallow::Nothing));
        let (cut, seen) = watch::channel(0);
        let of_task = swallow.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (swallow, mut cut) = (of_task.clone(), seen.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    // The cut first: what was swallowed until then must not pass on an old connection.
                    tokio::select! {
                        biased;
                        _ = cut.changed() => {}
                        () = copy(from_client, to_server, Swallow::ToServer, &swallow) => {}
                        () = copy(from_server, to_client, Swallow::ToClient, &swallow) => {}
                    }
                });
            }
        });
        Proxy { url, swallow, cut }
    }

    /// From now on, until it is cut.
    pub fn swallow(&self, what: Swallow) {
        self.swallow.send_replace(what);
    }

    /// Ends every connection; later ones pass again.
    pub fn cut(&self) {
        self.cut.send_modify(|times| *times += 1);
        self.swallow.send_replace(Swallow::Nothing);
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    way: Swallow,
    swallow: &watch::Sender<Swallow>,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let consumes = way == Swallow::ToServer && bytes[..read].windows(4).any(|part| part == CONSUME);
        if consumes && *swallow.borrow() == Swallow::ToClientOnceItConsumes {
            swallow.send_replace(Swallow::ToClient);
        }
        if *swallow.borrow() != way && to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
