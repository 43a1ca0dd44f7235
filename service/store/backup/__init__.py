"""Backups: a container of frames, what the frames hold, and how a model is read out of a store and written into one."""
