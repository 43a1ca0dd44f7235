"""Why the service would not start as it is configured: ``onepass serve`` and ``onepass settings`` say it in one way."""

from pathlib import Path

from service import memory_limit
from service.server import exposure
from service.settings import Settings
from service.settings_validation import validated


def refusal(settings: Settings, keys_file: Path | None = None, descriptor: int | None = None) -> str | None:
    """Why the service would not start with these settings; None: it would, as far as they tell.

    Args:
        settings: the settings.
        keys_file: where the keys are from, if they are from a file of their own.
        descriptor: of an inherited socket to listen on instead of host and port.
    """
    try:
        found = validated(settings, keys_file)
        host = settings.host if descriptor is None else exposure.host_of(descriptor)
        exposure.refuse_open(host, found.keys.required, settings.insecure)
    except ValueError as error:
        return str(error)
    except OSError:
        return None  # no socket: said where it is used
    return None


def within_limit(settings: Settings) -> Settings:
    """The settings with the memory for models that the limit of the container leaves, where nobody has set it.

    Raises:
        TooSmall: it leaves too little.
    """
    given = "memory_budget_mb" in settings.model_fields_set
    budget_mb = memory_limit.budget_mb(settings.memory_budget_mb, given, memory_limit.memory_limit())
    return settings.model_copy(update={"memory_budget_mb": budget_mb})
