"""A model's configuration (``config``), its changes (``changes``), and a challenger's (``challengers``)."""

from core.config.config import Config

__all__ = ["Config"]
