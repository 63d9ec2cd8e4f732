"""What looks like a secret, by the name of a file or by the form of a text: it is named before it leaves the machine.

Neither list is complete. A name that is missing here is asked about nowhere, so a person still reads what they send.
"""

import re

_NAMES = re.compile(
    r"(?i)\.env(\..+)?|.+\.env|\.?secrets?(\..+)?|credentials(\..+)?|id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\..+)?"
    r"|.+\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|\.(netrc|npmrc|pypirc|pgpass|htpasswd|git-credentials|dockercfg)|service[-_]?account.*\.json|terraform\.tfstate|.+\.tfvars"
)
_HARMLESS = re.compile(r"(?i).*\.(example|sample|template|dist|pub)")
_TEXTS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{36}|\bgithub_pat_\w{22}|\bglpat-[\w-]{20}"
    r"|\bsk-[\w-]{32}|\bxox[abprs]-[\w-]{10}"
    r"|\bAIza[\w-]{35}|\bnpm_\w{36}|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.|://[^\s/:@]+:[^\s/@]{3,}@"
)


def is_secret_name(path: bytes) -> bool:
    """True if a file of this name usually holds secrets: .env, id_rsa, server.key; not .env.example and id_rsa.pub."""
    name = path.rpartition(b"/")[2].decode("utf-8", "replace")
    return _NAMES.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def has_secret(text: str) -> bool:
    """True if a text has what looks like a key, a token, or a password in a URL."""
    return _TEXTS.search(text) is not None
