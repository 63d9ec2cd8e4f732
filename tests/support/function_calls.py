"""How much work something is, by the functions that it calls: the same on a busy machine, and whatever they are named."""

import sys


def count_calls(work):
    """How many functions `work` calls, those of C among them, in this thread."""
    calls = 0

    def note(frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def main():
    """Run the command line, then say on standard error how many functions were called before its first rows, and in all."""
    from casrewind.cli.main import main as command

    calls, first, out = 0, None, sys.stdout

    class Stream:
        written = False

        def __getattr__(self, name):
            return getattr(out, name)

        def write(self, text):
            self.written = True
            return out.write(text)

        def flush(self):
            nonlocal first
            if self.written and first is None:
                first = calls
            out.flush()

    def note(frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.stdout = Stream()
    sys.setprofile(note)
    try:
        command(sys.argv[1:])
    finally:
        sys.setprofile(None)
        print(calls if first is None else first, calls, file=sys.stderr)


if __name__ == "__main__":
    main()
