"""What packs.py uses of the package zstandard, by Python's own module (from 3.14 on) or its backport: where zstandard has no wheel.

The dangers prevented here: a store that one installation wrote cannot be read by another; and a frame of a stranger, a few bytes
long, takes all memory. The format is the same. A frame is decompressed to the size that the caller has compared with its
limit, and one that declares a window of more than 128 MiB is refused.
"""

from contextlib import suppress

from .._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _zstd: Any  # one of two modules, neither of which a type checker finds here
else:

    def _import_zstd():  # noqa: ANN202 - the module has no type of its own
        with suppress(ImportError):
            import _zstd  # compression.zstd without the package around it, whose import takes several times as long

            return _zstd
        try:
            from backports import zstd

            return zstd
        except ImportError:
            raise ImportError(
                "casrewind needs a library for zstd, and this Python has none: install the package zstandard or backports.zstd"
            ) from None

    _zstd = _import_zstd()

_WINDOW = "too much memory"  # of the error for a window beyond the limit, which is no lack of memory


class ZstdError(Exception):
    """These bytes are no frame; or "not enough memory"."""


class ZstdCompressor:
    """Makes frames that declare their size."""

    def __init__(self, *, level: int) -> None:
        """Starts none."""
        self._compressor = _zstd.ZstdCompressor(level)

    def compress(self, data: bytes) -> bytes:
        """One frame."""
        try:
            frame: bytes = self._compressor.compress(data, self._compressor.FLUSH_FRAME)
        except _zstd.ZstdError as error:
            raise ZstdError(str(error)) from error
        return frame


def frame_content_size(frame: bytes) -> int:
    """The number of bytes that a frame declares, -1 if it declares none."""
    try:
        found = _zstd.get_frame_info(frame)
    except _zstd.ZstdError as error:
        raise ZstdError(str(error)) from error
    size: int | None = found[0] if isinstance(found, tuple) else found.decompressed_size
    return -1 if size is None else size


class ZstdDecompressor:
    """Reads frames."""

    def decompress(self, frame: bytes, *, max_output_size: int, allow_extra_data: bool = True) -> bytes:
        """The bytes of a whole frame, at most as many, and one more if it has more."""
        reader = _zstd.ZstdDecompressor()
        try:
            data: bytes = reader.decompress(frame, max_output_size + 1)  # with less room it may not read the frame's end
        except _zstd.ZstdError as error:
            raise ZstdError("its window is too large" if _WINDOW in str(error) else str(error)) from error
        if not reader.eof or (reader.unused_data and not allow_extra_data):
            raise ZstdError("the frame ends early, or other bytes follow it")
        return data
