//! One measured figure: the median of its repeats, the lowest, the highest, and the goal it was measured for.

use serde_json::{Value, json};

/// What a figure is to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn limit(self) -> f64 {
        match self {
            Goal::AtLeast(limit) | Goal::AtMost(limit) => limit,
        }
    }
}

/// A figure over all repeats.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    name: String,
    value: f64,
    low: f64,
    high: f64,
    goal: Option<Goal>,
}

impl Figure {
    /// The median of what the repeats measured; there must be one at least.
    pub(crate) fn of(name: impl Into<String>, repeats: &[f64]) -> Figure {
        assert!(!repeats.is_empty(), "a figure has been measured");
        let mut sorted = repeats.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let value = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Figure { name: name.into(), value, low: sorted[0], high: sorted[sorted.len() - 1], goal: None }
    }

    /// With a goal.
    pub(crate) fn with(self, goal: Option<Goal>) -> Figure {
        Figure { goal, ..self }
    }

    /// Whether its median reaches its goal.
    pub(crate) fn met(&self) -> Option<bool> {
        self.goal.map(|goal| match goal {
            Goal::AtLeast(limit) => self.value >= limit,
            Goal::AtMost(limit) => self.value <= limit,
        })
    }

    /// `1234 (1200 to 1300)`.
    pub(crate) fn shown(&self) -> String {
        let number = |value: f64| match value.abs() {
            0.0..10.0 => format!("{value:.2}"),
            10.0..100.0 => format!("{value:.1}"),
            _ => format!("{value:.0}"),
        };
        if self.low == self.high {
            return number(self.value);
        }
        format!("{} ({} to {})", number(self.value), number(self.low), number(self.high))
    }

    /// `≥ 0.8` or nothing.
    pub(crate) fn goal(&self) -> String {
        match self.goal {
            Some(Goal::AtLeast(limit)) => format!("≥ {limit}"),
            Some(Goal::AtMost(limit)) => format!("≤ {limit}"),
            None => String::new(),
        }
    }

    /// `yes`, `no` or nothing.
    pub(crate) fn met_in_words(&self) -> &'static str {
        match self.met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        }
    }

    /// The figure as one JSON object.
    pub(crate) fn to_json(&self, bench: &str) -> Value {
        json!({
            "bench": bench,
            "figure": self.name,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "goal": self.goal.map(Goal::limit),
            "met": self.met(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_with_the_extremes() {
        let figure = Figure::of("x", &[3.0, 1.0, 2.0]);
        assert_eq!((figure.value, figure.low, figure.high), (2.0, 1.0, 3.0));
        assert_eq!(Figure::of("x", &[1.0, 2.0]).value, 1.5);
    }

    #[test]
    fn a_goal_is_met_at_its_limit_and_on_its_side() {
        let figure = Figure::of("x", &[0.8]);
        assert_eq!(figure.clone().with(Some(Goal::AtLeast(0.8))).met(), Some(true));
        assert_eq!(figure.clone().with(Some(Goal::AtLeast(0.9))).met(), Some(false));
        assert_eq!(figure.clone().with(Some(Goal::AtMost(0.7))).met(), Some(false));
        assert_eq!(figure.with(None).met(), None);
    }

    #[test]
    fn the_object_of_a_figure_has_the_seven_members() {
        let object = Figure::of("x", &[1.0]).with(Some(Goal::AtMost(150.0))).to_json("memory");
        let expected = json!({
            "bench": "memory", "figure": "x", "value": 1.0, "low": 1.0, "high": 1.0, "goal": 150.0, "met": true
        });
        assert_eq!(object, expected);
    }
}
