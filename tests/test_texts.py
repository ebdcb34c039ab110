"""The texts that the hub shows: complete in every language, used, and found again in logs."""

from __future__ import annotations

import ast
import errno
import os
import re
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tbhub import texts
from tbhub.api.models import (
    NewBoard,
    NewShare,
    NewWorkspace,
    Reason,
    Role,
    State,
    UserChange,
)
from tbhub.api.problems import Problem
from tbhub.boards.control import SourceError
from tbhub.boards.life import Cause, HostDied, Life, Start, handle
from tbhub.catalog.selectors import SelectorError, parse
from tbhub.catalog.templates import TemplateError, parse_template
from tbhub.hub.files import as_problem
from tbhub.hub.language import (
    COOKIE,
    language,
    language_of,
    problem_text,
    refused_fields,
    translate_finding,
)
from tbhub.hub.troubles import NOTHING_LEFT, unreadable, waits_for
from tbhub.storage import errors
from tbhub.storage.classify import classify
from tbhub.storage.errors import StoreError
from tbhub.storage.probe import CHECKS_FOR, probe
from tbhub.storage.roles import permission
from tbhub.storage.uri import parse as parse_uri
from tbhub.texts import (
    TEXTS,
    Message,
    recognize,
    recognize_finding,
    recognize_problem,
    text,
)

SOURCE = Path(texts.__file__).parent
SAYING = {"text", "say", "_say", "_label", "_submit", "_with_code"}


def names(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize("code", TEXTS)
def test_every_text_has_the_same_values_in_both_languages(code: str) -> None:
    found = TEXTS[code]
    assert found.en
    assert found.zh
    assert names(found.en) == names(found.zh)
    assert "您" not in found.zh
    assert "访客" not in found.zh


def said() -> set[str]:
    """Return the codes that the hub's source says as they are."""
    found = set()
    for path in (SOURCE / "hub").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if is_call and node.func.id in SAYING:
                constants = [each for each in node.args[:2] if isinstance(each, ast.Constant)]
                found.update(each.value for each in constants if "." in str(each.value))
    return found


def test_every_code_that_is_said_has_a_text() -> None:
    assert said()
    assert said() <= TEXTS.keys()


def all_problems(kind: type[Problem]) -> set[str]:
    return {kind.code}.union(*(all_problems(each) for each in kind.__subclasses__()))


def test_all_codes_of_the_api_have_a_text() -> None:
    """Problems, states, reasons, roles and checks are said by codes that are put together."""
    wanted = {f"problem.{code}" for code in all_problems(Problem)}
    wanted |= {f"state.{state.value.lower()}" for state in State}
    wanted |= {f"reason.{reason.value}" for reason in Reason}
    wanted |= {f"role.{role}" for role in Role.__args__}  # type: ignore[attr-defined]
    wanted |= {f"check.{check}" for checks in CHECKS_FOR.values() for check in checks}
    assert wanted <= TEXTS.keys()


def test_a_message_is_english_and_known_in_chinese() -> None:
    made = text("access.role", role=text("role.admin"), name="ada", own=text("role.viewer"))
    assert made == "Requires role admin; ada has role viewer."
    assert made.in_language("zh") == "需要管理员角色；ada 的角色是查看者。"


def test_values_are_never_templates() -> None:
    assert text("user.exists", name="{0.__class__}{name}") == (
        "There is a user {0.__class__}{name} already."
    )


@pytest.mark.parametrize(
    ("written", "chinese"),
    [
        ("is running", "正在运行"),
        ("was placed on host local-1", "已分配到主机 local-1"),
        ("12 runs and 1 place; waiting for a host", "12 个运行和 1 个位置；等待主机"),
        ("stopped: It was stopped; it can be started again.", "已停止：看板已停止；可以重新启动。"),
        (
            "stopped: It was stopped by ada; it can be started again.",
            "已停止：看板已被 ada 停止；可以重新启动。",
        ),
        ("terminated: It was killed by ada.", "已结束：被 ada 终止。"),
        ("failed: Host local-1 ended with exit code 3.", "失败：主机 local-1 已结束（退出码 3）。"),
        ("now shows 3 runs, before 1 run", "现显示 3 个运行，此前 1 个运行"),
        ("run exp/a (#3) was deleted by ada", "运行 exp/a (#3) 已被 ada 删除"),
        (
            "4 runs were deleted by ada: a (#1), b (#2), c (#3) and 1 more",
            "4 个运行已被 ada 删除：a (#1), b (#2), c (#3) and 1 more",
        ),
        (
            f"is up without data. {NOTHING_LEFT}",
            "已启动，但没有数据。它显示的所有运行都已被删除或移除。"
            "提示：`tbhub add BOARD RUNS` 可添加其他运行",
        ),
        (
            "Host local-1 crashed: it ended by signal SIGKILL (exit code 137)."
            " The board restarts by itself.",
            "主机 local-1 崩溃：信号 SIGKILL，退出码 137。看板将自动重启。",
        ),
        (
            "Host local-1 hung: it was ended after it had not answered for 30 s."
            " The board restarts by itself.",
            "主机 local-1 无响应：30 秒没有响应，已被终止。看板将自动重启。",
        ),
        ("Host local-1 has not answered for 12 s.", "主机 local-1 已有 12 秒没有响应。"),
        (
            "Host local-1 crashed: it ended with exit code 3."
            " The board restarts in a process of its own.",
            "主机 local-1 崩溃：退出码 3。看板将在单独的进程中重启。",
        ),
        (
            "failed: Host local-1 crashed: it ended with exit code 3."
            " It was crash 3 of the processes that served this board.",
            "失败：主机 local-1 崩溃：退出码 3。这是为此看板提供服务的进程第 3 次崩溃。",
        ),
        (
            "Host slurm-1 was preempted: it ended by being preempted: a job of higher priority"
            " took its place (job 7, PREEMPTED). The board restarts by itself.",
            "主机 slurm-1 被抢占：被优先级更高的作业抢占（作业 7，PREEMPTED）。看板将自动重启。",
        ),
        ("host k8s-1: its pod waits for a node: 0/3 fit", "主机 k8s-1：Pod 正在等待节点：0/3 fit"),
        (
            "host slurm-1: job 7 waits in Slurm's queue until nodes are free (Resources)",
            "主机 slurm-1：作业 7 在 Slurm 队列中等待：暂无空闲节点（Resources）",
        ),
        (
            "host ray-1 is drained; another host will be chosen",
            "主机 ray-1 正在排空；将选择另一台主机",
        ),
        (
            waits_for([{"path": "/a", "problem": ""}, {"path": "/b", "problem": ""}]),
            "等待 /a 及另外 1 处：它们在提供看板服务的机器上不存在。",
        ),
        ("Waiting for the first answer of s3://b/x.", "等待 s3://b/x 的首次应答。"),
        (
            "/a cannot be read: Permission denied; what was read before stays shown. hint: the user"
            " that the board is served as needs the right to read it",
            "无法读取 /a：权限不足；此前读取的内容仍会显示。提示：提供看板服务的用户需要读取权限",
        ),
        ("may list", "可以列举"),
        ("may write in parts", "可以分段写入"),
        (
            "no permission to write there (403 AccessDenied); needs oss:PutObject;"
            " runs need this, boards do not",
            "没有写入权限（403 AccessDenied）；需要 oss:PutObject；运行需要此权限，看板不需要",
        ),
        (
            "the credentials are not accepted; check key and secret (403 SignatureDoesNotMatch)",
            "凭据未被接受；请检查密钥 ID 和密钥（403 SignatureDoesNotMatch）",
        ),
    ],
)
def test_a_line_of_a_log_is_recognized(written: str, chinese: str) -> None:
    found = recognize(written)
    assert found == written
    assert isinstance(found, Message)
    assert found.in_language("zh") == chinese


@pytest.mark.parametrize(
    ("written", "chinese"),
    [
        ("There is no board 'deadbeef'.", "没有看板 'deadbeef'。"),
        ("There is no experiment a, no run b, no job c.", "没有实验 a、运行 b、作业 c。"),
        ('There is no run "a. b".', '没有运行 "a. b"。'),
        (
            "There is no run mnist. An experiment is called so: exp:mnist.",
            "没有运行 mnist。有同名的实验：exp:mnist。",
        ),
        ("There is no workspace vision.", "没有工作区 vision。"),
        (
            "selector 'where status = runing', column 16: no run has the status 'runing';"
            " did you mean running?",
            "选择器 'where status = runing'，第 16 列：没有状态 'runing'；是否指 running？",
        ),
        (
            "selector 'a, no b; x=', column 10: 'x=' is no name; something new",
            "选择器 'a, no b; x='，第 10 列：'x=' 不是名称；something new",
        ),
        (
            "a names 12 runs: x/a (#1), y/a (#2) and 10 more."
            " hint: write more of the path, or a number: trial:1 or trial:2.",
            "a 对应 12 个运行：x/a (#1), y/a (#2) 等（另有 10 个）。"
            "请写出更多路径，或使用编号：trial:1 or trial:2。",
        ),
        (
            "a b is the name of 2 runs, 'a b' (#1), 'a b' (#2), and also a list of 2 terms."
            " hint: write trial:1 or trial:2, or a, b.",
            "a b 是 2 个运行的名称（'a b' (#1), 'a b' (#2)），也是 2 项的列表。"
            "请写 trial:1 or trial:2，或 a, b。",
        ),
        (
            "'ab' can mean 2 boards: abc… (x), abd… (y).",
            "'ab' 可能指 2 个看板：abc… (x), abd… (y)。",
        ),
    ],
)
def test_a_problem_of_the_catalog_is_recognized(written: str, chinese: str) -> None:
    found = recognize_problem(written)
    assert found == written
    assert isinstance(found, Message)
    assert found.in_language("zh") == chinese


@pytest.mark.parametrize("typed", ["where status = runing", "where lr", "lr <", "foo:1", '"a'])
def test_a_problem_of_a_selector_is_chinese_but_for_what_was_typed(typed: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(typed)
    found = recognize_problem(str(caught.value))
    assert isinstance(found, Message)
    what = str(found.values["what"].in_language("zh") + found.values["advice"].in_language("zh"))
    assert not re.search("missing|write|called|quote|did", what), what


@pytest.mark.parametrize("typed", ["{x", "{x{", "x}", "{}", "{hparams.}", " "])
def test_a_problem_of_a_name_template_is_chinese(typed: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse_template(typed)
    found = recognize_problem(str(caught.value))
    assert isinstance(found, Message)
    assert found == str(caught.value)
    assert not english(found.in_language("zh")), found.in_language("zh")


@pytest.mark.parametrize(
    ("model", "given", "chinese"),
    [
        (NewWorkspace, {"name": "a/b"}, "name：只能含字母、数字和 _ . -，且以字母、数字或 _ 开头"),
        (NewBoard, {"name": ""}, "name：不能为空"),
        (NewBoard, {"idle_timeout": -1}, "idle_timeout：应大于或等于 0"),
        (NewBoard, {"idle_timeout": "x"}, "idle_timeout：应为数"),
        (UserChange, {"password": "short"}, "password：至少 8 个字符"),
        (UserChange, {"max_boards": 1.5}, "max_boards：应为整数"),
        (UserChange, {"role": "king"}, "role：应为 'admin', 'member' or 'viewer'"),
        (NewShare, {"expires_in": 0}, "expires_in：应大于 0"),
        (
            NewWorkspace,
            {"name": "a\nb", "max_boards": -1},
            "name：只能含字母、数字和 _ . -，且以字母、数字或 _ 开头；max_boards：应大于或等于 0",
        ),
    ],
)
def test_a_field_that_is_refused_is_chinese(
    model: type[BaseModel], given: dict[str, object], chinese: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model(**given)
    found = refused_fields(caught.value.errors())
    assert isinstance(found, Message)
    assert found.in_language("zh") == chinese
    assert found == "; ".join(english_of(each) for each in caught.value.errors())


def test_many_fields_that_are_refused_are_listed_in_english() -> None:
    with pytest.raises(ValidationError) as caught:
        NewBoard(trials=["x"] * 5000)  # type: ignore[list-item]
    found = refused_fields(caught.value.errors())
    assert not isinstance(found, Message)
    assert found.count("; ") == 4999


def english_of(error: Mapping[str, Any]) -> str:
    said = str(error["msg"])
    if "match pattern" in said:
        said = "letters, digits and _ . - alone, the first a letter, a digit or _"
    return f"{error['loc'][0]}: {said[:1].lower()}{said[1:]}"


@pytest.mark.parametrize(
    ("raised", "chinese"),
    [
        (errors.NotFound("read", "x", "gone"), "没有文件 a/b"),
        (OSError(errno.ENOTDIR, "Not a directory"), "a/b：路径上的文件应为目录，或目录应为文件"),
        (OSError(errno.ENOSPC, "full"), "hub 存放文件的磁盘已满；请清理空间"),
    ],
)
def test_a_problem_with_a_file_is_chinese(raised: Exception, chinese: str) -> None:
    token = language.set("zh")
    try:
        assert problem_text(as_problem(raised, "a/b")) == chinese
    finally:
        language.reset(token)


@pytest.mark.parametrize(
    ("written", "chinese"),
    [
        (
            "Host local-1 cannot read gs://b/x, credentials: none: the identity of the backend's"
            " machine, if it has one.",
            "主机 local-1 无法读取 gs://b/x，凭据：无；使用后端所在机器的身份（如果有）。",
        ),
        (
            "gs://b/x cannot be read: no permission to list there (403). Credentials: the login in"
            " /etc/adc.json.",
            "gs://b/x 无法读取：没有列举权限（403）。凭据：/etc/adc.json 中的登录凭据。",
        ),
        (
            "gs://b/x cannot be read: no permission to list there (403)",
            "gs://b/x 无法读取：没有列举权限（403）",
        ),
        (
            "gs://b/x cannot be read: the Google login could not be used: Google's token server"
            " cannot be reached. hint: check the network of the machine that reads the bucket, and"
            " HTTPS_PROXY if it needs a proxy",
            "gs://b/x 无法读取：无法使用 Google 登录凭据：无法连接 Google 令牌服务器。"
            "提示：请检查读取存储桶的机器的网络；若需要代理，请检查 HTTPS_PROXY",
        ),
    ],
)
def test_a_finding_of_a_store_is_chinese(written: str, chinese: str) -> None:
    found = recognize_finding(written)
    assert found == written
    assert isinstance(found, Message)
    assert found.in_language("zh") == chinese


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_of_a_restart_is_recognized(cause: Cause) -> None:
    life = Life(state=State.RUNNING, host="local-1")
    after, _ = handle(life, HostDied(None, cause=cause), 0.0)
    found = recognize(after.message)
    assert isinstance(found, Message)
    assert cause.value not in found.in_language("zh")


def all_names(kind: type[Exception]) -> set[str]:
    return {kind.__name__}.union(*(all_names(each) for each in kind.__subclasses__()))


PROBLEMS, STORE_ERRORS = all_names(Problem), all_names(StoreError)
# The modules whose sentences users of the page meet most.
MODULES = (
    "boards.control",
    "boards.life",
    "catalog.clauses",
    "catalog.groups",
    "catalog.resolve",
    "catalog.runs",
    "catalog.selectors",
    "catalog.workspaces",
    "hub.conductor",
    "hub.connections",
    "hub.identity",
    "hub.lease",
    "hub.places",
    "hub.series",
    "hub.shares",
    "hub.sources",
    "hub.standby",
    "hub.routes.pages",
    "hub.routes.storage",
    "hub.routes.table",
    "storage.classify",
    "storage.open",
    "storage.probe",
    "storage.uri",
)
VALUES = {
    "verb": "read",
    "right": "",
    "noun": "a run",
    "_panic_text(str(error))": "7. hint: check the endpoint, the region and the keys",
}


def written_in(module: str) -> Iterator[tuple[bool, str]]:
    """Yield the sentences of errors in a module, with 7 for values, and whether of a store."""
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    constants = dict(VALUES)
    for top in tree.body:
        if isinstance(top, ast.Assign) and isinstance(top.value, ast.Constant):
            constants |= {ast.unparse(each): str(top.value.value) for each in top.targets}
    for node in ast.walk(tree):
        of_store, given = sentences_of(node, in_storage=module.startswith("storage."))
        for each in given:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield of_store, each.value
            elif isinstance(each, ast.JoinedStr):
                yield of_store, "".join(filled(part, constants) for part in each.values)


def sentences_of(node: ast.AST, *, in_storage: bool) -> tuple[bool, list[ast.expr]]:
    """Return the arguments of a call that are sentences, and whether a store says them."""
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        is_error = isinstance(node.elts[0], ast.Name) and node.elts[0].id in STORE_ERRORS
        return True, node.elts[1:] if in_storage and is_error else []
    if not isinstance(node, ast.Call):
        return False, []
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if in_storage:
        if name == "made":
            return True, node.args[1:2]
        return True, node.args[2:3] if name in STORE_ERRORS else []
    if name == SourceError.__name__:
        return True, node.args[:1]
    if name in {"_fail", SelectorError.__name__}:
        return False, node.args[-2:]
    return False, node.args[:1] if name in PROBLEMS else []


def filled(part: ast.expr, constants: Mapping[str, str]) -> str:
    if isinstance(part, ast.FormattedValue):
        return constants.get(ast.unparse(part.value), "7")
    assert isinstance(part, ast.Constant)
    return str(part.value)


def english(chinese: str) -> list[str]:
    """Return what is English in a text: two words in a row, except in commands and selectors."""
    words = r"`[^`]+`|order by(?: created desc)?|\b(?:in|is|not|null|where|limit)\b"
    return re.findall(r"[A-Za-z]{2,} [a-z]{2,}", re.sub(words, "", chinese))


@pytest.mark.parametrize("module", MODULES)
def test_every_sentence_of_a_module_is_chinese(module: str) -> None:
    found = list(written_in(module))
    assert found
    for of_store, sentence in found:
        message = recognize(sentence) if of_store else recognize_problem(sentence)
        assert isinstance(message, Message), sentence
        assert message == sentence
        assert not english(message.in_language("zh")), message.in_language("zh")


def reason(problem: str, path: str = "s3://b/x", connection: str = "") -> str:
    """Return in Chinese why a board is empty."""
    trouble = {"path": path, "problem": problem, "place": True}
    known = {path: connection} if connection else {}
    found = recognize(
        unreadable(
            [trouble], has_data=False, on_hub=lambda _: True, launcher="k8s", connections=known
        )
    )
    assert isinstance(found, Message)
    return found.in_language("zh")


@pytest.mark.parametrize(
    "raised",
    [
        "Error performing PUT http://169.254.169.254/latest/api/token",
        "no credential",
        "No CA certificates were loaded",
        "InvalidCertificate(UnknownIssuer)",
        "InvalidCertificate(Expired)",
        "status code: 404 <Code>NoSuchBucket</Code>",
        "status code: 301 <Code>PermanentRedirect</Code><Endpoint>eu.example.com</Endpoint>",
        "status code: 301",
        "status code: 403",
        "kind: Connect",
    ],
)
def test_why_a_board_cannot_be_read_is_chinese(raised: str) -> None:
    error = classify(OSError(raised), "list", "s3://b/x", "x")
    assert isinstance(error, StoreError)
    for connection in ("", "team"):
        chinese = reason(error.what, connection=connection)
        assert chinese.startswith("无法读取 s3://b/x：")
        assert chinese.count("提示：") == 1
        assert "hint" not in chinese
        assert not english(chinese), chinese


def test_commands_of_a_hint_are_the_same_in_chinese() -> None:
    chinese = reason("the store failed")
    assert re.findall("`([^`]+)`", chinese) == [
        "tbhub storage test s3://b/x",
        "tbhub storage add NAME s3://b/x",
    ]


@pytest.mark.parametrize(
    "code", [each for each in TEXTS if each.startswith("system.")], ids=lambda code: code
)
def test_errors_of_the_system_are_chinese(code: str) -> None:
    written = os.strerror(getattr(errno, code.partition(".")[2]))
    assert reason(written, "/data/x").startswith(f"无法读取 /data/x：{TEXTS[code].zh}。")


def test_an_address_of_an_unknown_kind_is_said_in_chinese() -> None:
    with pytest.raises(StoreError) as caught:
        parse_uri("http://example.com/x")
    for written in (str(caught.value), f"failed to start: {caught.value}"):
        found = recognize(written)
        assert isinstance(found, Message)
        assert "无法打开 http://…：未知的协议；可用 " in found.in_language("zh")
        assert not english(found.in_language("zh"))
    assert isinstance(recognize_problem(str(caught.value)), Message)


def test_the_start_of_a_killed_board_is_refused_in_chinese() -> None:
    life = Life(state=State.TERMINATED, reason=Reason.USER_KILLED, message="It was killed by ada.")
    with pytest.raises(Problem) as caught:
        handle(life, Start(), 0.0)
    token = language.set("zh")
    try:
        assert problem_text(caught.value) == (
            "看板已永久结束（USER_KILLED）：被 ada 终止。请用相同的运行新建一个看板。"
        )
    finally:
        language.reset(token)


def test_a_storage_test_without_a_region_does_not_blame_the_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in os.environ if each.startswith(("OSS_", "ALIBABA"))]:
        monkeypatch.delenv(name)
    keys = {"access_key_id": "x", "secret_access_key": "y"}
    (bad,) = [each for each in probe("oss://bucket/x", keys) if each.good is False]
    token = language.set("zh")
    try:
        assert translate_finding(bad.check, bad.good, bad.text) == (
            "请提供 region 或 endpoint，或设置 OSS_REGION，"
            "或写作 oss://bucket.oss-REGION.aliyuncs.com/…"
        )
        assert translate_finding(bad.check, False, "something new") == ("区域不正确：something new")
    finally:
        language.reset(token)


def test_permissions_are_joined_in_chinese() -> None:
    needed = permission("s3", "write")
    found = recognize(
        f"no permission to write there (403); needs {needed}; runs need this, boards do not"
    )
    assert isinstance(found, Message)
    assert found.in_language("zh") == (
        "没有写入权限（403）；需要 s3:PutObject 和 s3:AbortMultipartUpload；"
        "运行需要此权限，看板不需要"
    )


def test_other_text_stays_as_it_is() -> None:
    assert not isinstance(recognize("ModuleNotFoundError: No module named 'x'"), Message)


@pytest.mark.parametrize(
    ("cookie", "accepted", "expected"),
    [
        ("", "", "en"),
        ("", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("", "en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("", "fr,zh;q=0.3,en;q=0.7", "en"),
        ("", "de", "en"),
        ("", "zh;q=nonsense", "en"),
        ("zh", "en", "zh"),
        ("en", "zh", "en"),
        ("xx", "zh", "zh"),
    ],
)
def test_the_chosen_language_counts_more_than_the_browsers(
    cookie: str, accepted: str, expected: str
) -> None:
    headers = [(b"accept-language", accepted.encode())]
    if cookie:
        headers.append((b"cookie", f"a=b; {COOKIE}={cookie}".encode()))
    assert language_of({"type": "http", "headers": headers}) == expected
