"""What makes two submissions under one key the same logical email: sender, recipients and Subject (interface.md section 3).

Not the content: programs make new MIME boundaries, Dates and Message-IDs each time they compose the same message.
"""

import hashlib
from collections.abc import Iterable


def fingerprint(reverse_path: str, recipients: Iterable[str], subject: str) -> str:
    """A digest of the sender, the recipients in any order and each once, and the Subject (as it was given, white space
    folded). Addresses are compared as mailboxes: give their keys (`model.address.Address.key`)."""
    parts = (reverse_path, *sorted(set(recipients)), " ".join(subject.split()))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
