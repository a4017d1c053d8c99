//! Logs: one subscriber, JSON or text, its level changeable while running.
