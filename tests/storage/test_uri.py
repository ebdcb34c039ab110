"""URIs: kept literally, printed as they were read, and never leading out of their place."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbhub.storage.errors import BadName
from tbhub.storage.uri import Uri, file_name, object_name, parse, same_place_key

HOSTILE = "ab/.. %2f#?\\~:@&=+'\"<>\0\n\tü日😀*$-"
any_name = st.text(HOSTILE, max_size=12) | st.text(max_size=12)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("runs/a", Uri("file", path="runs/a")),
        ("/data/runs/", Uri("file", path="/data/runs")),
        ("/", Uri("file", path="/")),
        ("../x", Uri("file", path="../x")),
        ("C:/x", Uri("file", path="C:/x")),
        ("file:///data//runs", Uri("file", path="/data/runs")),
        ("file://localhost/data", Uri("file", path="/data")),
        ("file:///a%20b#c?d", Uri("file", path="/a%20b#c?d")),
        ("s3://bucket", Uri("s3", "bucket")),
        ("s3://bucket/", Uri("s3", "bucket")),
        ("S3://bucket/a b/%2f/#x?y", Uri("s3", "bucket", "a b/%2f/#x?y")),
        ("gs://my.bucket_1/ü/", Uri("gs", "my.bucket_1", "ü")),
        ("oss://b/a@b:c", Uri("oss", "b", "a@b:c")),
        (
            "oss://box.oss-cn-hangzhou.aliyuncs.com/logs/",
            Uri("oss", "box", "logs", "cn-hangzhou"),
        ),
        (
            "oss://my-box.oss-cn-hangzhou-internal.aliyuncs.com/a/b",
            Uri("oss", "my-box", "a/b", "cn-hangzhou-internal"),
        ),
        (
            "oss://box.oss-cn-x.aliyuncs.com.evil/a",
            Uri("oss", "box.oss-cn-x.aliyuncs.com.evil", "a"),
        ),
        ("az://box/p", Uri("az", "box", "p")),
        ("az://$web/p", Uri("az", "$web", "p")),
        ("az://box@acct/p", Uri("az", "box", "p", "acct")),
        ("abfs://box@acct.dfs.core.windows.net/p", Uri("az", "box", "p", "acct")),
        ("abfss://box@acct.blob.core.windows.net/p/", Uri("az", "box", "p", "acct")),
        (
            "abfs://box@acct.dfs.core.chinacloudapi.cn/p",
            Uri("az", "box", "p", "acct.dfs.core.chinacloudapi.cn"),
        ),
    ],
)
def test_parsing(text: str, uri: Uri) -> None:
    assert parse(text) == uri
    assert parse(str(uri)) == uri


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a\0b",
            "file://runs/x",
            "file://",
            "s3://",
            "s3:///key",
            "s3://b//key",
            "s3://b/a//",
        ),
        *("s3://b/../c", "s3://b/./c", "s3://b/a/..", "s3://a b/c", "s3://b/a\nb", "s3://b/a\\b"),
        *("s3://..", "s3://b%2fc/d", "s3://b?x/y", "az://box@/p", "az://box@-/p", "gs://b:80/c"),
        *("az://box@a..b/p", "s3://bucket@account/p"),
    ],
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(BadName, match=r"^cannot (open|store) "):
        parse(text)


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(BadName, match=r"ftp://….*s3://.*abfs://"):
        parse("ftp://host/x")


def test_a_password_in_a_uri_is_not_repeated() -> None:
    with pytest.raises(BadName) as caught:
        parse("s3://AKIA:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(BadName) as caught:
        parse("az://box@acct:hunter2/x")
    assert "hunter2" not in str(caught.value)


@given(
    st.sampled_from(["", "file:///", "s3://bucket/", "gs://b.c/", "oss://b/", "az://c@a/"]),
    any_name,
)
def test_what_is_printed_reads_back(start: str, name: str) -> None:
    try:
        uri = parse(start + name)
    except BadName:
        return
    assert parse(str(uri)) == uri
    if uri.scheme != "file":
        assert uri.path == name.removesuffix("/")  # literally


@given(
    st.sampled_from(["/data/runs", "runs", "s3://bucket/p", "s3://bucket", "az://c@a/p"]), any_name
)
def test_no_name_leads_out(start: str, name: str) -> None:
    base = parse(start)
    try:
        below = base / name
    except BadName:
        return
    assert (below.scheme, below.bucket, below.account) == (base.scheme, base.bucket, base.account)
    assert below.path == (f"{base.path}/{name}" if base.path else name)
    assert os.path.normpath(below.path) == below.path
    assert parse(str(below)) == below


@given(any_name)
def test_every_bucket_name_is_a_file_name(name: str) -> None:
    try:
        object_name(name)
    except BadName:
        return
    assert file_name(name) == name
    assert "\\" not in name
    assert name.isprintable() or all(ord(letter) >= 0x20 for letter in name)


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("oss://box/a/b", "oss://box/a/b"),
        ("oss://box.oss-cn-hangzhou.aliyuncs.com/a/b", "oss://box/a/b"),
        ("oss://box.oss-cn-hangzhou-internal.aliyuncs.com/a/b", "oss://box/a/b"),
        ("oss://box.oss-cn-hangzhou.aliyuncs.com", "oss://box"),
        ("oss://box.oss-x.aliyuncs.com.evil/a", "oss://box.oss-x.aliyuncs.com.evil/a"),
        ("oss://box/box.oss-x.aliyuncs.com/a", "oss://box/box.oss-x.aliyuncs.com/a"),
        ("s3://box.oss-x.aliyuncs.com/a", "s3://box.oss-x.aliyuncs.com/a"),
        ("/data/oss://box", "/data/oss://box"),
    ],
)
def test_all_spellings_of_a_place_have_one_key(uri: str, key: str) -> None:
    assert same_place_key(uri) == key
