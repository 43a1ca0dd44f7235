"""States in pieces: snapshots, restores, copies."""
