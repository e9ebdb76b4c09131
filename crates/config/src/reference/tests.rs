//! The page equals the table, and the table equals what is read.

use super::*;
use crate::Settings;

#[test]
fn the_page_of_the_documentation_is_this_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == reference(),
        "docs/configuration.md is of another table; run this test with UPDATE_DOCS=1"
    );
}

#[test]
fn the_defaults_of_the_page_are_the_defaults() {
    let required = "[upstream]\nurl = \"http://h\"\n\
                    [[operation]]\nname = \"A\"\nmatch = { method = \"POST\", path = \"/a\" }\nboundary = \"b\"\n\
                    [[inbox]]\nsource = \"s\"\nscheme = \"none\"\nid = \"/id\"\nforward = { url = \"http://h/\" }\n\
                    [[destination]]\nname = \"A\"\nkind = \"nats\"\nurl = \"nats://h\"\n";
    let mut written = String::new();
    for section in sections::ALL {
        let (open, close) = if section.repeats == Repeats::Often { ("[[", "]]") } else { ("[", "]") };
        let _ = writeln!(written, "{open}{}{close}", section.name);
        for Setting { name, default, .. } in section.settings {
            let value = match (section.name, *name, default) {
                (_, _, Preset::Is(default)) => default,
                ("upstream", "url", _) => "\"http://h\"",
                (_, "name", _) => "\"A\"",
                (_, "match.method", _) => "\"POST\"",
                (_, "match.path", _) => "\"/a\"",
                (_, "boundary", _) => "\"b\"",
                ("destination", "kind", _) => "\"nats\"",
                ("destination", "url", _) => "\"nats://h\"",
                ("inbox", "source", _) => "\"s\"",
                ("inbox", "scheme", _) => "\"none\"",
                ("inbox", "id", _) => "\"/id\"",
                ("inbox", "forward.url", _) => "\"http://h/\"",
                _ => continue,
            };
            let _ = writeln!(written, "{name} = {value}");
        }
    }
    // Its warnings name lines, which differ.
    let parse = |text: &str| {
        let settings = Settings::parse(text, "page").unwrap_or_else(|error| panic!("{error}\n{text}"));
        Settings { warnings: Vec::new(), ..settings }
    };
    assert_eq!(parse(&written), parse(required));
}

#[test]
fn the_names_of_a_table_are_those_of_its_settings() {
    assert_eq!(names("encryption"), ["keys"]);
    assert_eq!(names("operation.match"), ["method", "path"]);
    assert_eq!(names("defaults.retry_failed"), ["attempts", "backoff"]);
    assert_eq!(names("operation").len(), names("defaults").len() + 2);
    assert!(!names("defaults").contains(&"name"));
    assert!(comes_later("defaults", "subject"));
    assert!(!comes_later("server", "subject"));
}

#[test]
fn what_comes_later_is_not_on_the_page() {
    for (table, name) in LATER.iter().filter(|(table, _)| !table.contains('.')) {
        assert!(!names(table).contains(name), "{name}");
    }
    assert!(!reference().contains("audit_replays"));
}
