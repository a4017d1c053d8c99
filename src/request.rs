//! What a request asks for, read from its path and body as the bytes arrive.
