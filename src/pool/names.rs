//! A few names in one allocation.

/// Names of models or adapters, in the order they were given; bounded by whoever reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Box<str>);

/// What stands between two names, and therefore in none.
const SEPARATOR: char = '\n';

impl Names {
    /// Whether `name` is one of them.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|one| one == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(SEPARATOR).filter(|name| !name.is_empty())
    }
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut text = String::new();
        for name in names {
            text.push_str(name);
            text.push(SEPARATOR);
        }
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_whole_and_an_empty_one_never() {
        let names: Names = ["sql", "", "chat/v2"].into_iter().collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), ["sql", "chat/v2"]);
        assert!(names.contains("sql") && !names.contains("sq") && !names.contains(""));
        assert_eq!(Names::default().iter().count(), 0);
    }
}
