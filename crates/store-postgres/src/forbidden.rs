//! Statements that are not for a closure: those that begin, end or leave its transaction, and those that change the
//! session or the settings on which the layer's promise rests.
//!
//! The server takes one statement at a time here, so the first word says what it is. Functions are not looked into.

/// First words of statements that begin, end or leave a transaction or change the session.
const FORBIDDEN: &[&str] = &[
    "abort",
    "begin",
    "commit",
    "deallocate",
    "discard",
    "end",
    "listen",
    "prepare",
    "release",
    "reset",
    "rollback",
    "savepoint",
    "set",
    "start",
    "unlisten",
];

/// Settings that are the layer's also within the transaction: whether the commit is durable, and how long statements
/// run.
const LAYERS_SETTINGS: &[&str] = &["statement_timeout", "synchronous_commit", "transaction_timeout"];

/// What a statement does that a closure may not, if anything.
pub(crate) fn forbidden(sql: &str) -> Option<String> {
    let statement = first_token_on(sql);
    let word: String =
        statement.chars().take_while(|c| c.is_ascii_alphabetic()).map(|c| c.to_ascii_lowercase()).collect();
    let set_local = || {
        let rest = first_token_on(&statement[word.len()..]);
        // As a word of its own: `local.x` and `local_x` are settings.
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "_.$\"".contains(c));
        rest.get(..5).is_some_and(|next| next.eq_ignore_ascii_case("local")) && ends(&rest[5..])
    };
    if FORBIDDEN.contains(&word.as_str()) && !(word == "set" && set_local()) {
        return Some(word);
    }
    if word == "set" {
        let setting = setting(&first_token_on(&statement[word.len()..])["local".len()..]);
        // A name in Unicode escapes may be any.
        if LAYERS_SETTINGS.contains(&setting.as_str()) || setting == "u&" {
            return Some(format!("set local {setting}"));
        }
    }
    None
}

/// The name of a setting: its first letters, quoted or not.
fn setting(sql: &str) -> String {
    let name = first_token_on(sql).trim_start_matches('"');
    let letters = name.chars().take_while(|c| c.is_ascii_alphanumeric() || "_&".contains(*c));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// What begins at the first token: behind blanks, comments and empty statements.
fn first_token_on(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if let Some(line) = rest.strip_prefix("--") {
            rest = line.find(['\n', '\r']).map_or("", |end| &line[end..]);
        } else if rest.starts_with("/*") {
            rest = behind_comment(rest);
        } else {
            return rest;
        }
    }
}

/// What follows a comment, which may hold others.
fn behind_comment(sql: &str) -> &str {
    let (bytes, mut depth, mut at) = (sql.as_bytes(), 0_u32, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return &sql[at..];
                }
            }
            _ => at += 1,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_leave_the_transaction_are_refused_however_they_are_written() {
        for sql in [
            "COMMIT",
            " ; commit",
            "-- a word\nROLLBACK",
            "/* a /* nested */ comment */ Begin",
            ";;/**/--\r\nEND",
            "SAVEPOINT a",
            "SET search_path = evil",
            "set session statement_timeout = 1",
            "DISCARD ALL",
            "SET local_app.tenant = 'x'",
            "SET local.tenant = '7'",
            "SET LOCAL synchronous_commit = off",
            "set /* a */ local -- b\n Synchronous_Commit TO local",
            "SET LOCAL \"synchronous_commit\" = off",
            "SET LOCAL U&\"synchronous\\005Fcommit\" = off",
            "SET LOCAL statement_timeout = 0",
        ] {
            assert!(forbidden(sql).is_some(), "{sql}");
        }
    }

    #[test]
    fn other_statements_pass() {
        for sql in [
            "INSERT INTO commits VALUES (1)",
            "select 'COMMIT'",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "SET LOCAL lock_timeout = 5",
            "SET LOCAL synchronous_commit_of_mine.x = off",
            "UPDATE t SET a = 1",
            "/* unfinished",
            "",
        ] {
            assert_eq!(forbidden(sql), None, "{sql}");
        }
    }
}
