"""The one place that knows Redis: its keys, commands, scripts and error texts."""
