"""Whether a server keeps the rules on which a remote rests, looked at once before a store's first push.

The danger prevented here: two copied machines that overwrite each other's pieces, and both say "pushed". A server that does not
know the condition of a put replaces what is there. Others list nothing, or know no ranges, and nobody can read back what was
pushed. None of them says so.

Only what is there already is put again, byte for byte, so that a server which replaces it has the same bytes afterwards.
"""

from concurrent.futures import ThreadPoolExecutor

from .. import errors
from .bucket_errors import OTHER_SERVER
from .connect import HEAD
from .objects import ObjectGone
from .remote_config import Remote, identity_of
from .seal import identity_of_head, open_head

_BEFORE = HEAD[:-1] + chr(ord(HEAD[-1]) - 1) + "~"
"""A name that comes before the head, and behind almost all other names that do."""
_NEAR = 100
"""Names in the list in which the head has to be: those of strangers may be between."""
REPLACES = "replaces an object that it was asked not to replace, so that machines would overwrite what others pushed"
HIDES = "does not list an object that is there, so that nobody would find what was pushed"
OTHER_BYTES = "gives back other bytes for a part of an object than for all of it"
NO_RANGES = "does not give the part of an object that is asked for, so that each part costs a reader all of it"


def require(remote: Remote) -> None:
    """Look whether the place of a remote keeps the rules, unless this store has found that it does. Four requests, and no new object.

    Raises RemoteError, which names each rule that it does not keep. An export has no place, and is not asked.
    """
    files, place = remote.files, remote.objects.place
    if files.state.probed == place:
        return
    broken = _broken_rules(remote)
    if broken:
        raise errors.RemoteError(f"nothing was pushed: the server of {remote.config.url} {'; it '.join(broken)}", OTHER_SERVER)
    files.save(files.state._replace(probed=place))


def _broken_rules(remote: Remote) -> list[str]:
    objects, url = remote.objects, remote.config.url
    try:
        head = objects.get(HEAD)
    except ObjectGone:
        raise errors.RemoteError(
            f"nothing was pushed: the remote at {url} is gone, or was never there: it has no object {HEAD}",
            "check the URL; if it is right, casrewind remote remove, then casrewind remote add URL, make it anew"
        ) from None
    is_ours = identity_of_head(head, url) == identity_of(remote.files.directory)
    if is_ours:
        open_head(remote.keys, head, url)
    else:
        raise errors.RemoteError(
            f"nothing was pushed: the remote at {url} is not the one that was added",
            "casrewind remote remove, then casrewind remote add URL, takes the one that is there"
        )
    with ThreadPoolExecutor() as pool:  # at once: a push in the last seconds of a container has no time for one after the other
        put = pool.submit(objects.put_new, HEAD, head)
        listed = pool.submit(objects.list, "", _BEFORE, _NEAR)
        part = pool.submit(objects.get, HEAD, 1, len(head) - 1)
    broken = [REPLACES] if put.result() else []
    found = listed.result()
    is_listed = any(info.name == HEAD and info.size == len(head) for info in found)
    if not is_listed and (len(found) < _NEAR or found[-1].name > HEAD):
        broken.append(HIDES)
    if part.result() != head[1:-1]:
        broken.append(OTHER_BYTES)
    if not objects.gives_ranges:
        broken.append(NO_RANGES)
    return broken
