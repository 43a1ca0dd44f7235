"""The HTTP server around the app: connections and their limits, TLS, and the drain before a stop."""
