"""Errors, from what real stores have answered; never with a secret in them."""

from __future__ import annotations

import pickle

import obstore.exceptions as raised
import pytest

from tbhub.errors import TbhubError
from tbhub.storage import errors
from tbhub.storage.classify import PastEndError, classify
from tbhub.storage.errors import StoreError

SIGNED = "https://acct.blob.core.windows.net/box/a?sv=2020&sig=hunter2%3D"
HTTP = f"Error performing GET {SIGNED} in 1ms - Server returned non-2xx status code: "
NETWORK = (
    f"Generic S3 error: Error performing GET {SIGNED} in 1ms - HTTP error: error sending request"
)


def xml(status: int, code: str, message: str = "") -> Exception:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return raised.GenericError(f"{HTTP}{status} Something: {body}")


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (xml(404, "NoSuchBucket"), errors.NoBucket, "create it"),
        (xml(404, "ContainerNotFound"), errors.NoBucket, "no such bucket"),
        (xml(404, "NoSuchKey"), errors.NotFound, "no such object"),
        (FileNotFoundError("Object at location a not found"), errors.NotFound, "no such object"),
        (xml(403, "AccessDenied"), errors.NoPermission, "no permission to read"),
        (xml(403, ""), errors.NoPermission, "403"),
        (
            raised.GenericError("DeleteObjects failed for key a: Denied. (code: AccessDenied)"),
            errors.NoPermission,
            "AccessDenied",
        ),
        (xml(403, "SignatureDoesNotMatch"), errors.BadCredentials, "key and secret"),
        (xml(403, "InvalidAccessKeyId"), errors.BadCredentials, "not accepted"),
        (xml(400, "ExpiredToken"), errors.BadCredentials, "expired"),
        (xml(401, "InvalidAuthenticationInfo"), errors.BadCredentials, "not accepted"),
        (
            xml(403, "AuthorizationFailure", "Server failed to authenticate the request."),
            errors.BadCredentials,
            "account and key",
        ),
        (
            raised.GenericError(
                "Generic HTTP client error: builder error\n\nDebug source:\nGeneric {"
                ' source: General(\n "No CA certificates were loaded from the system",\n) }'
            ),
            errors.BadCertificate,
            "hint: install the package ca-certificates",
        ),
        (
            raised.GenericError(f"{NETWORK} kind: Connect, InvalidCertificate(\n UnknownIssuer,)"),
            errors.BadCertificate,
            "set SSL_CERT_FILE",
        ),
        (
            raised.GenericError(f"{NETWORK} kind: Connect, InvalidCertificate(\n Expired,)"),
            errors.BadCertificate,
            "not valid: Expired",
        ),
        (xml(403, "RequestTimeTooSkewed"), errors.ClockSkew, "clock"),
        (
            xml(403, "AuthenticationFailed", "Request date header too old: 'Mon'"),
            errors.ClockSkew,
            "clock",
        ),
        (
            xml(400, "AuthorizationHeaderMalformed", "region is wrong; expecting 'eu-west-1'"),
            errors.WrongRegion,
            "it is in eu-west-1",
        ),
        (xml(301, "PermanentRedirect"), errors.WrongRegion, "set the region"),
        (
            raised.GenericError(
                f"{HTTP}403 Forbidden: <Error><Code>AccessDenied</Code><Message>The bucket you are "
                "attempting to access must be addressed using the specified endpoint.</Message>"
                "<Endpoint>oss-cn-beijing.aliyuncs.com</Endpoint></Error>"
            ),
            errors.WrongRegion,
            "oss-cn-beijing.aliyuncs.com",
        ),
        (xml(503, "SlowDown"), errors.Throttled, "fewer"),
        (xml(429, ""), errors.Throttled, "fewer"),
        (xml(503, "ServerBusy"), errors.Throttled, "fewer"),
        (xml(500, "InternalError"), errors.Unreachable, "500 InternalError"),
        (xml(400, "RequestTimeout"), errors.Timeout, "gave up"),
        (xml(412, "PreconditionFailed"), errors.Conflict, "someone else"),
        (raised.AlreadyExistsError("Object at location a already exists"), errors.Conflict, "else"),
        (xml(400, "KeyTooLongError"), errors.BadName, "name"),
        (ValueError("Could not parse path"), errors.BadName, "name"),
        (raised.GenericError(f"{NETWORK}\n kind: Connect,"), errors.Unreachable, "is the store up"),
        (raised.GenericError(f"{NETWORK}\n kind: Timeout,"), errors.Timeout, "in time"),
        (raised.GenericError("body error\n kind: Interrupted,"), errors.BrokenOff, "broke off"),
        (raised.GenericError(f"{NETWORK}\n kind: Request,"), errors.Unreachable, "broke"),
        (
            raised.GenericError(
                "Error performing PUT http://169.254.169.254/latest/api/token in 1ms - HTTP error"
                "\n kind: Connect,"
            ),
            errors.BadCredentials,
            "no credentials",
        ),
        (
            raised.GenericError("Invalid Access Key: hunter2"),
            errors.BadCredentials,
            "cannot be used",
        ),
        (xml(501, "NotImplemented"), StoreError, "501 NotImplemented"),
        (raised.GenericError("hunter2"), StoreError, "the store failed"),
    ],
)
def test_kinds(error: Exception, kind: type[StoreError], says: str) -> None:
    found = classify(error, "read", "s3://bucket/a", "a")
    assert type(found) is kind
    assert isinstance(found, TbhubError | OSError)
    assert str(found).startswith("cannot read s3://bucket/a: ")
    assert says in str(found)
    assert "hunter2" not in str(found)
    assert "hunter2" not in repr(found)
    copy = pickle.loads(pickle.dumps(found))
    assert (type(copy), str(copy)) == (kind, str(found))


def test_which_may_pass() -> None:
    passing = {kind.__name__ for kind in StoreError.__subclasses__() if kind.passing}
    assert passing == {"Unreachable", "Timeout", "Throttled"}


def test_nothing_behind_the_end() -> None:
    assert isinstance(classify(xml(416, "InvalidRange"), "read", "s3://b/a", "a"), PastEndError)


@pytest.mark.parametrize(
    "name",
    [
        *("status code: 503", "<Code>NoSuchBucket</Code>", "kind: Timeout", "(code: SlowDown)"),
        '"<Code>NoSuchBucket</Code>',
    ],
)
def test_a_name_cannot_pose_as_an_answer(name: str) -> None:
    quoted = name.replace('"', '\\"')
    text = f'Object at location {name} not found: gone\n NotFound {{ path: "{quoted}" }}'
    found = classify(FileNotFoundError(text), "read", "s3://b/x", name)
    assert type(found) is errors.NotFound


def panic(message: str) -> BaseException:
    kind = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    made: BaseException = kind(message)
    return made


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("called on an `Err` value: InvalidIpv4Address", "`Err` value: InvalidIpv4Address. hint:"),
        (f"Err({SIGNED}) in the\nrest", "failed: … in the. hint:"),
        ('Err(Key { secret: "hunter2", token: "hunter2', "Key { secret: …, token: …. hint:"),
    ],
)
def test_a_panic_of_the_library_is_an_error_that_does_not_pass(message: str, says: str) -> None:
    found = classify(panic(message), "read", "s3://b/a", "a")
    assert type(found) is StoreError
    assert not found.passing
    assert "the storage library failed: " in str(found)
    assert says in str(found)
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_process_is_no_error_of_a_store(kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        classify(kind(), "read", "s3://b/a", "a")


LOGIN_FILE = "~/.config/gcloud/application_default_credentials.json"
TOKEN_REQUEST = (
    "Generic GCS error: Error performing token request: Error performing POST "
    "https://accounts.google.com/o/oauth2/token in 1ms - "
)


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (
            "HTTP error: error sending request kind: Connect,",
            errors.Unreachable,
            "be reached. hint",
        ),
        ("HTTP error: error sending request kind: Timeout,", errors.Timeout, "in time"),
        (
            'Server returned non-2xx status code: 400 Bad Request: { "error": "invalid_grant",'
            ' "error_description": "Token has been expired or revoked. hunter2" }',
            errors.BadCredentials,
            "expired or was revoked. hint: log in again with `gcloud auth",
        ),
        (
            "Server returned non-2xx status code: 401 Unauthorized: invalid_client hunter2",
            errors.BadCredentials,
            "does not accept it. hint",
        ),
        ("Server returned non-2xx status code: 503 Busy: ", errors.Unreachable, "has failed"),
    ],
)
def test_a_login_file_that_cannot_be_used_is_named(
    text: str, kind: type[StoreError], says: str
) -> None:
    for file, named in ((LOGIN_FILE, f"the login in {LOGIN_FILE}"), ("", "the Google login")):
        found = classify(raised.GenericError(TOKEN_REQUEST + text), "list", "gs://b", "", file)
        assert type(found) is kind
        assert str(found).startswith(f"cannot list gs://b: {named} could not be used: ")
        assert says in str(found)
        assert "hunter2" not in str(found)


def test_a_machine_without_an_identity_is_not_taken_for_a_bad_login() -> None:
    text = (
        "Generic GCS error: Error performing token request: Error performing GET "
        "http://169.254.169.254/computeMetadata/v1/instance/token?audience=oauth2 in 1ms - x"
    )
    found = classify(raised.GenericError(text), "list", "gs://b", "")
    assert "this machine has no identity" in str(found)
