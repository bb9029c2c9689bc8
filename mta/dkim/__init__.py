"""DKIM keys, by `cryptography`."""
