"""What a failed request to a bucket means, in words.

The danger prevented here: a person reads `Generic S3 error` and 30 lines of XML, and does not know what to do. The
library tells only some causes apart (its own classes), so the server's codes are looked for in the text.
"""

import re
import time

from .. import errors, messages

PUT, GET, LIST, DELETE = "PUT", "GET", "LIST", "DELETE"
OTHER_SERVER = "upgrade that server, or take another one: casrewind remote remove, then casrewind remote add URL"
"""What to do where a server cannot hold a remote."""
_RIGHTS = {
    "s3": {PUT: "PutObject", GET: "GetObject", LIST: "ListBucket", DELETE: "DeleteObject"},
    "gs": {verb: f"storage.objects.{right}" for verb, right in ((PUT, "create"), (GET, "get"), (LIST, "list"), (DELETE, "delete"))},
    "az": {PUT: "blobs/write", GET: "blobs/read", LIST: "blobs/read", DELETE: "blobs/delete"},
}
"""What a person has to allow, by the name that the provider has for it."""
_CREDENTIALS = {
    "s3": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS, or sign in: gcloud auth application-default login",
    "az": "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_CLOCK = r"RequestTimeTooSkewed|RequestExpired|Request date header too old|reasonable timeframe"
_EXPIRED = r"ExpiredToken|TokenRefreshRequired|token (?:has|is) expired|invalid_grant"
_UNKNOWN = "InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|InvalidClientTokenId|AuthenticationFailed|401 Unauthorized"
_NONE = r"169\.254\.169\.254|/latest/api/token|metadata\.google\.internal|Missing(?:Secret)?AccessKey|Account must be specified"
_NO_BUCKET = r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist"
_DENIED = r"AccessDenied|Access Denied|PermissionDenied|403 Forbidden|AuthorizationPermissionMismatch|AuthorizationFailure"
_REGION = r"BareRedirect|PermanentRedirect|AuthorizationHeaderMalformed|incorrectly configured region|301 Moved"
_NAME = r'object with invalid path: .*?Path "([^"\n]*)"'
_NO_CONDITION = r"501 Not Implemented|NotImplemented"
_BUSY = r"\b(5\d\d [A-Z][A-Za-z ]+)|SlowDown"
CUT = "response body error"
"""In the text of the library for an answer that ended too early."""
_NO_RANGE = r"non-partial response|Content-Range header (?:not|contained)|parse .*CONTENT_RANGE|Requested \d+\.\.\d+, got"
_NOT_REACHED = r"response body error|error sending request|tcp connect|dns error|HttpError|connection (?:closed|reset)"
_REASONS = (
    (r"dns error|failed to lookup address", "no machine of that name is known"),
    (r"UnknownIssuer|invalid peer certificate|CertificateInvalid|self.signed", "its certificate is not trusted"),
    (r"InvalidContentType|corrupt message", "it does not speak https: write its endpoint with http://"),
    (r"Connection refused", "connection refused"), (r"Network is unreachable", "no network"), (r"No route to host", "no route to host"),
    (r"operation timed out|TimedOut|kind: Timeout", "no answer"),
    (r"[Cc]onnection reset|IncompleteMessage|connection closed", "the connection broke"), (CUT, "its answer was cut"),
)  # fmt: skip
_STATUS = r"status code: (\d{3}[^:\n]*)"
_LINE_CHARACTERS = 200


def bucket_error(url: str, verb: str, text: str) -> errors.RemoteError:
    """The error for a failed request, from the text of the library's exception."""
    scheme = url.partition(":")[0]

    def found(pattern: str) -> bool:
        return re.search(pattern, text) is not None

    if found(_CLOCK):
        now = time.strftime("%Y-%m-%d %H:%MZ", time.gmtime())
        return errors.RemoteError(f"{url} refuses this machine's clock ({now})", "set it, then try again")
    if found(_EXPIRED):
        return errors.RemoteError(f"the credentials for {url} have expired", "get new ones, then try again")
    if found(_NO_BUCKET) or (verb == LIST and found("404 Not Found")):
        return errors.RemoteError(f"the bucket of {url} is gone, or its name is misspelt")
    if found(_UNKNOWN):
        return errors.RemoteError(f"{url} does not know these credentials", credentials_hint(scheme))
    if found(_NONE):
        return errors.RemoteError(f"there are no credentials for {url}", credentials_hint(scheme))
    right = _RIGHTS.get(scheme, _RIGHTS["s3"])[verb]
    if found(_DENIED):
        return errors.RemoteError(f"{url} does not allow {right} to the present credentials", "nothing was changed")
    if found(_REGION):
        return errors.RemoteError(f"{url} is in another region", "name its region: AWS_REGION, or the option region")
    if match := re.search(_NAME, text):
        name = messages.printable(match[1])
        return errors.RemoteError(f"an object in {url} has the name {name}, which is not one of casrewind's", "delete it")
    return _not_reached_error(url, verb, text) or errors.RemoteError(f"{url}: {right} failed: {_server_message(text)}")


def _not_reached_error(url: str, verb: str, text: str) -> errors.RemoteError | None:
    """The error for a server that did not answer, or that answered that it cannot; None for an answer of another kind."""
    if verb == PUT and re.search(_NO_CONDITION, text):
        return errors.RemoteError(f"the server of {url} cannot write an object only if its name is free", OTHER_SERVER)
    if match := re.search(_BUSY, text):
        return errors.RemoteError(f"{url} cannot be reached: the server answers {match[1] or 'that it is busy'}")
    if not re.search(_NOT_REACHED, text):
        return None
    reason = next((words for pattern, words in _REASONS if re.search(pattern, text)), _server_message(text))
    return errors.RemoteError(f"{url} cannot be reached: {reason}")


def beyond_end(text: str) -> bool:
    """True if a range was refused because the object ends before it."""
    return re.search(r"Invalid ?[Rr]ange|416 ", text) is not None


def knows_no_range(text: str) -> bool:
    """True if the answer to a range was that to a whole object, or does not say which range it is."""
    return re.search(_NO_RANGE, text) is not None


def credentials_hint(scheme: str) -> str:
    """Where the credentials of a provider come from."""
    return _CREDENTIALS.get(scheme, "")


def _server_message(text: str) -> str:
    """The server's own words, or the first line of the library's: the rest is its view of itself. One line."""
    if status := re.search(_STATUS, text):
        told = re.search(r"<Message>([^<]+)", text)
        line = f"the server answers {status[1].strip()}{f' ({told[1].strip()})' if told else ''}"
    else:
        first = next(filter(None, map(str.strip, text.splitlines())), "no reason given")
        line = re.sub(r"^(?:Generic \w+ error: )?(?:Error performing .* - )?", "", first)
    line = messages.printable(line)
    return line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + "..."
