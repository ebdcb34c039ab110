"""TensorBoard's page as we serve it: the same bytes, other addresses, no HTML but its and ours."""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
import tensorboard

from tbhub.boards.assets import Assets
from tbhub.errors import TbhubError

WEBFILES = Path(tensorboard.__file__).parent / "webfiles.zip"
HOSTILE = "\"><script>alert('1')</script>&amp;é </title>"


@pytest.fixture(scope="module")
def assets() -> Assets:
    return Assets()


class Page(HTMLParser):
    """The tags of a page with their attributes, in order, and the text of its title."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.title = ""
        self.inline_scripts = ""
        self._inside = ""
        self.feed(text.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
        if self._inside == "script":
            self.inline_scripts += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def index(assets: Assets, **given: str) -> bytes:
    arguments = {"board": "abc", "static_root": "../../static", **given}
    return assets.index(data_version=7, **arguments).raw()


def names() -> list[str]:
    with zipfile.ZipFile(WEBFILES) as archive:
        files = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    assert len(files) > 50
    return [name for name in files if name != "index.html"]


def test_every_file_is_served_as_tensorboard_would(assets: Assets) -> None:
    with zipfile.ZipFile(WEBFILES) as archive:
        for name in names():
            asset, content = assets.find(name), archive.read(name)
            assert asset is not None
            assert asset.raw() == content
            if asset.gzip is not None:
                assert gzip.decompress(asset.gzip) == content
                assert len(asset.gzip) < len(content)


def test_what_is_compressed_already_is_not_compressed_again(assets: Assets) -> None:
    fonts = [found for name in names() if name.endswith(".woff2") and (found := assets.find(name))]
    assert sum(font.gzip is None for font in fonts) > len(fonts) / 2
    script = assets.find("index.js")
    assert script is not None
    assert script.gzip is not None
    assert len(script.gzip) < 2_500_000


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("index.js", "text/javascript; charset=utf-8"),
        ("board.js", "text/javascript; charset=utf-8"),
        ("icon_bundle.svg", "image/svg+xml; charset=utf-8"),
        ("font-roboto/roboto.html", "text/html; charset=utf-8"),
        ("font-roboto/LICENSE", "application/octet-stream"),
    ],
)
def test_content_types_do_not_depend_on_the_machine(
    assets: Assets, name: str, content_type: str
) -> None:
    asset = assets.find(name)
    assert asset is not None
    assert asset.content_type == content_type


@pytest.mark.parametrize(
    "path", ["", "/", "index.html", "tf-imports/", "../assets.py", "page/board.js", "data/runs"]
)
def test_nothing_else_is_found(assets: Assets, path: str) -> None:
    assert assets.find(path) is None


def test_our_script_is_served(assets: Assets) -> None:
    script = assets.find("board.js")
    assert script is not None
    assert script.gzip is not None
    assert gzip.decompress(script.gzip) == script.raw()
    assert b"EventSource" in script.raw()


def test_a_page_is_the_same_compressed(assets: Assets) -> None:
    page = assets.index(board="abc", static_root="../../static", data_version=7)
    assert page.gzip is not None
    assert gzip.decompress(page.gzip) == page.raw()
    assert len(page.gzip) < len(page.raw()) / 4
    assert page.content_type == "text/html; charset=utf-8"


def test_pages_of_two_boards_differ_and_can_be_told_apart(assets: Assets) -> None:
    one = assets.index(board="one", static_root="s", data_version=1)
    two = assets.index(board="two", static_root="s", data_version=1)
    assert one.raw() != two.raw()
    assert one.etag != two.etag


def test_our_script_comes_first_and_knows_its_board(assets: Assets) -> None:
    page = Page(index(assets, title="my board"))
    ours, theirs = page.all("script")
    static = f"../../static/{assets.version}"
    assert ours == {"src": f"{static}/board.js", "data-board": "abc", "data-version": "7"}
    assert theirs == {"src": f"{static}/index.js"}
    assert page.title == "my board"
    assert [tag for tag, _ in page.tags].count("title") == 1
    assert {"name": "tb-relative-root", "content": "./"} in page.all("meta")
    assert ("tb-webapp", {}) in page.tags


def test_tensorboards_policy_allows_the_page(assets: Assets) -> None:
    """No script may stand in the page itself."""
    assert Page(index(assets)).inline_scripts == ""


@pytest.mark.parametrize("static_root", ["static", "../../static/", "/x/y/static", "https://h/s"])
def test_a_page_refers_to_shared_files_by_the_given_address(
    assets: Assets, static_root: str
) -> None:
    text = index(assets, static_root=static_root).decode()
    where = f"{static_root.rstrip('/')}/{assets.version}/"
    linked = re.findall(re.escape(where) + r'([^")]+)', text)
    assert {"board.js", "index.js"} < set(linked)
    assert sum(name.startswith("font-roboto/") for name in linked) > 20
    assert [name for name in linked if assets.find(name) is None] == []
    assert re.findall(r"""(?:url\(|src="|href=")/(?!x/y/static)[^)"]*""", text) == []


@pytest.mark.parametrize("relative_root", [".", "./", "../../"])
def test_the_root_of_the_board_is_given_as_tensorboard_wants_it(
    assets: Assets, relative_root: str
) -> None:
    metas = Page(index(assets, relative_root=relative_root)).all("meta")
    assert {"name": "tb-relative-root", "content": relative_root.rstrip("/") + "/"} in metas


def test_names_are_never_read_as_html(assets: Assets) -> None:
    plain, hostile = (
        Page(index(assets)),
        Page(index(assets, board=HOSTILE, title=HOSTILE, static_root=f"s{HOSTILE}")),
    )
    assert hostile.all("script")[0]["data-board"] == HOSTILE
    assert hostile.title == HOSTILE
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert hostile.inline_scripts == ""


def test_the_projectors_page_gets_its_fonts_from_the_shared_address(assets: Assets) -> None:
    directory = Path(tensorboard.__file__).parent / "plugins/projector/tf_projector_plugin"
    page = (directory / "projector_binary.html").read_bytes()
    assert b"url(/font-roboto/" in page
    mended = assets.with_fonts(page, "../../../../static").decode()
    fonts = re.findall(rf"url\(../../../../static/{assets.version}/([^)]+)\)", mended)
    assert fonts
    assert [name for name in fonts if assets.find(name) is None] == []
    assert "url(/" not in mended


def other_webfiles(path: Path, script: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("index.html", "<html><head></head><body></body></html>")
        archive.writestr("index.js", script, zipfile.ZIP_DEFLATED)
    return path


def test_other_files_are_another_version(tmp_path: Path) -> None:
    one = Assets(other_webfiles(tmp_path / "one.zip", "1"))
    again = Assets(other_webfiles(tmp_path / "again.zip", "1"))
    two = Assets(other_webfiles(tmp_path / "two.zip", "2"))
    assert one.version == again.version
    assert one.version != two.version
    assert re.fullmatch("[0-9a-f]{16}", one.version)


def test_an_upgrade_under_a_running_server_changes_nothing(tmp_path: Path) -> None:
    path = other_webfiles(tmp_path / "webfiles.zip", "var a = 1;")
    assets = Assets(path)
    other_webfiles(tmp_path / "new.zip", "var b = 2; // longer").replace(path)
    script = assets.find("index.js")
    assert script is not None
    assert script.raw() == b"var a = 1;"


def test_a_page_that_is_no_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "webfiles.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("index.html", "nothing")
    with pytest.raises(TbhubError, match="no <head>"):
        index(Assets(path))


def test_a_tensorboard_that_cannot_be_imported_is_an_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorboard").mkdir()
    text = 'raise ImportError("libfoo.so.7 is missing")'
    (tmp_path / "tensorboard" / "__init__.py").write_text(text)
    monkeypatch.delitem(sys.modules, "tensorboard")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TbhubError, match=r"ImportError: libfoo\.so\.7 is missing"):
        Assets()
