"""The stream of drift events, and who has been sent which."""
