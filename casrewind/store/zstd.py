"""zstandard, without what its package imports for the sake of interpreters other than CPython. The only importer of it.

The package is a few lines around the module in C, but asks `platform`, and with it `re`, which interpreter this is: more time than
an unchanged save takes for everything in the index. So the module in C is taken by itself where it is found, and the package
where it is not.
"""

import sys

from ..typed import TYPE_CHECKING

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size
else:

    def _in_c():  # noqa: ANN202 - what it gives has no type of its own
        """The module in C, or the package."""
        name = "zstandard.backend_c"
        try:
            if name not in sys.modules:
                finders = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder"]
                place = finders[0].find_spec("zstandard").submodule_search_locations
                spec = finders[0].find_spec(name, place)
                sys.modules[name] = found = spec.loader.create_module(spec)
                spec.loader.exec_module(found)
            return sys.modules[name]
        except (AttributeError, ImportError, IndexError):
            sys.modules.pop(name, None)
            import zstandard

            return zstandard

    _library = _in_c()
    ZstdCompressor, ZstdDecompressor, ZstdError = _library.ZstdCompressor, _library.ZstdDecompressor, _library.ZstdError
    frame_content_size = _library.frame_content_size

__all__ = ["ZstdCompressor", "ZstdDecompressor", "ZstdError", "frame_content_size"]
