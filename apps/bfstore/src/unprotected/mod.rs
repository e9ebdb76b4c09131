//! One protection is taken away at a time, and the duplicate that it prevents appears: so the other runs are known to be
//! able to fail. Each scene is played with all protections and with all but one; everything else is the same.

mod scenes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use scenes::Scene;

use crate::ground::Ground;
use crate::safeguard::Safeguard;

/// Stages at once: each is seven processes.
const STAGES_MAX: usize = 3;

/// What a scene has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// With all protections.
    pub with: String,
    /// With all but one.
    pub without: String,
}

impl Shown {
    /// Why the protection is not shown to prevent the duplicate; nothing where it is.
    pub fn faults(&self, scene: &Scene) -> Vec<String> {
        let mut faults = Vec::new();
        if self.with != scene.once {
            faults.push(format!("with all protections: {} {}, not {}", self.with, scene.effect, scene.once));
        }
        if self.without != scene.doubled {
            let Scene { effect, doubled, .. } = scene;
            faults.push(format!("taken away it is not missed: {} {effect}, not {doubled}", self.without));
        }
        faults
    }
}

/// Plays every scene and prints the table. Exit code 1 where a protection that is taken away is not missed.
pub async fn show(binary: &Path, ground: &Ground) -> anyhow::Result<ExitCode> {
    let (places, mut playing) = (Arc::new(Semaphore::new(STAGES_MAX)), JoinSet::new());
    for (place, protection) in Safeguard::ALL.into_iter().enumerate() {
        let (places, binary, ground) = (places.clone(), PathBuf::from(binary), ground.clone());
        // On a thread of its own: a scene waits for async closures, and the compiler cannot tell that these may be sent.
        let runtime = Handle::current();
        playing.spawn_blocking(move || {
            runtime.block_on(async move {
                let _place = places.acquire().await?;
                eprintln!("{}", protection.name());
                let scene = Scene::of(protection);
                let shown = scene.play(&binary, &ground).await?;
                anyhow::Ok((place, scene, shown))
            })
        });
    }
    let mut played = Vec::new();
    while let Some(scene) = playing.join_next().await {
        played.push(scene??);
    }
    played.sort_by_key(|(place, ..)| *place);
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["protection", "what happens", "", "with it", "without it", ""]);
    let mut code = ExitCode::SUCCESS;
    let mut said = Vec::new();
    for (_, scene, shown) in &played {
        let faults = shown.faults(scene);
        let verdict = if faults.is_empty() { "as promised" } else { "WRONG" };
        let row =
            [scene.protection.name(), scene.happens, scene.effect, &shown.with, &shown.without, verdict];
        table.add_row(row);
        said.extend(faults.into_iter().map(|fault| format!("{}: {fault}", scene.protection.name())));
    }
    println!("{table}");
    for fault in said {
        println!("{fault}");
        code = ExitCode::FAILURE;
    }
    Ok(code)
}
