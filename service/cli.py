"""The command ``onepass``: serve, settings, replay."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from pydantic import SecretStr, ValidationError

from service.settings import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    parser = argparse.ArgumentParser(prog="onepass", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _serve_options(commands.add_parser("serve", help="run the service"))
    commands.add_parser("settings", help="print every setting, what it means and its value")
    options = parser.parse_args(arguments)
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(str(part) for part in problem["loc"]).upper()
            print(f"ONEPASS_{name}: {problem['msg']}", file=sys.stderr)
        return 2
    if options.command == "settings":
        return _print_settings(settings)
    return _serve(settings, options)


def _serve_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (ONEPASS_HOST)")
    parser.add_argument("--port", type=int, help="port to listen on (ONEPASS_PORT)")


def _print_settings(settings: Settings) -> int:
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        shown = "(set)" if isinstance(value, SecretStr) and value.get_secret_value() else value
        print(f"ONEPASS_{name.upper()}={'' if shown is None else shown}\n    {field.description}")
    return 0


def _serve(settings: Settings, options: argparse.Namespace) -> int:
    import uvicorn

    from service.app import build, crasher

    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        app = build(settings, crasher(os.environ.get("ONEPASS_FAILPOINT", "")))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=options.host or settings.host,
            port=settings.port if options.port is None else options.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, int(settings.grace_s)),
            backlog=2048,
        )
    )
    server.run()
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
