//! The config file: shapes and errors (pure), loading (edge).
