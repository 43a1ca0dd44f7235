"""Remove from the base image what serving never runs, and compile the standard library that is left.

    python slim_system.py

Debian's packages are purged by dpkg, so that its list, which scanners for vulnerabilities read, says what is there.
What stays: Python, certificates, a shell and the small tools that people look for in a container. tests/image runs
the service on what is left.
"""

import compileall
import shutil
import subprocess
import sysconfig
from pathlib import Path
from py_compile import PycInvalidationMode

PACKAGES = (
    # installing and building
    *("python3-pip", "python3-venv", "python3.13-venv", "python3-pip-whl", "python3-setuptools-whl"),
    *("python3-wheel", "python3-packaging", "apt", "libapt-pkg7.0", "sqv", "debian-archive-keyring"),
    # logins, mounts, devices
    *("login", "login.defs", "passwd", "mount", "util-linux", "bsdutils", "sysvinit-utils"),
    *("libpam-modules", "libpam-modules-bin", "libpam-runtime", "libpam0g", "liblastlog2-2"),
    *("libudev1", "libmount1", "libsmartcols1", "libblkid1", "libsemanage2", "libsemanage-common", "libsepol2"),
    *("libaudit1", "libaudit-common", "libcap-ng0"),
    # scripts of Debian's packages, libraries of those above
    *("init-system-helpers", "debconf", "perl-base", "ncurses-bin", "diffutils", "mawk"),
    *("libdb5.3t64", "libseccomp2", "libhogweed6t64", "libnettle8t64", "libxxhash0", "liblz4-1"),
    "openssl-provider-legacy",
)
"""Of Debian 13; those that the base lacks are passed over."""
STDLIB = ("ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo")
PLACES = (
    *("/usr/include", "/usr/local/include", "/usr/share/doc-base", "/usr/share/info", "/usr/share/locale"),
    *("/usr/share/man", "/usr/share/perl5", "/usr/share/python-wheels", "/var/cache", "/var/lib/apt", "/var/log"),
    *("/var/backups", "/var/lib/dpkg/status-old", "/var/lib/dpkg/available"),
)
PATTERNS = (
    *("lib/python3.*/lib-dynload/*test*", "share/doc/*/[!c]*", "share/doc/*/change*"),
    *("lib/python3.*/config-*", "lib/python3.*/site-packages/pip*", "lib/python3.*/site-packages/setuptools*"),
    *("bin/2to3*", "bin/idle*", "bin/pip*", "bin/pydoc*", "bin/python*-config"),
    "lib/*-linux-gnu*/gconv",  # character sets of iconv; Python has its own
)
"""Below /usr and /usr/local."""


def slim() -> None:
    """Remove it from this very system."""
    for package in filter(_installed, PACKAGES):
        subprocess.run(["dpkg", "--purge", "--force-all", package], check=True, stdout=subprocess.DEVNULL)
    library = Path(sysconfig.get_path("stdlib"))
    found = [place for below in ("/usr", "/usr/local") for pattern in PATTERNS for place in Path(below).glob(pattern)]
    for place in (*(library / name for name in STDLIB), *map(Path, PLACES), *found):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    for name in ("backups", "cache", "log"):
        Path("/var", name).mkdir(exist_ok=True)
    # Unchecked: bytecode is valid whatever times an image builder gives to the files.
    compileall.compile_dir(library, quiet=1, force=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)


def _installed(package: str) -> bool:
    asked = subprocess.run(["dpkg", "--status", package], capture_output=True, text=True, check=False)
    return "Status: install ok installed" in asked.stdout


if __name__ == "__main__":
    slim()
