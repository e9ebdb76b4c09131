//! "Did you mean": the nearest of a few names, when it is near enough to be meant.

/// The most edits between what was written and what may have been meant.
const EDITS_MAX: usize = 2;
/// A name longer than this is not a slip of the finger, and comparing it would cost.
const NAME_BYTES_MAX: usize = 64;

/// The nearest name, if it is at most two edits and less than half of the word away.
pub(crate) fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > NAME_BYTES_MAX {
        return None;
    }
    names
        .map(|name| (edits(written, name), name))
        .filter(|(edits, name)| *edits <= EDITS_MAX && edits * 2 < name.len())
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions and replacements between two words.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_does_not() {
        let names = || ["lease", "match", "name", "max_attempts"].into_iter();
        assert_eq!(nearest("leese", names()), Some("lease"));
        assert_eq!(nearest("max-attempt", names()), Some("max_attempts"));
        assert_eq!(nearest("timeout", names()), None);
        assert_eq!(nearest("nane", names()), Some("name"));
        assert_eq!(nearest("", names()), None);
    }
}
