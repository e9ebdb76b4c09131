//! Opening the store that a command works on.

use std::process::ExitCode;
use std::sync::Arc;

use onefold_config::{Settings, StoreAccess, StoreSettings, StoreUrl};
use onefold_engine::{Engine, Limits};
use onefold_messages::{MessageStore, Messages};
use onefold_store::{OperationStore, OutboxStore};
use onefold_store_postgres::{Address, PostgresStore};
use onefold_store_sqlite::{FileUse, OpenError, SqliteStore};

use crate::args::Common;
use crate::exit::Failure;
use crate::out::print;

/// Where the store is and what it needs: from the flag, else from the settings, else the default.
pub(crate) struct Place {
    pub(crate) url: StoreUrl,
    pub(crate) seal_keys: Vec<[u8; 32]>,
    pub(crate) migrate: bool,
}

impl Place {
    /// The place that a command without `serve`'s settings works on.
    pub(crate) fn of(common: &Common) -> Result<Place, Failure> {
        let mut place = match &common.config {
            Some(path) => {
                let access = StoreAccess::load(path).map_err(|error| Failure::usage(error.to_string()))?;
                Place { url: access.store.url, seal_keys: access.encryption, migrate: access.store.migrate }
            }
            None => Place { url: StoreSettings::default().url, seal_keys: Vec::new(), migrate: false },
        };
        if let Some(url) = &common.store {
            place.url = url.parse().map_err(|error| Failure::usage(format!("--store: {error}")))?;
        }
        Ok(place)
    }

    pub(crate) fn of_settings(settings: &Settings) -> Place {
        Place {
            url: settings.store.url.clone(),
            seal_keys: settings.encryption.clone(),
            migrate: settings.store.migrate,
        }
    }

    pub(crate) async fn open(&self) -> Result<Store, Failure> {
        match &self.url {
            StoreUrl::Sqlite(path) => {
                let (seal_keys, migrate) = (self.seal_keys.clone(), self.migrate);
                let options = onefold_store_sqlite::Options { seal_keys, migrate, ..Default::default() };
                let store = match SqliteStore::open(path, options.clone()) {
                    // The file of a service that keeps its operations beside its own tables.
                    Err(foreign @ OpenError::Foreign(_)) if !migrate => {
                        let shared = onefold_store_sqlite::Options { file_use: FileUse::Shared, ..options };
                        SqliteStore::open(path, shared).map_err(|error| match error {
                            OpenError::NeedsMigration { found: 0, .. } => foreign,
                            other => other,
                        })
                    }
                    opened => opened,
                };
                Ok(Store::Sqlite(Arc::new(store.map_err(unavailable)?)))
            }
            StoreUrl::Postgres(url) => {
                let (seal_keys, migrate) = (self.seal_keys.clone(), self.migrate);
                let options = onefold_store_postgres::Options { seal_keys, migrate, ..Default::default() };
                let store = PostgresStore::open(&address(url)?, options).await.map_err(unavailable)?;
                Ok(Store::Postgres(Arc::new(store)))
            }
        }
    }

    /// Opens the store that is there; makes none.
    pub(crate) async fn open_existing(self) -> Result<Store, Failure> {
        if let StoreUrl::Sqlite(path) = &self.url
            && !path.exists()
        {
            let message =
                format!("there is no store at {}; name it with --store or --config", path.display());
            return Err(Failure::unavailable(message));
        }
        Place { migrate: false, ..self }.open().await
    }
}

/// A store that is open.
pub(crate) enum Store {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Store {
    /// As the engine sees it.
    pub(crate) fn operations(&self) -> Arc<dyn OperationStore> {
        match self {
            Store::Sqlite(store) => store.clone(),
            Store::Postgres(store) => store.clone(),
        }
    }

    /// As a relay sees it.
    pub(crate) fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.message_store()
    }

    /// With both boxes.
    pub(crate) fn message_store(&self) -> Arc<dyn MessageStore> {
        match self {
            Store::Sqlite(store) => store.clone(),
            Store::Postgres(store) => store.clone(),
        }
    }

    /// As people see its messages.
    pub(crate) fn messages(&self) -> Messages {
        Messages::new(self.message_store())
    }
}

/// The address of a PostgreSQL store.
pub(crate) fn address(url: &str) -> Result<Address, Failure> {
    Address::parse(url).map_err(|error| Failure::usage(error.to_string()))
}

fn unavailable(error: impl std::error::Error) -> Failure {
    Failure::unavailable(error.to_string())
}

/// An engine for a command over the store that is there; it makes none.
pub(crate) async fn engine(common: &Common) -> Result<Engine, Failure> {
    let store = Place::of(common)?.open_existing().await?;
    Ok(Engine::new(store.operations(), "cli", Limits::default()))
}

/// What is told of a schema that this release can work on.
fn migrated(url: &StoreUrl, found: u32, own: u32) -> String {
    if found > own {
        return format!(
            "{url} has schema {found} of a later release, which lets this one (schema {own}) work; nothing was changed"
        );
    }
    format!("{url} has the schema of this release ({own})")
}

/// `onefold store migrate`
pub(crate) async fn migrate(common: &Common) -> Result<ExitCode, Failure> {
    let place = Place { migrate: true, ..Place::of(common)? };
    let (found, own) = match place.open().await? {
        Store::Sqlite(store) => {
            (store.schema().await.map_err(unavailable)?, onefold_store_sqlite::SCHEMA_VERSION)
        }
        Store::Postgres(store) => {
            (store.schema().await.map_err(unavailable)?, onefold_store_postgres::SCHEMA_VERSION)
        }
    };
    print(migrated(&place.url, found, own))?;
    Ok(ExitCode::SUCCESS)
}
