"""An address where connections are neither taken nor refused: a listener whose queue is full, so that the kernel drops
whatever comes."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def black_hole(host: str, port: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((host, port))
        listener.listen(0)
        while True:
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect((host, port))
            except TimeoutError:
                break
        yield
