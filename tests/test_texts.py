"""The texts that the hub shows: complete in every language, used, and found again in logs."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

from tbhub import texts
from tbhub.api.models import Reason, Role, State
from tbhub.api.problems import Problem
from tbhub.boards.life import Cause, HostDied, Life, handle
from tbhub.catalog.selectors import SelectorError, parse
from tbhub.hub.language import COOKIE, language_of
from tbhub.hub.troubles import waits_for
from tbhub.storage.probe import CHECKS_FOR
from tbhub.texts import TEXTS, Message, recognize, recognize_problem, text

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
        ("terminated: It was killed by ada.", "已结束：被 ada 终止。"),
        ("failed: Host local-1 ended with exit code 3.", "失败：主机 local-1 已结束（退出码 3）。"),
        ("now shows 3 runs, before 1 run", "现显示 3 个运行，此前 1 个运行"),
        (
            "Host local-1 crashed: it ended by signal SIGKILL (exit code 137)."
            " The board restarts by itself.",
            "主机 local-1 崩溃：信号 SIGKILL，退出码 137。看板将自动重启。",
        ),
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


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_of_a_restart_is_recognized(cause: Cause) -> None:
    life = Life(state=State.RUNNING, host="local-1")
    after, _ = handle(life, HostDied(None, cause=cause), 0.0)
    found = recognize(after.message)
    assert isinstance(found, Message)
    assert cause.value not in found.in_language("zh")


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
