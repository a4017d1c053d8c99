//! Command line and configuration file, resolved into what the application is built from.
