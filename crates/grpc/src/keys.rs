//! Where the key of a call is: in its metadata, in its message, or in both, which must agree.

use std::any::Any;
use std::sync::Arc;

use onefold_core::contract::KeyRule;
use onefold_core::{Key, KeyError};
use onefold_http::{answers, header_key};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use crate::answer;

type Closure = dyn for<'m> Fn(&'m dyn Any) -> Option<&'m str> + Send + Sync;

/// Where the key of a method's calls is.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) rule: KeyRule,
    message: Option<Arc<Closure>>,
}

impl Keys {
    /// In the metadata alone.
    pub(crate) fn of_metadata(rule: KeyRule) -> Keys {
        Keys { rule, message: None }
    }

    /// In a field of the message as well.
    pub(crate) fn of_message<M: 'static>(self, of: impl Fn(&M) -> &str + Send + Sync + 'static) -> Keys {
        let field: Box<Closure> = Box::new(move |message| message.downcast_ref::<M>().map(&of));
        Keys { message: Some(field.into()), ..self }
    }

    /// The key of this call; `None`: nobody names one.
    pub(crate) fn of<M: 'static>(&self, request: &Request<M>) -> Result<Option<Key>, Status> {
        let wrong = |error: KeyError| answer::refusal(answers::key_wrong(&error));
        let in_metadata = of_metadata(&self.rule, request.metadata()).map_err(wrong)?;
        let Some(field) = &self.message else { return Ok(in_metadata) };
        let Some(named) = field(request.get_ref()) else {
            tracing::error!("the key of a method is looked for in messages of another type than its own");
            return Err(Status::internal("the method looks for its key in another message"));
        };
        // What proto3 says of a field that was not set.
        if named.is_empty() {
            return Ok(in_metadata);
        }
        let named = Key::new(named).map_err(wrong)?;
        match in_metadata {
            Some(said) if said != named => {
                Err(wrong(KeyError::Ambiguous("the message and its metadata name different keys")))
            }
            _ => Ok(Some(named)),
        }
    }
}

fn of_metadata(rule: &KeyRule, metadata: &MetadataMap) -> Result<Option<Key>, KeyError> {
    header_key(rule, metadata.as_ref())
}
