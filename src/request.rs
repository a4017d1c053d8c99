//! What a request asks for, read from its path and body as the bytes arrive.

/// What a body said.
#[derive(Debug, Default)]
pub struct Parsed {}

/// Which parsers are on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parsers(u8);

impl Parsers {
    /// The parser of a configuration name.
    pub fn named(name: &str) -> Option<Self> {
        let names = [
            "openai-parser",
            "anthropic-parser",
            "vllmhttp-parser",
            "passthrough-parser",
            "sglanghttp-parser",
            "vllmgrpc-parser",
            "vertexai-parser",
        ];
        names.iter().position(|known| *known == name).map(|at| Self(1 << at))
    }

    /// Both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
