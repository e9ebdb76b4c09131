//! Reading the text that `/metrics` answers.

/// One scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    text: String,
}

impl Metrics {
    /// Wraps the text of a scrape.
    #[must_use]
    pub fn parse(text: String) -> Self {
        Self { text }
    }

    /// The text itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The sum of all series of `name`, whatever their labels; 0 when there is none.
    #[must_use]
    pub fn sum(&self, name: &str) -> f64 {
        self.series_of(name).map(|(_, value)| value).sum()
    }

    /// Whether a series of `name` exists.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.series_of(name).next().is_some()
    }

    /// All series as `name{labels}`, without values.
    #[must_use]
    pub fn series(&self) -> Vec<&str> {
        self.samples().filter_map(|sample| sample.rsplit_once(' ')).map(|(series, _)| series).collect()
    }

    fn samples(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty())
    }

    fn series_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.samples().filter_map(move |sample| {
            let (series, value) = sample.rsplit_once(' ')?;
            let own = series.split('{').next()?;
            (own == name).then_some((series, value.parse().ok()?))
        })
    }
}
