//! `onefold serve`: everything is read, opened and bound before the first request is taken.

mod webhooks;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_config::{ClaimKey, Claims, Flags, Operation, Settings, TlsFiles, Upstream};
use onefold_core::Contract;
use onefold_core::contract::ScopeSource;
use onefold_engine::{Engine, Limits};
use onefold_gateway::{Implicit, Matcher, Options, Route, Webhooks};
use onefold_http::{TokenKey, TokenRule};
use onefold_messages::limits;
use prometheus_client::registry::Registry;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;

use crate::args::{Common, Serve};
use crate::end_signals::EndSignals;
use crate::exit::Failure;
use crate::store::Place;

/// Runs a gateway until SIGTERM or SIGINT.
pub(crate) async fn run(common: &Common, serve: &Serve) -> Result<ExitCode, Failure> {
    let settings = settings(common, serve)?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    upstream_is_there(&settings).await?;
    let store = Place::of_settings(&settings).open().await?;
    let engine_limits = Limits {
        live_keys_per_scope: Some(settings.limits.live_keys_per_scope),
        waiters_per_key: settings.limits.waiters_per_key,
        waiters: settings.limits.waiters,
        ..Limits::default()
    };
    let engine = Engine::new(store.operations(), "gateway", engine_limits);
    let admin = bind(settings.server.admin_listen, "admin_listen").await?;
    let webhooks = webhooks::of(&settings, &store)?;
    let mut metrics = Registry::default();
    webhooks.iter().for_each(|webhooks| webhooks.intake.signals().register(&mut metrics));
    let options = options(&settings, serve, webhooks)?;
    let listen = settings.server.listen;
    // Before anybody can know that it listens.
    let mut end = EndSignals::take()?;
    let gateway = onefold_gateway::start(options, engine.clone())
        .await
        .map_err(|error| not_bound(listen, "listen", &error))?;
    let keeper = engine.keep(settings.store.sweep_every);
    let messages_keeper = (!settings.inbox.is_empty())
        .then(|| engine.keep_messages(store.message_store(), settings.store.sweep_every, limits::SENT_KEPT));
    say_how(&settings, serve);
    let admin_address = admin.local_addr().map_err(|error| Failure::failed(error.to_string()))?;
    let stopping = Arc::new(AtomicBool::new(false));
    let router = onefold_api::router(engine, store.messages(), metrics, stopping.clone());
    let admin_task = tokio::spawn(async move { axum::serve(admin, router).await });
    let scheme = if settings.server.tls.is_some() { "https" } else { "http" };
    announce(&format!("listening on {scheme}://{}\nadmin on http://{admin_address}\n", gateway.address()))?;

    end.wait().await;
    stopping.store(true, Ordering::Relaxed);
    tracing::info!("stopping: what runs may end within the grace");
    drop((keeper, messages_keeper));
    let ended = gateway.stop(settings.server.shutdown_grace).await;
    admin_task.abort();
    if ended.operations_cut > 0 {
        let message = format!(
            "{} running operations were cut off; `onefold operations list --state outcome_unknown` lists those that somebody has to settle",
            ended.operations_cut
        );
        return Err(Failure::failed(message));
    }
    if !ended.in_time {
        return Err(Failure::failed(
            "the grace was over while requests were still being passed on; they were cut off",
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn settings(common: &Common, serve: &Serve) -> Result<Settings, Failure> {
    let flags = Flags {
        upstream: serve.upstream.clone(),
        listen: serve.listen.clone(),
        admin_listen: serve.admin_listen.clone(),
        store: common.store.clone(),
    };
    let read = match &common.config {
        Some(path) => Settings::load_with(path, &flags),
        None => Settings::without_file(&flags),
    };
    let strict = |settings: Settings| if serve.strict { settings.refuse_warnings() } else { Ok(settings) };
    read.and_then(strict).map_err(|error| Failure::usage(error.to_string()))
}

/// A file that only names destinations has none.
fn upstream(settings: &Settings) -> Result<&Upstream, Failure> {
    let message = "upstream.url: required; write url = \"http://127.0.0.1:3000\" or give --upstream";
    settings.upstream.as_ref().ok_or_else(|| Failure::usage(message))
}

/// A name that means nothing is a mistake in the settings; a service that is not up yet is only worth a word.
async fn upstream_is_there(settings: &Settings) -> Result<(), Failure> {
    let url = &upstream(settings)?.url;
    let authority = url.authority();
    let port = if url.is_https() { 443 } else { 80 };
    let has_port = http::uri::Authority::try_from(authority).is_ok_and(|a| a.port().is_some());
    let address = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
    let found = tokio::net::lookup_host(&address).await.map(|mut found| found.next());
    let Ok(Some(found)) = found else {
        return Err(Failure::unavailable(format!("the upstream {url} has no address: is its name right?")));
    };
    if let Err(error) = tokio::net::TcpStream::connect(found).await {
        tracing::warn!(%url, %error, "the upstream cannot be reached yet; until it can, requests are answered with 502");
    }
    Ok(())
}

fn options(settings: &Settings, serve: &Serve, webhooks: Option<Webhooks>) -> Result<Options, Failure> {
    let proxies = settings.server.trusted_proxies.clone();
    let implicit = match settings.operations.is_empty() {
        false => None,
        true => Some(Implicit {
            route: Route {
                label: "(unconfigured)".into(),
                method: "POST, PATCH".into(),
                path: "*".into(),
                ..route(&unconfigured(&settings.defaults), Arc::new(|_, _| None))?
            },
            anonymous: shares_one_scope(settings, serve),
        }),
    };
    Ok(Options {
        listen: settings.server.listen,
        tls: settings.server.tls.as_ref().map(tls).transpose()?,
        upstream: upstream(settings)?
            .url
            .to_string()
            .parse()
            .map_err(|error| Failure::usage(format!("upstream.url: {error}")))?,
        upstream_timeout: upstream(settings)?.timeout,
        request_bytes_max: settings.server.max_request,
        trusted: Arc::new(move |ip| proxies.iter().any(|network| network.contains(ip))),
        tokens: tokens(&settings.claims)?,
        routes: settings.operations.iter().map(configured).collect::<Result<_, _>>()?,
        implicit,
        operations_path: settings.paths.operations.clone(),
        policy_path: settings.paths.policy.clone(),
        connections_max: connections_max(),
        keep_excerpts: settings.encryption.is_empty(),
        spool_dir: std::env::temp_dir(),
        webhooks,
    })
}

/// Whether requests without credentials share one scope: only where nothing else says whose key it is, and where
/// nobody else can connect or somebody has chosen it.
fn shares_one_scope(settings: &Settings, serve: &Serve) -> bool {
    settings.defaults.scope == [ScopeSource::Credential]
        && (settings.server.listen.ip().is_loopback() || serve.allow_anonymous)
}

/// The contract of requests that no operation names: what carries no key is no operation.
fn unconfigured(defaults: &Contract) -> Contract {
    let mut contract = defaults.clone();
    contract.key.required = false;
    contract
}

fn configured(operation: &Operation) -> Result<Arc<Route>, Failure> {
    let (method, pattern) = (operation.matcher.method.clone(), operation.matcher.path.clone());
    let matches: Matcher = Arc::new(move |asked, path| {
        // Methods differ by case; some servers do not know that, so the match errs on the side of protection.
        let named = asked.as_str().eq_ignore_ascii_case(&method).then(|| pattern.matches(path)).flatten()?;
        Some(named.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    });
    let route = Route {
        label: operation.contract.operation.as_str().into(),
        method: operation.matcher.method.clone(),
        path: operation.matcher.path.to_string(),
        ..route(&operation.contract, matches)?
    };
    Ok(route.into())
}

fn route(contract: &Contract, matches: Matcher) -> Result<Route, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", contract.operation));
    let pointers = |texts: &[String]| texts.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>();
    Ok(Route {
        label: "".into(),
        method: String::new(),
        path: String::new(),
        matches,
        ignore: pointers(&contract.fingerprint.ignore).map_err(|e| wrong(&e))?,
        redact: pointers(&contract.store_response.redact).map_err(|e| wrong(&e))?,
        body_key: contract.key.body.as_ref().map(|text| text.parse()).transpose().map_err(|e| wrong(&e))?,
        contract: Arc::new(contract.clone()),
    })
}

fn tokens(claims: &Claims) -> Result<TokenRule, Failure> {
    let key = |(i, key): (usize, &ClaimKey)| {
        let key = match key {
            ClaimKey::Secret(secret) => TokenKey::secret(secret.as_bytes()),
            ClaimKey::Pem(pem) => TokenKey::pem(pem),
        };
        key.map_err(|error| Failure::usage(format!("claims.keys[{i}]: {error}")))
    };
    let keys = claims.keys.iter().enumerate().map(key).collect::<Result<_, _>>()?;
    Ok(TokenRule::new(keys, claims.issuer.clone(), claims.audience.clone()))
}

fn tls(files: &TlsFiles) -> Result<Arc<ServerConfig>, Failure> {
    let read = |path: &Path| -> Result<Vec<u8>, Failure> {
        std::fs::read(path).map_err(|error| {
            Failure::usage(format!("server.tls: {} cannot be read: {error}", path.display()))
        })
    };
    let bad = |path: &Path, what: &str| Failure::usage(format!("server.tls: {} {what}", path.display()));
    let certs = CertificateDer::pem_slice_iter(&read(&files.cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| bad(&files.cert, "is not a PEM file of certificates"))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|_| bad(&files.key, "holds no private key in PEM"))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .map_err(|error| Failure::usage(format!("server.tls: {error}")))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A caller's connection may need another to the upstream and a spool file; a few files are left for operators and
/// the store.
fn connections_max() -> usize {
    const OTHERS: u64 = 64;
    let files = rlimit::Resource::NOFILE.get_soft().unwrap_or(1024);
    usize::try_from(files.saturating_sub(OTHERS) / 3).unwrap_or(usize::MAX).clamp(16, 100_000)
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| not_bound(address, setting, &error))
}

fn not_bound(address: SocketAddr, setting: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::usage(format!(
            "server.{setting}: {address} is in use by another process; stop it, or choose another address"
        )),
        _ => Failure::usage(format!("server.{setting}: {address} cannot be listened on: {error}")),
    }
}

fn say_how(settings: &Settings, serve: &Serve) {
    if settings.operations.is_empty() {
        let anonymous = shares_one_scope(settings, serve);
        tracing::info!(
            requests_without_scope = if anonymous { "share one scope" } else { "are refused" },
            "no operation is configured: every POST and PATCH that carries {} is protected, one operation for each method and path",
            key_names(&settings.defaults),
        );
    }
    for operation in &settings.operations {
        let contract = &operation.contract;
        tracing::info!(
            operation = %contract.operation, boundary = %contract.boundary,
            "{} {} is protected", operation.matcher.method, operation.matcher.path,
        );
    }
    for inbox in &settings.inbox {
        tracing::info!(handler = inbox.forward.url, "webhooks are taken in at /inbox/{}", inbox.source);
    }
    let upstream = settings.upstream.as_ref().map(|upstream| upstream.url.to_string());
    tracing::info!(upstream, store = %settings.store.url, "ready");
}

fn key_names(contract: &Contract) -> String {
    contract.key.headers.join(" or ")
}

fn announce(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::failed(format!("stdout: {error}")))
}
