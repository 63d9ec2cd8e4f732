"""Is something still in a store? Every byte of every file is read, as it is and as every zstd frame in it decompresses.

Shares nothing with the project: a frame is looked for wherever its magic number stands, whatever stands around it.
"""

import os
import random
import string

from .zstd_frames import zstd

FRAME = b"\x28\xb5\x2f\xfd"
PIECE = 10
"""So many bytes of a secret one after the other are a hit: nobody needs the rest to know it again."""


def secret(seed, odd='"\\é'):
    """A text of high entropy with what JSON escapes in its middle."""
    chance = random.Random(f"secret {seed}")
    one, two = ("".join(chance.choices(string.ascii_letters + string.digits, k=24)) for _ in range(2))
    return one + odd + two


def pieces(text):
    """All that counts as a hit: whatever spelling surrounds them, letters and digits stand for themselves."""
    found = set()
    for part in "".join(c if c.isascii() and c.isalnum() else " " for c in text).split():
        found.update(part[at : at + PIECE].encode() for at in range(len(part) - PIECE + 1))
    assert found
    return found


def hits(place, text):
    """{file below a directory: how many pieces of a text it holds}, of those that hold any. Of a list of bytes: how many of
    them."""
    wanted = text
    if not isinstance(text, list):
        wanted = pieces(text) if isinstance(text, str) else {text[at : at + PIECE] for at in range(len(text) - PIECE + 1)}
    found = {}
    for directory, _, names in os.walk(place):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                data = file.read()
            count = sum(piece in view for view in _views(data) for piece in wanted)
            if count:
                found[os.path.relpath(path, place)] = count
    return found


def _views(data):
    yield data
    at = data.find(FRAME)
    while at >= 0:
        try:
            yield zstd.ZstdDecompressor().decompress(data[at:])
        except zstd.ZstdError:
            pass
        at = data.find(FRAME, at + 1)
