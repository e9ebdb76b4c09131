//! The settings of `[[inbox]]`.

use super::Preset::{Is, Means, Required};
use super::Setting;

pub(super) const SAYS: &str = "\
Webhooks of one sender, for `POST /inbox/{source}`: verified, made durable, and forwarded to your handler until it has \
accepted them, always under one key. [Webhooks](webhooks.md) explains them, sender by sender.";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "source",
        value: "path segments of letters, digits, `-`, `_`, `.`",
        default: Required,
        says: "Who sends; ids are unique to a source only, so renaming it forgets what came.",
    },
    Setting {
        name: "scheme",
        value: "`\"standard\"`, `\"stripe\"`, `\"github\"`, `\"shopify\"`, `\"hmac\"`, `\"none\"`",
        default: Required,
        says: "How a delivery is signed: as [Standard Webhooks](https://www.standardwebhooks.com), as those services do, by HMAC-SHA-256 as `signature` says, or not at all. GitHub, Shopify and `hmac` sign neither time nor headers.",
    },
    Setting {
        name: "secrets",
        value: "list of secrets",
        default: Means("required but with `scheme = \"none\"`"),
        says: "All are accepted, so that they can change. `standard` takes them in base64, perhaps behind `whsec_`; the others as they stand, unless `signature.key` says otherwise.",
    },
    Setting {
        name: "signature.header",
        value: "header name",
        default: Means("required with `scheme = \"hmac\"`"),
        says: "Where the HMAC-SHA-256 of the body is.",
    },
    Setting {
        name: "signature.encoding",
        value: "`\"hex\"`, `\"base64\"`",
        default: Means("`\"hex\"`"),
        says: "How it is written.",
    },
    Setting {
        name: "signature.prefix",
        value: "string",
        default: Means("none"),
        says: "What stands in front of it, such as `sha256=`.",
    },
    Setting {
        name: "signature.key",
        value: "`\"text\"`, `\"hex\"`, `\"base64\"`",
        default: Means("`\"text\"`"),
        says: "How the secrets are written.",
    },
    Setting {
        name: "signature.before_body",
        value: "string",
        default: Means("nothing"),
        says: "What is signed in front of the body, such as the URL of the endpoint.",
    },
    Setting {
        name: "tolerance",
        value: "duration above `0s`",
        default: Means("`\"5m\"`, with `standard` and `stripe`"),
        says: "How far the signed time may be from now, before it and after it.",
    },
    Setting {
        name: "id",
        value: "pointer, or `\"header:NAME\"`",
        default: Means("where the scheme has it; required with `hmac` and `none`"),
        says: "The id of the message, the same in every delivery: `webhook-id`, `/id` of Stripe, `X-GitHub-Delivery`, `X-Shopify-Topic` with `X-Shopify-Event-Id`.",
    },
    Setting {
        name: "entity",
        value: "pointer, or `\"header:NAME\"`",
        default: Means("none"),
        says: "What a message is about: those about one thing are forwarded one after the other.",
    },
    Setting {
        name: "version",
        value: "pointer, or `\"header:NAME\"`",
        default: Means("none"),
        says: "The version of that entity, a whole number or a time of RFC 3339; an older one is marked superseded and not forwarded.",
    },
    Setting {
        name: "ignore",
        value: "list of pointers",
        default: Means("none; `[\"/pending_webhooks\", \"/request\"]` with `stripe`"),
        says: "Members of the body that may differ between deliveries under one id; anything else that differs is a conflict.",
    },
    Setting {
        name: "retention",
        value: "duration, or `\"forever\"`",
        default: Is("\"40d\""),
        says: "How long an id is known once its message was taken in, and its body kept; never shorter than it is on its way. Below `3d` there is a warning.",
    },
    Setting {
        name: "max_waiting",
        value: "number from 1 to 1000000000",
        default: Is("100000"),
        says: "Messages that may wait for the handler; beyond that a delivery is answered 503 and not noted. Dead letters do not count.",
    },
    Setting { name: "forward.url", value: "URL", default: Required, says: "The handler." },
    Setting {
        name: "forward.timeout",
        value: "duration above `0s`",
        default: Is("\"30s\""),
        says: "How long it may take.",
    },
    Setting {
        name: "forward.attempts",
        value: "number from 1 to 1000",
        default: Is("10"),
        says: "Failed tries after which a message is a dead letter.",
    },
    Setting {
        name: "reply",
        value: "`\"accepted\"`, `\"forwarded\"`",
        default: Is("\"accepted\""),
        says: "What the sender gets: 202 once the message is durable, or the handler's answer.",
    },
];
