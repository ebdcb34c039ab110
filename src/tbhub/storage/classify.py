"""From what obstore raises to an error of ours.

obstore tells little by the class of its exceptions; the rest is in their texts, which hold the
status, the store's own error code and the kind of a network failure, but also addresses that may be
signed. So facts are picked out of a text, and the text itself is thrown away; of a panic's, a line
without values is kept. Pure, and tested with texts of real servers.
"""

from __future__ import annotations

import re

from tbhub.storage.errors import (
    BadCertificate,
    BadCredentials,
    BadName,
    BrokenOff,
    ClockSkew,
    Conflict,
    NoBucket,
    NoPermission,
    NotFound,
    StoreError,
    Throttled,
    Timeout,
    Unreachable,
    WrongRegion,
)
from tbhub.storage.store import WRITE

_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|\(code: ([A-Za-z]{1,60})\)")
_KIND = re.compile(r"kind: (Connect|Timeout|Request|Interrupted|Decode|Body|UnexpectedEof)\b")
_REGION = re.compile(r"<(?:Region|Endpoint)>([A-Za-z0-9.-]{1,80})</|expecting '([a-z0-9-]{1,40})'")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?')
_ADDRESS = re.compile(r"\S+://\S*")
_MAX_PANIC_TEXT = 200  # characters
_QUOTED_PATH = re.compile(r'path: "(?:[^"\\]|\\.)*"')
# Where machines of the clouds are asked who they are.
_IDENTITY = re.compile(
    r"/latest/(?:api/token|meta-data)|/computeMetadata/|/metadata/identity|token request"
    r"|169\.254\.170\.2|AssumeRole|oauth2"
)

# A login of Google's, in a file or given, that is exchanged for a token.
_GOOGLE_LOGIN = re.compile(r"GCS error: Error performing token request: Error performing POST ")
_GOOGLE_FILE = re.compile(r"GCS error: Unable to (open|decode) service account file")

_NO_AUTHORITIES = "No CA certificates were loaded"
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*([A-Za-z]{1,40})")

_CREDENTIAL_CODES = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", "AuthFailure"),
    *("AuthenticationFailed", "NoAuthenticationInformation", "InvalidAuthenticationInfo"),
    *("AuthenticationRequired", "AccountIsDisabled", "UnrecognizedClientException"),
}
_EXPIRED_CODES = {
    *("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestExpired"),
    *("SecurityTokenExpired", "InvalidSecurityToken"),
}
_BUCKET_CODES = {
    *("NoSuchBucket", "InvalidBucketName", "ContainerNotFound", "ContainerBeingDeleted"),
    *("ContainerDisabled", "AccountNotFound"),
}
_SKEW_CODES = {"RequestTimeTooSkewed", "RequestInTheFuture"}
_REGION_CODES = {
    *("PermanentRedirect", "TemporaryRedirect", "Redirect", "AuthorizationHeaderMalformed"),
    *("IllegalLocationConstraintException", "InvalidRegionName"),
}
_THROTTLE_CODES = {
    *("SlowDown", "SlowDownRead", "SlowDownWrite", "ServerBusy", "TooManyRequests", "Throttling"),
    *("ThrottlingException", "RequestLimitExceeded", "RateLimitExceeded", "QpsLimitExceeded"),
}
_TIMEOUT_CODES = {"RequestTimeout", "OperationTimedOut"}
_NAME_CODES = {
    *("KeyTooLongError", "KeyTooLong", "InvalidURI", "InvalidObjectName", "InvalidResourceName"),
    *("InvalidUri", "MalformedXML", "InvalidName"),
}
_CONFLICT_CODES = {
    *("PreconditionFailed", "ConditionNotMet", "ConditionalRequestConflict", "BlobAlreadyExists"),
    *("FileAlreadyExists", "TargetConditionNotMet", "UpdateNotLatest"),
}
_SETUP = (
    "set the environment variables in docs/storage.md where this runs; for what the hub reads, "
    "`tbhub storage add`; the hub keeps the logs of runs for which no storage is given"
)


class PastEndError(Exception):
    """A range began at or behind the end of an object: there is nothing to read."""


def classify(
    error: BaseException, verb: str, where: str, path: str, login_file: str = ""
) -> StoreError | PastEndError:
    """Return the error of ours that says what happened.

    A panic of the library (a BaseException) becomes a StoreError like any other failure. Other
    BaseExceptions, such as KeyboardInterrupt, are raised unchanged.

    Args:
        login_file: The file that the store's login is read from; empty if from none.
    """
    if _is_panic(error):
        return StoreError(verb, where, f"the storage library failed: {_panic_text(str(error))}")
    if not isinstance(error, Exception):
        raise error
    text = _QUOTED_PATH.sub("", str(error))
    if any(facts.search(path) for facts in (_STATUS, _CODE, _KIND)):
        text = text.replace(path, "")  # a name that is made to look like an answer
    name = type(error).__name__
    status = int(next((a or b for a, b in _STATUS.findall(text)), "0"))
    code = next((a or b for a, b in _CODE.findall(text)), "")
    kinds = set(_KIND.findall(text))

    def made(kind: type[StoreError], what: str) -> StoreError:
        facts = " ".join(fact for fact in (str(status or ""), code) if fact)
        return kind(verb, where, f"{what} ({facts})" if facts else what)

    if status == 416 or "InvalidRangeRequest" in text:
        return PastEndError()
    if name == "UnknownConfigurationKeyError":
        return made(BadCredentials, "a setting that this store does not know")
    if certificate := _by_certificate(text):
        return made(BadCertificate, certificate)
    if _GOOGLE_LOGIN.search(text) or (login_file and _GOOGLE_FILE.search(text)):
        found = _by_google_login(text, status, kinds, login_file)
        status = 0  # of another server
        return made(*found)
    if _IDENTITY.search(text) and not code:
        status = 0  # of another server
        return made(BadCredentials, f"no credentials, and this machine has no identity: {_SETUP}")
    for known in (_by_words, _by_code, _by_status):
        reason = known(code, text, status, verb)
        if reason is not None:
            return made(*reason)
    if name in ("AlreadyExistsError", "PreconditionError"):
        return made(Conflict, "it has been written to by someone else")
    if name == "NotFoundError" or isinstance(error, FileNotFoundError):
        return made(NotFound, "there is no such object")
    if name == "InvalidPathError" or isinstance(error, ValueError):
        return made(BadName, "the store cannot hold this name")
    if "list response body" in text:
        return made(BrokenOff, "the answer broke off")
    if "Timeout" in kinds:
        return made(Timeout, "the store did not answer in time")
    if "Connect" in kinds:
        return made(Unreachable, "no connection; is the address right, and is the store up?")
    if kinds & {"Interrupted", "Body", "UnexpectedEof"}:
        return made(BrokenOff, "the answer broke off")
    if kinds:
        return made(Unreachable, "the connection broke")
    if re.search("credential|access key|service account|private key|token", text, re.I):
        return made(BadCredentials, f"the credentials cannot be used: {_SETUP}")
    return made(StoreError, "the store failed")


def _is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of Rust code, whose class cannot be imported."""
    kind = type(error)
    return (kind.__module__, kind.__name__) == ("pyo3_runtime", "PanicException")


def _panic_text(text: str) -> str:
    """Return the first line of a panic's message, without the values and addresses in it."""
    line = text.partition("\n")[0]
    line = _ADDRESS.sub("…", _QUOTED.sub("…", line))[:_MAX_PANIC_TEXT]
    return f"{line}. hint: check the endpoint, the region and the keys"


_Found = tuple[type[StoreError], str]


def _by_certificate(text: str) -> str:
    """Say why the store's certificate was rejected; empty if it was not."""
    if _NO_AUTHORITIES in text:
        return (
            "no CA certificates are installed here to check the store's certificate with. hint: "
            "install the package ca-certificates (in the image, if this is a container), or set "
            "SSL_CERT_FILE to a file of CA certificates"
        )
    found = _CERTIFICATE.search(text)
    if found is None:
        return ""
    if found[1] == "UnknownIssuer":
        return (
            "the store's certificate was issued by an authority that is not trusted here. hint: "
            "set SSL_CERT_FILE to a file with that authority's certificate"
        )
    return f"the store's certificate is not valid: {found[1]}"


def _by_google_login(text: str, status: int, kinds: set[str], file: str) -> _Found:
    """Say why a login of Google's cannot be used."""
    login = f"the login in {file}" if file else "the Google login"
    if unusable := _GOOGLE_FILE.search(text):
        if unusable[1] == "open":
            return BadCredentials, (
                f"{login} could not be used: the file cannot be opened. hint: check its path and "
                "who may read it"
            )
        return BadCredentials, (
            f"{login} could not be used: the file is no login of Google's. hint: "
            "`gcloud auth application-default login` writes one"
        )
    if "invalid_grant" in text:
        return BadCredentials, (
            f"{login} could not be used: it has expired or was revoked. hint: log in again with "
            "`gcloud auth application-default login`, or use a new key of the service account"
        )
    if status == 429 or status >= 500:
        return Unreachable, f"{login} could not be used: Google's token server has failed"
    if status:
        return BadCredentials, (
            f"{login} could not be used: Google's token server does not accept it. hint: log in "
            "again with `gcloud auth application-default login`, or use a new key of the service "
            "account"
        )
    if "Timeout" in kinds:
        return Timeout, f"{login} could not be used: Google's token server did not answer in time"
    return Unreachable, (
        f"{login} could not be used: Google's token server cannot be reached. hint: check the "
        "network of the machine that reads the bucket, and HTTPS_PROXY if it needs a proxy"
    )


def _by_code(code: str, text: str, status: int, verb: str) -> _Found | None:
    if code in _REGION_CODES:
        return _region(text)
    if code in _SKEW_CODES:
        return ClockSkew, "this machine's clock is wrong; set it"
    if code in _EXPIRED_CODES:
        return BadCredentials, "the credentials have expired or are not valid; get new ones"
    if code in _CREDENTIAL_CODES:
        return BadCredentials, "the credentials are not accepted; check key and secret"
    if code in _BUCKET_CODES:
        return NoBucket, "there is no such bucket; create it, or check its name and the account"
    if code in _THROTTLE_CODES:
        return Throttled, "the store asks for fewer requests; try again later"
    if code in _TIMEOUT_CODES:
        return Timeout, "the store gave up waiting"
    if code in _NAME_CODES:
        return BadName, "the store cannot hold this name"
    if code in _CONFLICT_CODES:
        return Conflict, "it has been written to by someone else"
    return None


def _by_words(code: str, text: str, status: int, verb: str) -> _Found | None:
    if re.search("date header (?:is )?too old|Request has expired", text, re.I):
        return ClockSkew, "this machine's clock is wrong; set it"
    if (
        "must be addressed using the specified endpoint" in text
        or "redirect without LOCATION" in text
    ):
        return _region(text)
    if "failed to authenticate" in text:
        return BadCredentials, "the credentials are not accepted; check account and key"
    return None


def _by_status(code: str, text: str, status: int, verb: str) -> _Found | None:
    if status == 401:
        return BadCredentials, "the credentials are not accepted; check them"
    if status == 403 or code == "AccessDenied":
        return NoPermission, f"no permission to {verb} there"
    if status == 404:
        return NotFound, "there is no such object"
    if status in (301, 307):
        return _region(text)
    if status in (409, 412) and verb == WRITE:
        return Conflict, "it has been written to by someone else"
    if status == 429:
        return Throttled, "the store asks for fewer requests; try again later"
    if status in (408, 504):
        return Timeout, "the store gave up waiting"
    if status == 501:
        return StoreError, "the store does not know how"
    if status >= 500:
        return Unreachable, "the store says that it has failed"
    return None


def _region(text: str) -> _Found:
    found = _REGION.search(text)
    right = f": it is in {found[1] or found[2]}" if found else ""
    return WrongRegion, f"the bucket is in another region{right}; set the region"
