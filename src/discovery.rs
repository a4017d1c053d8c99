//! Endpoint sources without Kubernetes: a list on the command line, or a watched file.
