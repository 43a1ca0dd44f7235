"""Prometheus metrics, drift events and webhooks."""
