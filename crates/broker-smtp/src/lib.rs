//! Mail: a destination of the relay that speaks SMTP ([`SmtpSink`]).
//!
//! *Promises.* A mail counts as accepted when the server says 2xx to its end, and nothing less. Until the final dot
//! is written a loss is surely no delivery, and the mail is sent again. From then on only the server's word counts:
//! where it is lost the mail is `outcome_unknown` and is never sent again by itself, since nobody behind a mail
//! server knows a message again. The Message-ID follows from the message's id, the same in every sending. A mail goes
//! to all of its recipients or to none. No reason holds an address, a text or a secret.
//!
//! *Not.* Accepted by the server is not delivered to a mailbox: bounces come later, as mails. More in
//! `docs/brokers.md`.

mod address;
mod archive;
mod conversation;
mod letter;
pub mod limits;
mod raw;
mod server;
mod sink;

pub use archive::MailLookUp;
pub use onefold_messages::Found;
pub use onefold_messages::mail::Mail;
pub use server::SetupError;
pub use sink::SmtpSink;
