//! The client of reqwest underneath: it sends each request once, over TLS of rustls and ring.

use std::sync::Arc;
use std::time::Duration;

use rustls_platform_verifier::BuilderVerifierExt;
use tokio_rustls::rustls;

use super::ClientError;

/// How long a connection may take to be made: a host that is there answers within.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. Servers close theirs after five seconds and more; a request that is written
/// into a closing one is lost.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// A client of reqwest that sends each request once: it repeats nothing and follows no redirect, whatever `change`
/// says. For those who count their attempts themselves.
///
/// # Errors
/// [`ClientError::Setup`]: the settings cannot be had.
pub fn once_client(
    change: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, ClientError> {
    let tls = tls().map_err(|error| ClientError::Setup(error.into()))?;
    let ours = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_MAX)
        .pool_idle_timeout(IDLE_MAX);
    let http = change(ours).retry(reqwest::retry::never()).redirect(reqwest::redirect::Policy::none());
    http.build().map_err(|error| ClientError::Setup(error.into()))
}

/// ring, and the certificates of the system; where it has none (an image without files), those of Mozilla.
fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = || {
        rustls::ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()
    };
    let trusting = match builder()?.with_platform_verifier() {
        Ok(trusting) => trusting,
        Err(_) => {
            let mozilla = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            builder()?.with_root_certificates(mozilla)
        }
    };
    let mut tls = trusting.with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}
