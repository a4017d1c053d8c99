//! Every metric family as a field of one typed struct.
