"""What a server may choose of a handshake, and what not."""

import base64
import ssl
import time
from pathlib import Path

import pytest
import trustme

from mta.client_tls import client_context

ROOT = trustme.CA()


def integer(number: int) -> bytes:
    octets = number.to_bytes(number.bit_length() // 8 + 1)
    return b"\x02\x82" + len(octets).to_bytes(2) + octets


def huge_group(folder: Path) -> Path:
    """Of 10,000 bits: no client looks whether it is one."""
    body = integer((1 << 9_999) | 1) + integer(2)
    encoded = base64.encodebytes(b"\x30\x82" + len(body).to_bytes(2) + body).decode()
    path = folder / "group.pem"
    path.write_text(f"-----BEGIN DH PARAMETERS-----\n{encoded}-----END DH PARAMETERS-----\n")
    return path


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> float:
    """Seconds that the client works. Raises what either finds wrong."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(down, up, server_hostname="mx.test"), server.wrap_bio(up, down, server_side=True)
    spent = [0.0, 0.0]
    for _ in range(4):
        for number, end in enumerate(ends):
            start = time.process_time()
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            finally:
                spent[number] += time.process_time() - start
    assert ends[0].version() is not None
    return spent[0]


def server(latest: ssl.TLSVersion) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ROOT.issue_cert("mx.test", key_type=trustme.KeyType.RSA).configure_cert(made)
    made.maximum_version = latest
    return made


@pytest.mark.parametrize("latest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_of_today_is_spoken_to(latest: ssl.TLSVersion) -> None:
    client = client_context()
    ROOT.configure_trust(client)
    shake_hands(client, server(latest))


def test_no_server_sets_us_a_sum_that_takes_seconds(tmp_path: Path) -> None:
    hostile, client = server(ssl.TLSVersion.TLSv1_2), client_context()
    hostile.load_dh_params(huge_group(tmp_path))
    hostile.set_ciphers("DHE:@SECLEVEL=0")
    ROOT.configure_trust(client)
    with pytest.raises(ssl.SSLError, match="NO_SHARED_CIPHER"):
        shake_hands(client, hostile)
