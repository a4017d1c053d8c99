//! Which row of a table is selected: a thing, not a place, since rows move.

/// The selected row of one table.
#[derive(Debug, Default)]
pub(super) struct List {
    /// What is selected; none while nobody has moved.
    key: Option<String>,
    /// Where it was last seen, for when it is gone.
    at: usize,
}

impl List {
    /// The row among those of `keys`; none when there are none.
    pub(super) fn row(&self, keys: &[String]) -> Option<usize> {
        let last = keys.len().checked_sub(1)?;
        let found = self.key.as_ref().and_then(|key| keys.iter().position(|one| one == key));
        Some(found.unwrap_or_else(|| self.at.min(last)))
    }

    /// What is selected.
    pub(super) fn key(&self, keys: &[String]) -> Option<String> {
        keys.get(self.row(keys)?).cloned()
    }

    /// Moves by so many rows, to the ends at most.
    pub(super) fn walk(&mut self, keys: &[String], by: isize) {
        let Some(row) = self.row(keys) else { return };
        self.at = row.saturating_add_signed(by).min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_follows_its_row_and_stays_near_when_that_is_gone() {
        let keys = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let mut list = List::default();
        assert_eq!((list.row(&[]), list.key(&keys("abc"))), (None, Some("a".to_owned())));
        list.walk(&keys("abc"), 1);
        assert_eq!(list.row(&keys("xyabc")), Some(3), "b has moved");
        assert_eq!(list.key(&keys("ac")), Some("c".to_owned()), "b is gone");
        list.walk(&keys("abc"), 100);
        list.walk(&keys("abc"), -1);
        assert_eq!(list.key(&keys("abc")), Some("b".to_owned()));
    }
}
