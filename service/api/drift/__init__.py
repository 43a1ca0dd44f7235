"""The routes of drift events."""
