"""The Redis client: addresses, topology, connections, pipelines, and the private server's commands."""
