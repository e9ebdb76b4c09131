//! A protected request is read whole before it is claimed: a cut request takes no claim and never reaches the
//! upstream. Small ones stay in memory, larger ones go to a spool file that has no name, so a crash leaves none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use onefold_http::clean_trailers;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::body::{AnyBody, Filled, whole};
use crate::limits::{BODY_SILENCE_MAX, FRAMES_MAX, REQUEST_MEMORY_MAX, SPOOL_CHUNK};

/// A request's body, held so that every attempt can send it.
#[derive(Clone)]
pub(crate) struct Held {
    content: Content,
    trailers: Option<HeaderMap>,
}

#[derive(Clone)]
enum Content {
    Memory(Bytes),
    Spool { file: Arc<File>, length: u64 },
}

/// Why a request was not read whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the request is longer than {max} bytes")]
    TooLarge { max: u64 },
    #[error("the request was cut: {0}")]
    Cut(hyper::Error),
    #[error("the request fell silent")]
    Silent,
    #[error("the request could not be spooled: {0}")]
    Spool(#[from] io::Error),
}

impl Held {
    /// Reads the body whole and shows each part on the way.
    pub(crate) async fn read(
        mut body: Incoming,
        max: u64,
        mut show: impl FnMut(&[u8]),
        spool_dir: &Path,
    ) -> Result<Held, ReadError> {
        if body.size_hint().lower() > max {
            return Err(ReadError::TooLarge { max });
        }
        let mut memory = BytesMut::new();
        let mut spool: Option<Arc<File>> = None;
        let (mut length, mut trailers) = (0u64, None);
        while let Some(frame) =
            timeout(BODY_SILENCE_MAX, body.frame()).await.map_err(|_| ReadError::Silent)?
        {
            let data = match frame.map_err(ReadError::Cut)?.into_data() {
                Ok(data) => data,
                Err(other) => {
                    trailers = other.into_trailers().ok().map(|trailers| clean_trailers(&trailers));
                    continue;
                }
            };
            show(&data);
            let offset = length;
            length += data.len() as u64;
            if length > max {
                return Err(ReadError::TooLarge { max });
            }
            match &spool {
                Some(file) => write_at(file, data, offset).await?,
                None if memory.len() + data.len() <= REQUEST_MEMORY_MAX => memory.extend_from_slice(&data),
                None => {
                    let file = Arc::new(tempfile::tempfile_in(spool_dir)?);
                    memory.extend_from_slice(&data);
                    write_at(&file, std::mem::take(&mut memory).freeze(), 0).await?;
                    spool = Some(file);
                }
            }
        }
        let content = match spool {
            Some(file) => Content::Spool { file, length },
            None => Content::Memory(memory.freeze()),
        };
        Ok(Held { content, trailers })
    }

    /// The body for one attempt.
    pub(crate) fn to_body(&self) -> AnyBody {
        match &self.content {
            Content::Memory(bytes) => whole(bytes.clone(), self.trailers.clone()),
            Content::Spool { file, length } => {
                let (parts, body) = mpsc::channel(FRAMES_MAX);
                let exact = self.trailers.is_none().then_some(*length);
                let (file, length, trailers) = (file.clone(), *length, self.trailers.clone());
                tokio::spawn(async move {
                    let mut offset = 0;
                    while offset < length {
                        let frame = match read_at(&file, offset, length - offset).await {
                            Ok(chunk) => {
                                offset += chunk.len() as u64;
                                Ok(Frame::data(chunk))
                            }
                            Err(error) => Err(error.into()),
                        };
                        let failed = frame.is_err();
                        if parts.send(frame).await.is_err() || failed {
                            return;
                        }
                    }
                    if let Some(trailers) = trailers {
                        let _ = parts.send(Ok(Frame::trailers(trailers))).await;
                    }
                });
                Filled::new(body, exact).boxed_unsync()
            }
        }
    }

    /// How long it is, in bytes.
    pub(crate) fn length(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Spool { length, .. } => *length,
        }
    }

    /// All bytes in memory, for a key that the body carries, and for a webhook that is stored.
    pub(crate) async fn bytes(&self) -> io::Result<Bytes> {
        match &self.content {
            Content::Memory(bytes) => Ok(bytes.clone()),
            Content::Spool { file, length } => {
                let mut all = BytesMut::new();
                while (all.len() as u64) < *length {
                    let offset = all.len() as u64;
                    all.extend_from_slice(&read_at(file, offset, length - offset).await?);
                }
                Ok(all.freeze())
            }
        }
    }
}

async fn write_at(file: &Arc<File>, data: Bytes, offset: u64) -> io::Result<()> {
    let file = file.clone();
    spawn_blocking(move || file.write_all_at(&data, offset)).await?
}

async fn read_at(file: &Arc<File>, offset: u64, left: u64) -> io::Result<Bytes> {
    let file = file.clone();
    let size = usize::try_from(left).unwrap_or(usize::MAX).min(SPOOL_CHUNK);
    spawn_blocking(move || {
        let mut chunk = vec![0; size];
        file.read_exact_at(&mut chunk, offset)?;
        Ok(Bytes::from(chunk))
    })
    .await?
}
