//! Whose key it is: ordered, named parts (SEMANTICS 1).

use std::fmt;

use crate::printable;

/// One named part of a scope, such as `tenant = acme`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopePart {
    /// What the value is: `tenant`, `credential`, `header:X-Tenant`.
    pub name: String,
    /// The value, compared byte for byte. Secrets are digested by whoever builds the scope.
    pub value: String,
}

/// The ordered parts that say whose key it is. Empty only for the explicit scope `shared`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope(Vec<ScopePart>);

impl Scope {
    /// The one scope that everybody shares, by explicit choice.
    pub fn shared() -> Scope {
        Scope::default()
    }

    /// A scope of the given parts, in order.
    pub fn new<N: Into<String>, V: Into<String>>(parts: impl IntoIterator<Item = (N, V)>) -> Scope {
        Scope(
            parts
                .into_iter()
                .map(|(name, value)| ScopePart { name: name.into(), value: value.into() })
                .collect(),
        )
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[ScopePart] {
        &self.0
    }
}

impl fmt::Display for Scope {
    /// `name=value` joined by commas, control characters escaped; `shared` when empty. For people, not for digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("shared");
        }
        for (i, part) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}={}", printable(&part.name), printable(&part.value))?;
        }
        Ok(())
    }
}
