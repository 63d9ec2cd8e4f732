"""The objects of a remote: put if absent, read, list, empty. In a bucket, in a directory, or in memory for tests.

Four dangers are prevented here. A push replaces what another push wrote: it has put-if-absent, and only what a purge
ended is replaced. A command waits forever for a server that is silent: each request has a limit. A server takes the memory of this
machine, by an object of a terabyte or a list without end: what is taken of an answer is counted. An exception of a library reaches a
person: each failure is a RemoteError in words, with the URL as it was typed.
"""

import os
import queue
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from urllib.parse import unquote, urlsplit

from .. import errors, heap, messages
from .._typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from ..extras import needing_extra
from . import aws_profile
from .bucket_errors import CUT, DELETE, GET, LIST, PUT, beyond_end, bucket_error, credentials_hint, knows_no_range
from .object_directory import SMALL, ObjectDirectory, ObjectTooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from obstore import GetResult, ObjectMeta
    from obstore.store import ObjectStore

_T = TypeVar("_T")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "s3": ("endpoint", "profile", "region"), "gs": ("endpoint",), "az": ("account", "endpoint"), "file": (), "memory": (),
}  # fmt: skip
_SCHEMES = "s3://BUCKET/NAME, gs://BUCKET/NAME, az://CONTAINER/NAME or file:///DIRECTORY"
_ENDPOINTS, _REGIONS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), ("AWS_REGION", "AWS_DEFAULT_REGION")
_HOST, _REGION, _ENDPOINT = r"[A-Za-z0-9][\w.-]*", r"[a-z0-9-]*", r"https?://[\w.-]+(?::\d+)?(?:/[\w./-]*)?|https?://\[[0-9a-fA-F:]+\](?::\d+)?/?"
"""What the library takes apart without a look: it would panic."""
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
"""Without any of them a machine of AWS is asked for keys, which is not there on a laptop."""
_PAGE = 1000
"""Names in one LIST or DELETE."""
_CHUNK = 256 << 10
"""Bytes of an answer that are taken at once, or more."""
_MOST_NAMES = 10_000_000
"""Names in all lists of one command. The remote of a big team has some millions. Ten are 10,000 requests, and a quarter of an hour."""
_MOST_GROWN = 220 << 20
"""Bytes by which the process may grow while it lists. It stays below 300 MB then. All names at once may be some 500,000."""
_FIRST_PAUSE = 0.1
"""Seconds before a list that was cut is asked for again. The next pause is twice as long."""
_SILENCE = 10.0
"""Seconds without an answer where the caller has no patience."""
_SLOWEST = 100_000
"""Bytes a second: the slowest line on which a piece still arrives."""
_DOING = {PUT: "writing", GET: "reading", LIST: "listing", DELETE: "deleting"}
_memories: "dict[str, ObjectStore]" = {}
"""The stores of memory:// by URL, of this process."""


_Row = tuple[str, int, int] | tuple[str, int, int, str]
_Values = dict[str, Any]  # each store of obstore has typed dictionaries of its own for the same options


class ObjectInfo(NamedTuple):
    """What a remote says of an object. `modified_ns` is by the server's clock, `etag` the server's tag of the contents."""

    name: str
    size: int
    modified_ns: int
    etag: str = ""


class ObjectGone(Exception):
    """There is no object of that name. Internal: the caller knows what that means."""


class Objects:
    """One remote. `requests` by method, `sent_bytes` and `received_bytes` are for reports: repeated tries do not count.

    Threads may share it. Every failure is a RemoteError; a URL or an option that means nothing is a UsageError.
    """

    def __init__(self, url: str, options: Mapping[str, str] = {}, *, patience: float = 10.0) -> None:
        """`options`: endpoint, and region and profile of s3, account of az. `patience`: seconds during which a failed
        request is tried again; 0 is one try."""
        heap.keep_no_large_blocks()
        self.url = url
        self.requests: dict[str, int] = {}
        self.sent_bytes = self.received_bytes = self._names = self._resident = 0
        self._counting = threading.Lock()
        scheme, host, path = _split_url(url, options)
        self._place: ObjectDirectory | _Bucket
        self._place = ObjectDirectory(f"/{path}") if scheme == "file" else _Bucket(url, scheme, host, path, options, patience)
        self.place = f"{url} {self._place.endpoint}".strip()
        """Where requests go: the URL, and the endpoint that an option, a variable or a profile names."""

    @property
    def gives_ranges(self) -> bool:
        """False once the answer to a range was that to a whole object."""
        return self._place.gives_ranges

    def put_new(self, name: str, data: bytes) -> bool:
        """Write an object durably. False: it is there already, and stays as it is."""
        with self._request(PUT):
            created = self._place.put_new(name, data)
        self._count_request_and_bytes(PUT, 1, sent=len(data))
        return created

    def replace(self, name: str, data: bytes) -> None:
        """Write an object durably, in place of what has its name."""
        with self._request(PUT):
            self._place.replace(name, data)
        self._count_request_and_bytes(PUT, 1, sent=len(data))

    def get(self, name: str, start: int = 0, end: int | None = None, size: int | None = None) -> bytes:
        """The bytes of an object from `start` to before `end`: what there is of them, and never more. Without `end` all of an object of
        at most SMALL bytes. `size`: that of the object in a list; a range that is all of it is asked for as an object. Raises ObjectGone.
        """
        if end is not None and end <= start:
            return b""
        with self._request(GET):
            try:
                data = self._place.get(name, start, end, is_whole=start == 0 and end in (None, size))
            except ObjectTooLong as error:
                what = f"the object {name} of {self.url} has {error.size:,} bytes, and {SMALL:,} at most belong there"
                raise errors.RemoteError(what, "casrewind did not write it: see who did") from None
            except FileNotFoundError:
                self._count_request_and_bytes(GET, 1)
                raise ObjectGone(name) from None
        self._count_request_and_bytes(GET, 1, received=len(data))
        return data

    def list(self, prefix: str = "", after: str = "", most: int | None = None) -> list[ObjectInfo]:
        """The objects below `prefix`, a name up to a slash, in the order of their names. `after`: only later names. `most`: the first so
        many; all of them, if the place does not list in order. Raises RemoteError for a list that is longer than any remote's."""
        with self._request(LIST):
            rows = (ObjectInfo(*row) for row in self._counted(self._place.list(prefix.strip("/"), after)) if row[0] > after)
            found = list(islice(rows, most if isinstance(self._place, _Bucket) else None))
            if any(one > later for one, later in pairwise(found)):
                found = sorted((*found, *rows))
        self._count_request_and_bytes(LIST, max(1, -(-len(found) // _PAGE)))
        return found

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects. One that is gone already is no error."""
        for at in range(0, len(names), _PAGE):
            with self._request(DELETE):
                self._place.delete(names[at : at + _PAGE])
            self._count_request_and_bytes(DELETE, 1)

    def _counted(self, rows: "Iterable[_Row]") -> "Iterator[_Row]":
        """The same rows. Raises RemoteError if they do not end, or fill the memory: that of this list and of those just before it."""
        self._resident = before = self._resident or heap.resident_bytes()  # a request of another thread ends it
        for row in rows:
            self._names += 1
            if self._names > _MOST_NAMES or (self._names % _PAGE == 0 and heap.resident_bytes() - before > _MOST_GROWN):
                raise errors.RemoteError(
                    f"{self.url} lists {self._names:,} objects and goes on: more than casrewind takes",
                    "look at the bucket with its own tools; a URL for each project keeps lists short"
                )
            yield row

    def _count_request_and_bytes(self, verb: str, requests: int, *, sent: int = 0, received: int = 0) -> None:
        with self._counting:
            self._resident = self._resident if verb == LIST else 0
            self.requests[verb] = self.requests.get(verb, 0) + requests
            self.sent_bytes += sent
            self.received_bytes += received

    @contextmanager
    def _request(self, verb: str) -> "Iterator[None]":
        """Turn what a directory raises into words."""
        try:
            yield
        except OSError as error:
            raise _directory_error(self.url, verb, error) from error


def endpoint_of(url: str, options: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The address of the server of a remote: that of the options, for s3 else that of a variable or of the profile. "" = the
    cloud's own."""
    endpoint = options.get("endpoint", "")
    if endpoint or not url.startswith("s3:"):
        return endpoint
    return next(filter(None, map(environ.get, _ENDPOINTS)), "") or aws_profile.find(options.get("profile", ""), environ).endpoint


def _split_url(url: str, options: Mapping[str, str]) -> tuple[str, str, str]:
    """(scheme, bucket, path) of a URL. Raises UsageError for a URL or an option that means nothing."""
    try:
        found = urlsplit(url)
    except ValueError:
        found = urlsplit("")
    scheme, host, path = found.scheme, found.netloc, found.path.strip("/")
    is_odd = scheme != "file" and any(part in ("", ".", "..") for part in path.split("/")[: len(path)])
    if scheme not in _OPTIONS or found.query or found.fragment or is_odd or not url.isprintable():
        raise errors.UsageError(f"{messages.printable(url)} is not a place for a remote", f"write {_SCHEMES}")
    if "@" in host:
        raise errors.UsageError("a URL with a password in it would be kept in clear", "give credentials as variables of the environment")
    if bool(host) == (scheme == "file"):
        what = "directory of this machine" if scheme == "file" else "bucket"
        raise errors.UsageError(f"{messages.printable(url)} names no {what}", f"write {_SCHEMES}")
    if scheme != "file" and not re.fullmatch(_HOST, host):
        raise errors.UsageError(f"{host} is not the name of a bucket", "it has letters, digits, dots, - and _")
    for name in options:
        if name not in _OPTIONS[scheme]:
            raise errors.UsageError(f"{scheme}:// has no option {name}", f"it has {', '.join(_OPTIONS[scheme]) or 'none'}")
    return scheme, host, unquote(path) if scheme == "file" else path


def _directory_error(url: str, verb: str, error: OSError) -> errors.RemoteError:
    reason = messages.reason_of(error)
    if messages.is_disk_full(error):
        return errors.RemoteError(f"{reason} in {url}", "free some space there, then try again")
    if isinstance(error, PermissionError):
        return errors.RemoteError(f"{url} does not allow {_DOING[verb]}: {reason}", "nothing was changed")
    if isinstance(error, FileNotFoundError):
        return errors.RemoteError(f"the directory of {url} is gone, or its disk is not mounted")
    return errors.RemoteError(f"{_DOING[verb]} {url} failed: {reason}")


class _BeyondEnd(Exception):
    """The range of a get begins where the object has ended."""


class _AnswerCut(Exception):
    """A list was cut on its way."""


class _NoRange(Exception):
    """The answer to a range is that to a whole object, or does not say which range it is. Some servers send the range all the same."""


class _Bucket:
    """The calls of obstore, for memory:// too.

    Each runs in a thread of its own, because it is deaf to Ctrl-C until the server answers. Its asynchronous calls are not:
    but threads of the library still hold objects of Python after them, and abort the process if it exits right then.
    """

    def __init__(self, url: str, scheme: str, host: str, path: str, options: Mapping[str, str], patience: float) -> None:
        self._url, self._patience, self._silence = url, patience, patience or _SILENCE
        self.endpoint = ""
        """The URL of the server, if it is not the provider's own."""
        self.gives_ranges = True
        self._keyless = ""
        """A hint, where a silent server may be the one that is asked for credentials."""
        self._no_credentials: errors.RemoteError | None = None
        with needing_extra():
            import obstore.exceptions
            import obstore.store
        self._library = obstore
        if scheme == "memory":
            self._store: ObjectStore = _memories.setdefault(url, obstore.store.MemoryStore())
            return
        try:
            self._store = self._open(scheme, host, path, options)
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise bucket_error(url, LIST, str(error)) from error

    def _open(self, scheme: str, host: str, path: str, options: Mapping[str, str]) -> "ObjectStore":
        from datetime import timedelta

        from obstore.store import AzureStore, GCSStore, S3Store

        limit = timedelta(seconds=self._silence)
        client: _Values = {"connect_timeout": limit / 2, "timeout": timedelta(days=1)}  # see _call_with_deadline
        retry = {"max_retries": 10 if self._patience else 0, "retry_timeout": limit, "backoff": {"max_backoff": limit / 4}}
        more: _Values = {"prefix": path or None, "client_options": client, "retry_config": retry}
        endpoint = endpoint_of(self._url, options, os.environ)
        config: Any = {}  # one of three typed dictionaries
        if "account" in options:
            config["account_name"] = options["account"]
        if scheme == "s3":
            profile = aws_profile.find(options.get("profile", ""), os.environ)
            config |= profile.keys
            region = options.get("region") or next(filter(None, map(os.environ.get, _REGIONS)), profile.region)
            if not re.fullmatch(_REGION, region):
                raise errors.UsageError(f"{messages.printable(region)} is not the name of a region", "it looks like eu-central-1")
            if region:
                config["region"] = region
            if not profile.keys and profile.sign_in is None and not any(map(os.environ.get, _KEYS)):
                self._keyless = credentials_hint(scheme)
            if profile.sign_in is not None:
                more["credential_provider"] = self._keep_sign_in_error(profile.sign_in)
        self.endpoint = endpoint
        if endpoint:
            if not re.fullmatch(_ENDPOINT, endpoint):
                raise errors.UsageError(f"the endpoint {messages.printable(endpoint)} is not a URL", "write https://HOST or http://HOST:PORT")
            config["base_url" if scheme == "gs" else "endpoint"] = endpoint
            client["allow_http"] = endpoint.startswith("http://")
        kind = S3Store if scheme == "s3" else GCSStore if scheme == "gs" else AzureStore
        return kind(host, config=config, **more)

    def _keep_sign_in_error(self, sign_in: "Callable[[], dict[str, object]]") -> "Callable[[], dict[str, object]]":
        """The same for obstore, which would wrap the error: it is kept, for `_call_with_deadline` to raise."""

        def provide() -> dict[str, object]:
            try:
                return sign_in()
            except errors.RemoteError as error:
                self._no_credentials = error
                raise

        return provide

    def put_new(self, name: str, data: bytes) -> bool:
        known = self._library.exceptions
        try:
            self._put(name, data, "create")
        except (known.AlreadyExistsError, known.PreconditionError):
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        self._put(name, data, "overwrite")

    def _put(self, name: str, data: bytes, mode: "Literal['create', 'overwrite']") -> None:
        self._call_with_deadline(PUT, len(data), self._library.put, self._store, name, data, mode=mode, use_multipart=False)

    def get(self, name: str, start: int, end: int | None, *, is_whole: bool) -> bytes:
        wanted: _Values | None = None
        if self.gives_ranges and not is_whole:
            wanted = {"range": {"offset": start} if end is None else (start, end)}
        try:
            found = self._call_with_deadline(GET, 0, self._library.get, self._store, name, options=wanted)
        except _BeyondEnd:
            return b""
        except _NoRange:
            self.gives_ranges = False
            return self.get(name, start, end, is_whole=is_whole)
        first, last = found.range
        if end is None and last > SMALL:
            raise ObjectTooLong(last)
        last = last if end is None else min(last, end)
        try:
            return self._call_with_deadline(GET, last - first, _bytes_of_stream, found, start - first, last - start)
        except _BeyondEnd as error:  # it was to be longer, and the library has asked for the rest
            raise bucket_error(self._url, GET, CUT) from error

    def list(self, prefix: str, after: str) -> "Iterator[_Row]":
        pages, last, pause, began = self._pages(prefix, after), after, _FIRST_PAUSE, time.monotonic()
        while True:
            try:
                page = self._call_with_deadline(LIST, 0, next, pages, None)
            except _AnswerCut as error:  # what other requests do, the library does not for the bytes of a list
                if time.monotonic() + pause > began + self._patience:
                    raise bucket_error(self._url, LIST, CUT) from error
                time.sleep(pause)
                pages, pause = self._pages(prefix, last), 2 * pause
                continue
            for row in page or ():
                last = row["path"]
                yield last, row["size"], int(row["last_modified"].timestamp() * 1_000_000) * 1000, row["e_tag"] or ""
            if not page:
                return
            pause, began = _FIRST_PAUSE, time.monotonic()

    def _pages(self, prefix: str, after: str) -> "Iterator[Sequence[ObjectMeta]]":
        return self._library.list(self._store, prefix or None, offset=after or None, chunk_size=_PAGE)

    def delete(self, names: Sequence[str]) -> None:
        try:
            self._call_with_deadline(DELETE, 0, self._library.delete, self._store, list(names))
        except FileNotFoundError:  # which some servers answer, and then the others are still there
            if len(names) > 1:
                for name in names:
                    self.delete([name])

    def _call_with_deadline(self, verb: str, size: int, call: "Callable[..., _T]", *arguments: object, **named: object) -> "_T":
        """The outcome of a call that moves `size` bytes. What is no failure is raised as it is: an object that is gone, or
        there already."""
        known = self._library.exceptions
        limit = 1.5 * self._silence + size / _SLOWEST  # the library's own tries end before: it knows more about what is wrong
        try:
            return _call_in_thread(limit, call, *arguments, **named)
        except queue.Empty:
            raise errors.RemoteError(f"{self._url} cannot be reached: no answer in {limit:.0f} seconds", self._keyless) from None
        except (known.AlreadyExistsError, known.PreconditionError):
            raise
        except BaseException as error:
            if not isinstance(error, known.BaseError | OSError | ValueError) and type(error).__name__ != "PanicException":
                raise
            if self._no_credentials is not None:
                raise self._no_credentials from error
            if isinstance(error, FileNotFoundError) and verb in (GET, DELETE) and "NoSuchBucket" not in str(error):
                raise
            if verb == GET and beyond_end(str(error)):
                raise _BeyondEnd from error
            if verb == LIST and CUT in str(error):
                raise _AnswerCut from error
            if verb == GET and knows_no_range(str(error)):
                raise _NoRange from error
            raise bucket_error(self._url, verb, str(error)) from error


def _bytes_of_stream(found: "GetResult", start: int, length: int) -> bytes:
    """So many bytes of an answer, from an offset in it. What comes behind them is not waited for."""
    parts, at = [], 0
    for chunk in found.stream(_CHUNK) if length > 0 else ():
        parts.append(bytes(chunk)[max(0, start - at) : max(0, start + length - at)])
        at += len(chunk)
        if at >= start + length:
            break
    return b"".join(parts)


def _call_in_thread(limit: float, call: "Callable[..., _T]", *arguments: object, **named: object) -> "_T":
    """The outcome of a call. Raises queue.Empty after `limit` seconds, and KeyboardInterrupt at once; the thread is left then."""
    outcome: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            outcome.put((call(*arguments, **named), None))
        except BaseException as error:
            outcome.put((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    result, error = outcome.get(timeout=limit)
    thread.join()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # it is what the call returned
