//! Tools: descriptions and argument checks (pure), and the tools themselves (`run`, blocking).
