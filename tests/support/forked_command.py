"""casrewind in a process of its own that is forked from one which has imported it already.

What a start of the interpreter costs is saved, and nothing else: the process has its own arguments, environment, descriptors 0
to 2, working directory and pid, and ends as ever. What the interpreter itself reads when it starts (locale, PYTHON*) needs a start
of its own: `fits` says so. The library of another time of day has a server of its own: it is loaded when that one starts.

A command that such a process starts itself can be a fork, too: then forked_python.c stands for the interpreter in it.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_STARTS_WITH = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
_TEMPORARY = os.environ.get("TMPDIR", "/tmp")
"""As the session found it: the first test that needs a server may have a directory of its own, and look at what is left in it."""
_AT_START = ("LANG", "LC_", "LD_", "PYTHON", "COVERAGE")
"""How the names of the variables begin that are read when an interpreter starts."""
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)


def fits(environment):
    """True if a fork does what a start of the interpreter does in this environment."""
    read = {name: value for name, value in environment.items() if name.startswith(_AT_START) and value != ""}
    if os.path.basename(read.get("LD_PRELOAD", "")) == "clockshim.so":  # it reads its variables at each call, and the fault shim once
        del read["LD_PRELOAD"]
    return sys.platform.startswith("linux") and read == _STARTS_WITH


def call(arguments, environment, *, program=None, stdin=b"", cwd=None, timeout=240, forks=False):
    """As `run`; where a fork would not do the same, the interpreter is started."""
    if fits(environment):
        return run(arguments, environment, program=program, stdin=stdin, cwd=cwd, timeout=timeout, forks=forks)
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    started = [sys.executable, *(["-m", "casrewind"] if program is None else ["-c", program]), *arguments]
    done = subprocess.run(started, env=environment, capture_output=True, cwd=cwd, timeout=timeout, **given)
    return done.returncode, done.stdout, done.stderr


def run(arguments, environment, *, program=None, stdin=b"", cwd=None, timeout=240, address_space=None, forks=False):
    """(exit code, output, errors) of `casrewind ARGUMENTS`, or of `python -c PROGRAM ARGUMENTS`. `stdin`: bytes, an open file, a descriptor
    or DEVNULL. `address_space`: bytes of it that the process may have. `forks`: what it starts as its own command is a fork, too."""
    limits = {limit: resource.getrlimit(limit) for limit in _LIMITS} | ({resource.RLIMIT_AS: (address_space,) * 2} if address_space else {})
    asked = {
        "program": program, "arguments": [os.fsdecode(word) for word in arguments], "environment": dict(environment), "cwd": os.fspath(cwd or os.getcwd()),
        "umask": _umask(), "limits": list(limits.values()),
        "interpreter": _interpreter() if forks else None,
    }  # fmt: skip
    with contextlib.ExitStack() as opened:
        out, err = (opened.enter_context(open(os.memfd_create(name), "w+b")) for name in ("out", "err"))
        question = opened.enter_context(_holding("asked", json.dumps(asked).encode()))
        if stdin == subprocess.DEVNULL:
            stdin = opened.enter_context(open(os.devnull, "rb"))
        elif isinstance(stdin, bytes):
            stdin = opened.enter_context(_holding("in", stdin))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        opened.enter_context(ours)
        with theirs:
            files = [theirs, question, stdin, out, err]
            socket.send_fds(_server(environment.get("LD_PRELOAD", "")), [b"?"], [each if isinstance(each, int) else each.fileno() for each in files])
        pid = int(ours.recv(64))
        ours.settimeout(timeout)
        try:
            code = int(ours.recv(64))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["casrewind", *asked["arguments"]], timeout) from None
        return code, *(os.pread(each.fileno(), os.fstat(each.fileno()).st_size, 0) for each in (out, err))


def _holding(name, data):
    """An unnamed file with these bytes, to be read."""
    file = open(os.memfd_create(name), "w+b")
    file.write(data)
    file.seek(0)
    return file


def _umask():
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def interpreter():
    """The path of a program that stands for the interpreter: `PATH -I .../casrewind/__main__.py WORDS` is a fork. None without a compiler."""
    _server("")
    return _interpreter()


@functools.cache
def _interpreter():
    """The path of the program that stands for the interpreter, or None without a compiler. Its server's socket is to lie beside it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    place = tempfile.mkdtemp(prefix="casrewind-fork-", dir=_TEMPORARY)
    made, source = os.path.join(place, "python"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "forked_python.c")
    subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-Werror", f'-DPYTHON="{sys.executable}"', "-o", made, source], check=True)
    return made


@functools.cache
def _server(preloaded):
    """The connection to this process's server with this library, or "". The server is started when it is first needed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**_STARTS_WITH, "PATH": os.environ["PATH"], "PYTHONPATH": REPOSITORY, **({"LD_PRELOAD": preloaded} if preloaded else {})}
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        if not preloaded and (interpreter := _interpreter()):
            listener.bind(f"{interpreter}.socket")
            listener.listen()
        given = [theirs.fileno(), listener.fileno()]
        process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), *map(str, given)], env=environment, cwd="/", pass_fds=given, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    assert ours.recv(64) == b"ready"
    atexit.register(_stop, process, ours)
    return ours


def _stop(process, connection):
    connection.close()
    process.wait()


# -- in the server


def _serve(asking, listener):
    """Fork for each question; the descriptors of the question are returned in the fork. End when nobody can ask any more.
    `listener`: where forked_python.c asks, if it is bound."""
    _import_everything()
    asking.send(b"ready")
    ended, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running, started = {}, {}
    while True:
        ready = select.select([asking, ended, *([listener] if listener.getsockname() else []), *started], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
            _tell_who_ended(running)
            started = {connection: pid for connection, pid in started.items() if pid in running}
            continue
        for connection in started.keys() & set(ready):  # the program that stands for this fork was killed
            os.kill(started.pop(connection), signal.SIGKILL)
        if listener in ready:
            connection = listener.accept()[0]
            words, files, _, _ = socket.recv_fds(connection, 1 << 17, 3)
            pid = os.fork()
            if pid == 0:
                os.setsid()
                with _holding("asked", json.dumps(_asked(words)).encode()) as question:
                    return [os.dup(question.fileno()), *files]
            running[pid], started[connection] = connection, pid
            for fd in files:
                os.close(fd)
        if asking in ready:
            _, files, _, _ = socket.recv_fds(asking, 1, 5)
            if not files:
                if place := os.path.dirname(listener.getsockname()):
                    shutil.rmtree(place, ignore_errors=True)  # here: who asked may have been killed
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                return files[1:]
            running[pid] = socket.socket(fileno=files[0])
            running[pid].send(b"%d" % pid)
            for fd in files[1:]:
                os.close(fd)


def _asked(words):
    """The question of forked_python.c, as `run` asks it."""
    cwd, umask, *rest = (os.fsdecode(word) for word in words.split(b"\0")[:-1])
    limits, count, rest = [int(word) for word in rest[:6]], int(rest[6]), rest[7:]
    return {
        "arguments": rest[:count], "environment": dict(word.split("=", 1) for word in rest[count:]), "cwd": cwd, "umask": int(umask),
        "limits": [limits[:2], limits[2:4], limits[4:]], "interpreter": None, "program": None,
    }  # fmt: skip


def _tell_who_ended(running):
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            with contextlib.suppress(OSError), running.pop(found[0]) as connection:  # OSError: who asked has gone
                connection.send(b"%d" % os.waitstatus_to_exitcode(found[1]))


def _import_everything():
    import casrewind

    for module in pkgutil.walk_packages(casrewind.__path__, "casrewind."):
        if not any(name in module.name for name in ("picker", "__main__", "threaded_comparison")):
            importlib.import_module(module.name)
    for name in ("obstore.store", "cryptography.hazmat.primitives.ciphers.aead"):  # what the extra `remote` has: no thread before its use
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # else the garbage collector of each fork writes to all pages


def _become(files):
    """Do in this forked process what `python -m casrewind` does, or `python -c`."""
    words = os.pread(files[0], os.fstat(files[0]).st_size, 0)
    for number, fd in enumerate(files[1:]):
        os.dup2(fd, number)
    os.closerange(3, max(files) + 1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked = json.loads(words)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.umask(asked["umask"])
    for limit, values in zip(_LIMITS, asked["limits"], strict=True):
        resource.setrlimit(limit, tuple(values))
    os.chdir(asked["cwd"])
    sys.executable = asked["interpreter"] or sys.executable
    program = asked["program"]
    sys.argv = [os.path.join(REPOSITORY, "casrewind", "__main__.py") if program is None else "-c", *asked["arguments"]]
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # by lines, as the interpreter does
    time.tzset()
    code = 1
    try:
        if program is not None:
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
            code = 0
        else:
            from casrewind.__main__ import main

            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _become(_serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:])))
