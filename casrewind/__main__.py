"""`python -m casrewind`: the same door as the `casrewind` command."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
