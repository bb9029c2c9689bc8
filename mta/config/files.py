"""Files that a configuration names.

Rules: whoever checks or starts is not kept waiting by what stands in a file's place: a pipe without a writer, a device
without an end.
"""

import errno
import stat
from pathlib import Path

SIZE_LIMIT = 16 * 2**20
"""Octets: thousands of users, or certificates."""


def read_file(path: Path) -> bytes:
    """All of a regular file. Raises OSError, also where it is none, or larger than `SIZE_LIMIT`."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if found.st_size > SIZE_LIMIT:
        raise OSError(errno.EFBIG, "it is too large", str(path))
    return path.read_bytes()
