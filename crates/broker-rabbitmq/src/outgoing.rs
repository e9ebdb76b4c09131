//! A message as RabbitMQ carries it.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use onefold_messages::{Message, wire};

/// Kept by its queue over a restart of the server.
const PERSISTENT: u8 = 2;
/// What a header line takes beside its text, at most, and what all other properties take.
const LINE_OVERHEAD: usize = 16;
const PROPERTIES_OVERHEAD: usize = 640;

/// The properties of a message, or why it cannot be sent.
pub(crate) fn properties(message: &Message) -> Result<BasicProperties, String> {
    let lines = wire::lines(message);
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let id = ShortString::try_new(message.id.as_str()).map_err(|error| format!("the id: {error}"))?;
    properties = properties.with_message_id(id);
    let media_type = wire::line(&lines, wire::CONTENT_TYPE).map(ShortString::try_new);
    if let Some(Ok(media_type)) = media_type {
        properties = properties.with_content_type(media_type);
    }
    // A table has one entry for each name: the lines of one name become a list.
    let mut entries: BTreeMap<ShortString, Vec<AMQPValue>> = BTreeMap::new();
    for (name, value) in lines {
        let name = ShortString::try_new(name).map_err(|error| format!("the name of a header: {error}"))?;
        entries.entry(name).or_default().push(AMQPValue::LongString(value.into()));
    }
    let mut headers = FieldTable::default();
    for (name, mut values) in entries {
        let value = match values.len() {
            1 => values.remove(0),
            _ => AMQPValue::FieldArray(values.into()),
        };
        headers.insert(name, value);
    }
    Ok(properties.with_headers(headers))
}

/// How many bytes the properties take, at most: they travel in one frame, and the server ends the connection of whoever
/// sends a longer one.
pub(crate) fn header_bytes_max(message: &Message) -> usize {
    let lines = wire::lines(message);
    let lines = lines.iter().map(|(name, value)| name.len() + value.len() + LINE_OVERHEAD);
    lines.sum::<usize>() + PROPERTIES_OVERHEAD
}
