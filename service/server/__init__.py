"""The HTTP server around the app: connections, their bounds, and the shortest way of a row through them."""
