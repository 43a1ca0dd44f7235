"""Whether the service may listen where it is told to: without keys on this machine only, unless that is wanted."""

import ipaddress
import os
import socket


def is_local(host: str) -> bool:
    """Whether nobody but this machine reaches an address; a name but localhost may be any."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(descriptor: int) -> str:
    """The address of a socket that is listened on already; one of this machine for one in its file system.

    Raises:
        OSError: it is no socket.
    """
    with socket.socket(fileno=os.dup(descriptor)) as inherited:
        address = inherited.getsockname()
    return str(address[0]) if isinstance(address, tuple) else "localhost"


def refuse_open(host: str, keys: bool, insecure: bool) -> None:
    """Refuse to listen for everybody where everybody may do everything, unless ``ONEPASS_INSECURE`` is set.

    Raises:
        ValueError: it would be so.
    """
    if not (keys or insecure or is_local(host)):
        raise ValueError(
            f"ONEPASS_HOST: {host} can be reached from other machines, and no keys are configured: anyone could read, "
            "change and delete every model. Set ONEPASS_API_KEYS or ONEPASS_API_KEYS_FILE; or ONEPASS_INSECURE=1 where "
            "something else keeps others out, such as a port published to 127.0.0.1 only"
        )
