"""The stream of drift events, and which events each webhook has been sent."""
