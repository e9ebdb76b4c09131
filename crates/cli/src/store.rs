//! Opening the store that a command works on.

use std::process::ExitCode;
use std::sync::Arc;

use onefold_config::{Settings, StoreSettings, StoreUrl};
use onefold_engine::{Engine, Limits};
use onefold_store_sqlite::{Options, SqliteStore};

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
                let settings = Settings::load(path).map_err(|error| Failure::usage(error.to_string()))?;
                Place::of_settings(&settings)
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

    pub(crate) fn open(&self) -> Result<SqliteStore, Failure> {
        let StoreUrl::Sqlite(path) = &self.url;
        let options =
            Options { seal_keys: self.seal_keys.clone(), migrate: self.migrate, ..Options::default() };
        SqliteStore::open(path, options).map_err(|error| Failure::unavailable(error.to_string()))
    }
}

/// An engine for a command over the store that is there; it makes none.
pub(crate) fn engine(common: &Common) -> Result<Engine, Failure> {
    let place = Place { migrate: false, ..Place::of(common)? };
    let StoreUrl::Sqlite(path) = &place.url;
    if !path.exists() {
        let message = format!("there is no store at {}; name it with --store or --config", path.display());
        return Err(Failure::unavailable(message));
    }
    Ok(Engine::new(Arc::new(place.open()?), "cli", Limits::default()))
}

/// `onefold store migrate`
pub(crate) fn migrate(common: &Common) -> Result<ExitCode, Failure> {
    let place = Place { migrate: true, ..Place::of(common)? };
    place.open()?;
    print(format!("{} has the schema of this release", place.url))?;
    Ok(ExitCode::SUCCESS)
}
