//! The ext_proc protocol as a state machine without I/O.
