"""Reads and writes sessions, those included that are no single file of their client."""

from . import client_process
from .profiles import Profile


def new_session(profile: Profile) -> str:
    """An id for a new session."""
    if profile.name == "opencode":
        from . import opencode

        return opencode.new_session()
    import uuid

    return str(uuid.uuid4())


def live(profile: Profile, path: str) -> bytes | None:
    """A transcript that is no file, as the client has it now; None if the path is that of a file."""
    if profile.name != "opencode":
        return None
    from . import opencode

    return opencode.read(path)


def write(profile: Profile, transcript: str, session: str, data: bytes, path: str, root: str, homes: client_process.Homes) -> str:
    """Write a new session at `path`, made from the session with the path `transcript`. Returns its path. `root` is the
    project's root. Raises AgentError, StoreFull; then there is no new session."""
    if profile.name == "copilot":
        from . import copilot

        return copilot.write_fork(transcript, session, data)
    if profile.name == "opencode":
        from . import opencode

        return opencode.write_fork(transcript, session, data, root, homes)
    return client_process.write_fork(profile, transcript, session, data, path)


def check_files_only(profile: Profile) -> None:
    """Raise AgentError for a client with conversations that casrewind cannot read."""
    if profile.files_only:
        from .files_only import FilesOnlyAgent

        FilesOnlyAgent(profile).refuse()
