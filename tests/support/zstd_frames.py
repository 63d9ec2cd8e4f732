"""zstd for tests: Python's own module, or its backport. casrewind compresses with another one, where it can."""

try:
    from compression import zstd
except ImportError:  # before Python 3.14
    from backports import zstd

__all__ = ["zstd"]
