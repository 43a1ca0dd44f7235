"""Whether the service may listen on its address: without keys only on this machine, unless ONEPASS_INSECURE is set."""

import ipaddress


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address; a name other than localhost may stand for any address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_open(host: str, keys: bool, insecure: bool) -> None:
    """``ValueError`` for an address that other machines can reach, without keys, unless ``ONEPASS_INSECURE`` is set."""
    if not (keys or insecure or is_local(host)):
        raise ValueError(
            f"ONEPASS_HOST: {host} can be reached from other machines, and no keys are configured: anyone could read, "
            "change and delete every model. Set ONEPASS_API_KEYS or ONEPASS_API_KEYS_FILE; or ONEPASS_INSECURE=1 where "
            "something else keeps others out, such as a port published to 127.0.0.1 only"
        )
