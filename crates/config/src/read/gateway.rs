//! The sections of the gateway as a whole: server, store, limits, upstream, encryption.
//!
//! A flag overrules the setting of the same name, and what is wrong with it is told of the flag.

use std::net::{IpAddr, SocketAddr};

use super::document::Table;
use super::report::Report;
use super::{Environment, secret};
use crate::kind::{ADDRESS, FILE, Kind, NETWORK, OWN_PATH, STORE_URL, UPSTREAM_URL};
use crate::quantity::{DURATION, SPAN};
use crate::{Flags, Limits, Paths, Server, StoreSettings, TlsFiles, Upstream, UpstreamUrl};

/// More records of one scope than this are a limit that never bites.
const LIVE_KEYS_MAX: u64 = 1_000_000_000;
/// Each waiter holds a connection; no host holds more.
const WAITERS_MAX: u64 = 1_000_000;

/// Where a value comes from, for mistakes that only show together with others.
enum Origin {
    Flag(&'static str),
    Setting { at: usize, field: String },
    Default { field: String },
}

impl Origin {
    fn refuse(&self, report: &Report<'_>, message: String) {
        match self {
            Origin::Flag(flag) => report.flag_mistake(flag, message),
            Origin::Setting { at, field } => report.mistake(*at, field, message),
            Origin::Default { field } => report.missing(field, message),
        }
    }
}

/// The flag's value, else the setting's, each where it came from. `None`: neither is there, or it is wrong.
fn flag_or_setting<T>(
    section: Option<&Table<'_>>,
    name: &str,
    (flag, text): (&'static str, Option<&String>),
    kind: &Kind<T>,
    report: &Report<'_>,
) -> Option<(T, Origin)> {
    let setting = section.and_then(|section| section.get(name));
    let written = setting.and_then(|setting| {
        let origin = Origin::Setting { at: setting.at, field: setting.field.clone() };
        Some((setting.text(kind)?, origin))
    });
    let Some(text) = text else { return written };
    kind.read(text)
        .map_err(|wrong| report.flag_mistake(flag, wrong))
        .ok()
        .map(|value| (value, Origin::Flag(flag)))
}

pub(super) fn server(root: &Table<'_>, flags: &Flags) -> (Server, Paths) {
    let (mut server, mut paths) = (Server::default(), Paths::default());
    let table = root.table("server");
    listeners(root.report, table.as_ref(), flags, &mut server);
    let Some(table) = table else { return (server, paths) };
    set(&mut server.shutdown_grace, table.text("shutdown_grace", &DURATION));
    set(&mut server.trusted_proxies, table.texts("trusted_proxies", &NETWORK));
    set(&mut server.max_request, table.size("max_request", 1));
    server.tls = table.table("tls").and_then(|tls| {
        let (cert, key) =
            (required(&tls, "cert", "\"cert.pem\"", &FILE), required(&tls, "key", "\"key.pem\"", &FILE));
        Some(TlsFiles { cert: cert?, key: key? })
    });
    if let Some(value) = table.get("trusted_proxies")
        && let Some(everybody) = server.trusted_proxies.iter().find(|network| network.is_everybody())
    {
        let message = format!("{everybody} lets every caller set forwarded and tenant headers");
        table.report.warning(value.at, &value.field, message);
    }
    set(&mut paths.operations, table.text("operations_path", &OWN_PATH));
    set(&mut paths.policy, table.text("policy_path", &OWN_PATH));
    let beneath = |path: &str, other: &str| {
        path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if beneath(&paths.policy, &paths.operations) || beneath(&paths.operations, &paths.policy) {
        let name = if table.get("policy_path").is_some() { "policy_path" } else { "operations_path" };
        let at = table.get(name).map_or(table.at, |value| value.at);
        let message = format!(
            "{} and {} lie one within the other; write two that do not",
            paths.operations, paths.policy
        );
        table.report.mistake(at, &table.field_of(name), message);
    }
    (server, paths)
}

fn listeners(report: &Report<'_>, table: Option<&Table<'_>>, flags: &Flags, server: &mut Server) {
    let listen = flag_or_setting(table, "listen", ("--listen", flags.listen.as_ref()), &ADDRESS, report);
    let flag = ("--admin-listen", flags.admin_listen.as_ref());
    let admin = flag_or_setting(table, "admin_listen", flag, &ADDRESS, report);
    let (listen, listen_origin) = listen.unzip();
    set(&mut server.listen, listen);
    let (address, origin) =
        admin.unwrap_or((server.admin_listen, Origin::Default { field: "server.admin_listen".into() }));
    server.admin_listen = address;
    if !address.ip().to_canonical().is_loopback() {
        let message = format!(
            "{address} is refused: the admin listener has no roles yet; listen on loopback, such as 127.0.0.1:7070"
        );
        origin.refuse(report, message);
    } else if takes(server.listen, address) {
        let listen = server.listen;
        match (&origin, listen_origin) {
            (Origin::Default { .. }, Some(chosen)) => {
                chosen.refuse(
                    report,
                    format!("{listen} takes server.admin_listen, {address}; write another port"),
                );
            }
            _ => origin
                .refuse(report, format!("{address} is taken by server.listen, {listen}; write another port")),
        }
    }
}

/// Whether whoever asks for `other` on this host meets the listener on `listen`. Port 0 is any that is free.
fn takes(listen: SocketAddr, other: SocketAddr) -> bool {
    let (ip, other_ip): (IpAddr, IpAddr) = (listen.ip().to_canonical(), other.ip().to_canonical());
    listen.port() != 0
        && listen.port() == other.port()
        && (ip == other_ip || ip.is_unspecified() && other_ip.is_loopback())
}

pub(super) fn store(root: &Table<'_>, flags: &Flags) -> StoreSettings {
    let mut store = StoreSettings::default();
    let table = root.table("store");
    let flag = ("--store", flags.store.as_ref());
    let url = flag_or_setting(table.as_ref(), "url", flag, &STORE_URL, root.report);
    set(&mut store.url, url.map(|(url, _)| url));
    if let Some(table) = table {
        set(&mut store.migrate, table.truth("migrate"));
        set(&mut store.sweep_every, table.text("sweep_every", &SPAN));
    }
    store
}

pub(super) fn limits(root: &Table<'_>) -> Limits {
    let mut limits = Limits::default();
    if let Some(table) = root.table("limits") {
        let waiters =
            |name| table.number(name, 0..=WAITERS_MAX).and_then(|number| usize::try_from(number).ok());
        set(&mut limits.live_keys_per_scope, table.number("live_keys_per_scope", 1..=LIVE_KEYS_MAX));
        set(&mut limits.waiters_per_key, waiters("waiters_per_key"));
        set(&mut limits.waiters, waiters("waiters"));
    }
    limits
}

/// `None`: there is no upstream that could be asked, and it is reported.
pub(super) fn upstream(root: &Table<'_>, flags: &Flags, listen: SocketAddr) -> Option<Upstream> {
    let table = root.table("upstream");
    let flag = ("--upstream", flags.upstream.as_ref());
    let url = flag_or_setting(table.as_ref(), "url", flag, &UPSTREAM_URL, root.report);
    let mut timeout = Upstream::TIMEOUT;
    if let Some(table) = &table {
        set(&mut timeout, table.text("timeout", &SPAN));
    }
    let message = "required; write url = \"http://127.0.0.1:3000\" or give --upstream";
    match &table {
        _ if flags.upstream.is_some() => {}
        Some(table) if table.get("url").is_some() => {}
        Some(table) => root.report.mistake(table.at, &table.field_of("url"), message),
        // Something that is no table stands there, and that is told.
        None if root.get("upstream").is_some() => {}
        // A file of a relay.
        None if root.get("destination").is_some() => {}
        None => root.report.missing("upstream.url", message),
    }
    let (url, origin) = url?;
    if address_of(&url).is_some_and(|upstream| takes(listen, upstream)) {
        origin.refuse(root.report, "this is server.listen: the gateway would call itself; write the address of the service behind it".into());
    }
    Some(Upstream { url, timeout })
}

/// The address of an upstream that is named by its IP address, or is `localhost`.
fn address_of(url: &UpstreamUrl) -> Option<SocketAddr> {
    let port = if url.is_https() { 443 } else { 80 };
    let authority = url.authority().replace("localhost", "127.0.0.1");
    authority.parse().or_else(|_| format!("{authority}:{port}").parse()).ok()
}

pub(super) fn encryption(root: &Table<'_>, environment: Environment<'_>) -> Vec<[u8; 32]> {
    let Some(keys) = root.table("encryption").and_then(|table| table.get("keys")) else { return Vec::new() };
    let Some(items) = keys.items() else {
        keys.refuse::<()>("keys are a list; write [\"env:NAME\"] or [\"file:PATH\"]");
        return Vec::new();
    };
    let read = items.filter_map(|item| match item.value.as_str() {
        Some(reference) => secret::key(reference, environment).map_or_else(|wrong| item.refuse(wrong), Some),
        None => item.refuse(secret::ELSEWHERE),
    });
    read.collect()
}

/// Reads a setting that must be there.
pub(super) fn required<T>(table: &Table<'_>, name: &str, example: &str, kind: &Kind<T>) -> Option<T> {
    if table.get(name).is_none() {
        table.report.mistake(table.at, &table.field_of(name), format!("required; write {name} = {example}"));
    }
    table.text(name, kind)
}

/// Keeps the default where nothing was written.
pub(super) fn set<T>(setting: &mut T, written: Option<T>) {
    if let Some(written) = written {
        *setting = written;
    }
}
