//! May this replica take traffic, and if not why.
