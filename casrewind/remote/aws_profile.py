"""Credentials of a profile of AWS: keys from its files, or from the program `aws` for every other way to sign in.

obstore knows the variables, and the credentials that a machine of AWS has. It reads no profile without boto3, which
is an engine of its own. Single sign-on, roles and credential processes are what `aws configure export-credentials`
is for, and whoever signs in in such a way has that program.
"""

import configparser
import json
import os
import shutil
import subprocess
from datetime import datetime

from .. import errors, messages
from .._typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STATIC = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key", "session_token": "aws_session_token"}
_SIGN_IN = ("sso_session", "sso_start_url", "role_arn", "credential_process", "login_session", "web_identity_token_file")
_PATIENCE = 60


class Profile(NamedTuple):
    """What a profile gives. `keys`: fixed keys, by obstore's names; `sign_in`: fetches keys that expire, or None."""

    keys: dict[str, str]
    region: str
    endpoint: str
    sign_in: "Callable[[], dict[str, object]] | None"


NO_PROFILE = Profile({}, "", "", None)


def find(name: str, environ: "Mapping[str, str]") -> Profile:
    """The profile that the SDKs would use: the named one, else that of AWS_PROFILE, else `default`.

    Keys in the environment win over a profile that was not named. Raises RemoteError if a named one cannot be used.
    """
    wanted = name or environ.get("AWS_PROFILE", "")
    section = _read_profile_section(environ, "AWS_CONFIG_FILE", "config", wanted)
    section |= _read_profile_section(environ, "AWS_SHARED_CREDENTIALS_FILE", "credentials", wanted)
    if not section:
        if wanted:
            raise errors.RemoteError(f"there is no profile {wanted} in the files of AWS", "see ~/.aws/config, or give another --profile")
        return NO_PROFILE
    region, endpoint = section.get("region", ""), section.get("endpoint_url", "")
    if "AWS_ACCESS_KEY_ID" in environ and not name:
        return Profile({}, region, endpoint, None)
    keys = {ours: section[theirs] for ours, theirs in _STATIC.items() if theirs in section}
    if "access_key_id" in keys:
        return Profile(keys, region, endpoint, None)
    if not wanted and not any(key in section for key in _SIGN_IN):
        return Profile({}, region, endpoint, None)
    return Profile({}, region, endpoint, lambda: _ask_aws_for_credential(wanted or "default"))


def _read_profile_section(environ: "Mapping[str, str]", variable: str, file: str, name: str) -> dict[str, str]:
    path = environ.get(variable) or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".aws", file)
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read(path, "utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        raise errors.RemoteError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    titles = [name or "default"] if file == "credentials" or not name or name == "default" else [f"profile {name}"]
    return next((dict(parser[title]) for title in titles if title in parser), {})


def _ask_aws_for_credential(name: str) -> dict[str, object]:
    """A credential as obstore wants it, from the program `aws`."""
    if shutil.which("aws") is None:
        raise errors.RemoteError(
            f"the profile {name} has no keys of its own, and only the program aws can sign in with it",
            "install the AWS CLI, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    command = ["aws", "configure", "export-credentials", "--profile", name, "--format", "process"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False)
    except (subprocess.TimeoutExpired, OSError) as error:
        raise _no_credentials_error(name, "no answer") from error
    try:
        found = json.loads(done.stdout)
        expires = found.get("Expiration")
        return {
            "access_key_id": found["AccessKeyId"], "secret_access_key": found["SecretAccessKey"], "token": found.get("SessionToken"),
            "expires_at": datetime.fromisoformat(expires) if expires else None,
        }  # fmt: skip
    except (ValueError, KeyError, AttributeError) as error:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise _no_credentials_error(name, messages.printable(said.splitlines()[-1]) if said else "none in its answer") from error


def _no_credentials_error(name: str, reason: str) -> errors.RemoteError:
    return errors.RemoteError(f"aws gives no credentials for the profile {name}: {reason}", f"aws sso login --profile {name}")
