//! Idempotency over HTTP: key carriers, problem documents, kept answers.
