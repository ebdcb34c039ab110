"""Texts that the hub shows to users, in all languages, by code.

A `Message` is the English text, for logs, programs and the command line, and knows its code and its
values: the hub shows it in the language of the browser that asks. Values that are messages
themselves are shown in that language, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any, Literal, Self, get_args

_Kind = Literal["log", "problem", "finding"]
Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True)
class Text:
    """A text with the same {values} in each language."""

    en: str
    zh: str


class Message(str):
    """A text with its values, in English; `in_language` gives it in another."""

    __slots__ = ("code", "values")
    code: str
    values: Mapping[str, Any]

    def __new__(cls, code: str, values: Mapping[str, Any]) -> Self:
        """Fill the values into the English text of a code."""
        made = super().__new__(cls, TEXTS[code].en.format_map(values))
        made.code = code
        made.values = dict(values)
        return made

    def in_language(self, language: Language) -> str:
        """Return the text in a language."""
        values = {
            name: value.in_language(language) if isinstance(value, Message) else value
            for name, value in self.values.items()
        }
        text: str = getattr(TEXTS[self.code], language)
        return text.format_map(values)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.values)


def text(code: str, /, **values: Any) -> Message:
    """Return the text of a code with its values filled in."""
    return Message(code, values)


def recognize(written: str) -> str:
    """Return the message that an English text of a board's log or a storage test was made of.

    Logs are stored as text, and the parts that write them know no codes. Text that fits none of
    `_RECOGNIZED` is returned as it is.
    """
    return _recognize(written, "log")


def recognize_problem(written: str) -> str:
    """Return the message that the English text of a problem was made of; other text as it is.

    The catalog and the parts below it know no codes.
    """
    return _recognize(written, "problem")


def recognize_finding(written: str) -> str:
    """Return the message that a finding of the doctor was made of; other text as it is."""
    return _recognize(written, "finding")


def _recognize(written: str, kind: _Kind) -> str:
    for code, pattern in _patterns(kind):
        found = pattern.fullmatch(written)
        if found is not None:
            values = found.groupdict().items()
            return Message(code, {name: _recognize_value(name, v, kind) for name, v in values})
    return written


def _recognize_value(name: str, written: str, kind: _Kind) -> str:
    if name in _VERBATIM:
        return written
    return _recognize(written, "log" if name == "why" else kind)


@cache
def _patterns(kind: _Kind) -> list[tuple[str, re.Pattern[str]]]:
    """Return a pattern for each text that is recognized, those with the most words first."""
    made = []
    known = {"log": _RECOGNIZED, "problem": _RECOGNIZED_PROBLEMS, "finding": _FINDINGS}
    for code, each in known[kind].items():
        parts = [(literal, name) for literal, name, _, _ in Formatter().parse(each.en)]
        pattern = "".join(
            re.escape(literal) + (f"(?P<{name}>{_VALUES.get(name, '.+?')})" if name else "")
            for literal, name in parts
        )
        words = sum(len(literal) for literal, _ in parts)
        made.append((words, code, re.compile(pattern, re.DOTALL)))
    return [(code, pattern) for _, code, pattern in sorted(made, key=lambda each: -each[0])]


# What values look like; others are any text.
_VALUES = {
    **dict.fromkeys(("n", "runs", "places", "column"), r"[\d,]+"),
    "name": "(?:(?!, no ).)+?",
    "hint": "(?:hint: |An experiment |A run ).+",
    "answer": r"\d{3}(?: \w+)?",
}
# Never translated.
_VERBATIM = frozenset({"name", "selector", "value", "second", "where", "answer"})

_PROBLEMS = {
    # --- by the code of a problem, where it has no text of its own
    "problem.internal": Text("{message}", "hub 内部出错：{message}"),
    "problem.bad_request": Text("{message}", "请求有误：{message}"),
    "problem.not_authenticated": Text("{message}", "未登录：{message}"),
    "problem.forbidden": Text("{message}", "没有权限：{message}"),
    "problem.not_found": Text("{message}", "未找到：{message}"),
    "problem.wrong_method": Text("{message}", "不支持此请求方法：{message}"),
    "problem.ambiguous": Text("{message}", "不唯一：{message}"),
    "problem.conflict": Text("{message}", "无法执行：{message}"),
    "problem.fenced": Text("{message}", "已有更新的尝试：{message}"),
    "problem.wrong_offset": Text("{message}", "写入位置不符：{message}"),
    "problem.gone": Text("{message}", "已结束：{message}"),
    "problem.changed": Text("{message}", "文件已更改：{message}"),
    "problem.limit_exceeded": Text("{message}", "超出配额：{message}"),
    "problem.too_many_requests": Text("{message}", "请求过多：{message}"),
    "problem.too_large": Text("{message}", "请求过大：{message}"),
    "problem.past_end": Text("{message}", "超出文件末尾：{message}"),
    "problem.no_room": Text("{message}", "磁盘空间不足：{message}"),
    "problem.unreadable": Text("{message}", "无法读取：{message}"),
    "problem.unavailable": Text("{message}", "暂时不可用：{message}"),
    # --- logging in
    "login.first": Text(
        "Log in first, with `tbhub login` or at the hub's page.",
        "请先登录：使用 `tbhub login` 或打开 hub 的页面。",
    ),
    "login.first_or_link": Text(
        "Log in first, or request a new link.", "请先登录，或索取新的链接。"
    ),
    "login.wrong": Text("The name or the password is wrong.", "用户名或密码错误。"),
    "login.token_invalid": Text(
        "The token is unknown, expired or revoked; log in again.",
        "令牌不存在、已过期或已撤销；请重新登录。",
    ),
    "login.too_many": Text(
        "Too many login attempts; try again in {seconds} s.",
        "登录尝试过多；请在 {seconds} 秒后重试。",
    ),
    "login.disabled": Text(
        "{name} is disabled. hint: ask an admin.", "{name} 已停用。请联系管理员。"
    ),
    "login.foreign_page": Text(
        "The request was made by a page of another site ({origin}).",
        "该请求来自其他网站的页面（{origin}）。",
    ),
    "login.foreign_proxy": Text(
        "The request was made by a page of another site ({origin}). hint: the hub was reached as"
        " {own}; behind a proxy set TBHUB_TRUSTED_PROXIES or --public-url.",
        "该请求来自其他网站的页面（{origin}）。hub 被访问的地址是 {own}；"
        "若在代理之后，请设置 TBHUB_TRUSTED_PROXIES 或 --public-url。",
    ),
    "oidc.expired": Text(
        "The sign-in was not started in this browser, or more than 10 minutes ago; try again.",
        "此登录不是在本浏览器中开始的，或已超过 10 分钟；请重试。",
    ),
    "oidc.refused": Text(
        "The provider refused the sign-in: {reason}", "身份提供方拒绝登录：{reason}"
    ),
    "oidc.invalid": Text(
        "The provider's answer is not valid: {reason}", "身份提供方的应答无效：{reason}"
    ),
    "oidc.silent": Text(
        "The provider at {url} does not answer: {reason}", "身份提供方 {url} 没有响应：{reason}"
    ),
    "oidc.absent": Text("Single sign-on is not set up here.", "此 hub 未配置单点登录。"),
    "invitation.used": Text(
        "The link was used already, has expired or was revoked. hint: ask an admin for a new one.",
        "该链接已使用、已过期或已撤销。请向管理员索取新的链接。",
    ),
    "invitation.no_passwords": Text(
        "Users of this hub log in with tokens. hint: start it with --auth users.",
        "此 hub 的用户使用令牌登录。请用 --auth users 启动 hub。",
    ),
    "invitation.disabled": Text(
        "{name} is disabled. hint: enable {name} first.", "{name} 已停用。请先启用 {name}。"
    ),
    "password.length": Text(
        "A password has 8 to 1024 characters.", "密码长度为 8 至 1024 个字符。"
    ),
    "password.differ": Text("The two passwords are not the same.", "两次输入的密码不一致。"),
    # --- permissions
    "access.role": Text(
        "Requires role {role}; {name} has role {own}.", "需要{role}角色；{name} 的角色是{own}。"
    ),
    "access.workspace_role": Text(
        "Requires role {role} in this workspace; {name} has role {own}.",
        "需要此工作区的{role}角色；{name} 的角色是{own}。",
    ),
    "access.scope": Text(
        "Requires a token with scope {scope}; this one has scope {own}. hint: `tbhub tokens create"
        " --scope {scope}`.",
        "需要权限为 {scope} 的令牌；此令牌的权限是 {own}。"
        "请用 `tbhub tokens create --scope {scope}` 创建。",
    ),
    "access.share": Text(
        "A share link opens one board and nothing else.", "分享链接只能打开一个看板。"
    ),
    "role.admin": Text("admin", "管理员"),
    "role.member": Text("member", "成员"),
    "role.viewer": Text("viewer", "查看者"),
    # --- what is not there, or there already
    "missing.page": Text("There is no page at this address.", "此地址没有页面。"),
    "missing.board": Text(
        "There is no such board, or none that you may see.", "没有这个看板，或你无权查看。"
    ),
    "missing.user": Text("There is no user {name}.", "没有用户 {name}。"),
    "missing.token": Text("There is no token {id}.", "没有令牌 {id}。"),
    "user.exists": Text("There is a user {name} already.", "已有用户 {name}。"),
    "user.only_admin": Text(
        "{name} is the only admin. hint: make another user admin first.",
        "{name} 是唯一的管理员。请先将另一个用户设为管理员。",
    ),
    # --- boards whose owner lost a right to what they show
    "closed.workspace": Text(
        "This board shows runs of the workspace {workspace}, and you are not a member of it. hint:"
        " ask an admin of the workspace, or kill or delete the board.",
        "此看板显示工作区 {workspace} 的运行，而你不是该工作区的成员。"
        "请联系工作区管理员，或终止、删除此看板。",
    ),
    "closed.place": Text(
        "This board shows {place}, which is not below a log directory or a storage connection of"
        " your workspaces. hint: ask an admin for it, or kill or delete the board.",
        "此看板显示 {place}，而它不在你的工作区的任何日志目录或存储连接下。"
        "请联系管理员，或终止、删除此看板。",
    ),
    # --- log directories
    "logdir.awaited": Text(
        "There is no directory {path} on the hub's machine as yet; it is waited for.",
        "hub 的机器上还没有目录 {path}；hub 会等待它出现。",
    ),
    "logdir.no_access": Text(
        "The hub may not read {path}; its user needs to be let in.",
        "hub 无权读取 {path}；运行 hub 的用户需要读取权限。",
    ),
    # --- fields of a request
    "field.wrong": Text("{field}: {why}", "{field}：{why}"),
    "field.and": Text("{first}; {more}", "{first}；{more}"),
    # --- quotas
    "quota.yours": Text(
        "You have {used} boards running, and {allowed} are allowed at once. Stop one first:"
        " {names}.",
        "你有 {used} 个看板正在运行，同时最多允许 {allowed} 个。请先停止一个：{names}。",
    ),
    "quota.workspace": Text(
        "The workspace has {used} boards running, and {allowed} are allowed at once. Stop one"
        " first: {names}.",
        "该工作区有 {used} 个看板正在运行，同时最多允许 {allowed} 个。请先停止一个：{names}。",
    ),
    "quota.names_and_more": Text("{names} and {more} more", "{names} 等（另有 {more} 个）"),
}

_PAGES = {
    "page.all_runs": Text("All runs", "所有运行"),
    "page.all_boards": Text("All boards", "所有看板"),
    "page.not_found": Text("Not found", "未找到"),
    "page.failed": Text("This did not work", "操作未成功"),
    "page.not_built": Text("No web page", "没有网页"),
    "page.not_built_text": Text(
        "This installation was made without its web page. The tbhub command and the API work as"
        " ever; `pip install .` with Node.js installed builds the page, or `make web` in a clone.",
        "此安装不含网页。tbhub 命令和 API 照常可用；安装 Node.js 后运行 `pip install .`，"
        "或在源码目录运行 `make web` 可构建网页。",
    ),
    "page.log_in": Text("Log in", "登录"),
    "page.log_in_title": Text("Log in to tbhub", "登录 tbhub"),
    "page.token_hint": Text(
        "Open the address that {command} has printed, or enter the token in it.",
        "请打开 {command} 输出的地址，或输入其中的令牌。",
    ),
    "page.token": Text("Token", "令牌"),
    "page.name": Text("Name", "用户名"),
    "page.password": Text("Password", "密码"),
    "page.sign_in_with": Text("Sign in with {name}", "使用 {name} 登录"),
    "page.logging_in": Text("Logging in", "正在登录"),
    "page.link_incomplete": Text(
        "This address lacks the code of a login link. {command} prints a new link.",
        "此地址缺少登录链接的代码。{command} 会输出新的链接。",
    ),
    "page.link_script": Text("Login links need JavaScript.", "登录链接需要 JavaScript。"),
    "page.link_over": Text("This link no longer works", "此链接已失效"),
    "page.link_over_text": Text(
        "A login link works once and for ten minutes. `tbhub open BOARD` and `tbhub start` make a"
        " new one.",
        "登录链接只能使用一次，有效期十分钟。`tbhub open 看板` 和 `tbhub start` 会生成新的链接。",
    ),
    "page.switch_title": Text("Log in as {name}?", "以 {name} 的身份登录？"),
    "page.switch_text": Text(
        "You are logged in as {own}. Continue only if you trust the sender of this link.",
        "你已以 {own} 的身份登录。仅当你信任此链接的发送者时才继续。",
    ),
    "page.switch": Text("Log in as {name}", "以 {name} 的身份登录"),
    "page.stay": Text("Stay {own}", "保持 {own}"),
    "page.invitation_title": Text("Welcome to tbhub, {name}", "{name}，欢迎使用 tbhub"),
    "page.invitation_text": Text(
        "Choose a password of at least 8 characters. You log in with it and your name.",
        "请设置至少 8 个字符的密码，之后用用户名和密码登录。",
    ),
    "page.invitation_again": Text("Password again", "再次输入密码"),
    "page.invitation_save": Text("Set password and log in", "设置密码并登录"),
    "page.invitation_incomplete": Text(
        "This address lacks the code of the link. Copy the whole link.",
        "此地址缺少链接的代码。请复制完整的链接。",
    ),
    "page.share_over": Text("This link no longer works", "此链接已失效"),
    "page.share_over_text": Text("Ask its sender for a new one.", "请向发送者索取新的链接。"),
    # --- a board that is not up
    "page.board_not_running": Text("This board is not running. {why}", "此看板未在运行。{why}"),
    "page.board_ended": Text("This board has ended. {why}", "此看板已结束。{why}"),
    "page.board_failed": Text("This board has failed. {why}", "此看板已失败。{why}"),
    "page.board_deleted_by": Text("This board was deleted by {name}.", "此看板已被 {name} 删除。"),
    "page.board_no_access": Text(
        "You no longer have access to this board, or it was deleted.",
        "你已无权查看此看板，或看板已被删除。",
    ),
    "page.details": Text("Details", "详情"),
    "page.board_silent": Text(
        "The process that serves it does not answer; this page tries again.",
        "为其提供服务的进程没有响应；此页面将自动重试。",
    ),
    "page.board_stops": Text("The board is being stopped.", "看板正在停止。"),
    "page.no_start": Text("You cannot start this board. {why}", "你不能启动此看板。{why}"),
    "page.board_restarts": Text(
        "The board is being stopped and will start again.", "看板正在停止，随后会重新启动。"
    ),
    "page.board_starts": Text(
        "The board is being started; this page shows it as soon as it is up.",
        "看板正在启动；就绪后此页面会自动显示。",
    ),
    "page.starting": Text("starting", "正在启动"),
    "page.start_again": Text("Start it again", "重新启动"),
    "page.over_for_good": Text(
        "It does not come back; a new board over the same runs is {command}.",
        "它不会再启动；用 {command} 可对相同的运行新建看板。",
    ),
    "page.exit_code": Text("Exit code {code}.", "退出码 {code}。"),
    "page.just_now": Text("just now", "刚刚"),
    "page.minutes_ago": Text("{n} min ago", "{n} 分钟前"),
    "page.hours_ago": Text("{n} h ago", "{n} 小时前"),
    "page.days_ago": Text("{n} d ago", "{n} 天前"),
    "state.queued": Text("Queued", "排队中"),
    "state.starting": Text("Starting", "启动中"),
    "state.running": Text("Running", "运行中"),
    "state.waiting": Text("Waiting for data", "等待数据"),
    "state.stopping": Text("Stopping", "停止中"),
    "state.stopped": Text("Stopped", "已停止"),
    "state.terminated": Text("Terminated", "已结束"),
    "state.failed": Text("Failed", "失败"),
    "reason.USER_KILLED": Text("It was killed.", "已被终止。"),
    "reason.USER_STOPPED": Text("It was stopped.", "已被停止。"),
    "reason.IDLE": Text("It was stopped because it was idle.", "因空闲而停止。"),
    "reason.MAX_RUNTIME": Text("Its time limit is over.", "已到运行时限。"),
    "reason.NO_DATA": Text("It waited for data, and none came.", "等待数据超时，没有数据。"),
    "reason.CRASHED": Text(
        "The process that served it ended unexpectedly.", "为其提供服务的进程意外结束。"
    ),
    "reason.CANCELLED": Text(
        "The job that served it was cancelled.", "为其提供服务的作业已被取消。"
    ),
    "reason.START_FAILED": Text("It could not be started.", "无法启动。"),
}

# What a store failed to do: in logs, as the reason why a board failed, and as a problem.
_STORE_ERRORS = {
    "store.open": Text("cannot open {where}: {why}", "无法打开 {where}：{why}"),
    "store.list": Text("cannot list {where}: {why}", "无法列举 {where}：{why}"),
    "store.read": Text("cannot read {where}: {why}", "无法读取 {where}：{why}"),
    "store.write": Text("cannot write {where}: {why}", "无法写入 {where}：{why}"),
    "store.delete": Text("cannot delete {where}: {why}", "无法删除 {where}：{why}"),
    "store.store": Text("cannot store {where}: {why}", "无法存储 {where}：{why}"),
}

_RECOGNIZED = {
    **_STORE_ERRORS,
    # --- the log of a board, and why it ended
    "log.again": Text("starting again", "重新启动"),
    "log.placed": Text("was placed on host {host}", "已分配到主机 {host}"),
    "log.requeued": Text("{why}; another host will be chosen", "{why}；将选择另一台主机"),
    "log.running": Text("is running", "正在运行"),
    "log.waiting": Text("is up and waits for the first data", "已就绪，等待首批数据"),
    "log.data": Text("data is there; is running", "数据已到；正在运行"),
    "log.data_gone": Text("there is no data any more. {why}", "已没有数据。{why}"),
    "log.readable": Text("what it shows can be read now", "要显示的内容现在可以读取"),
    "log.stopping": Text("is stopping", "正在停止"),
    "log.stopped": Text("stopped: {why}", "已停止：{why}"),
    "log.terminated": Text("terminated: {why}", "已结束：{why}"),
    "log.failed": Text("failed: {why}", "失败：{why}"),
    "log.start_failed": Text("failed to start: {why}", "启动失败：{why}"),
    "log.hub_failed": Text(
        "the hub made a mistake; see its log", "hub 内部出错；请查看 hub 的日志"
    ),
    "log.not_made": Text("the board cannot be made: {why}", "无法创建看板：{why}"),
    "log.path": Text("{where}: a path begins with /", "{where}：路径以 / 开头"),
    "log.file_uri": Text(
        "{where}: write file:///path, with three slashes",
        "{where}：请写作 file:///path（三个斜杠）",
    ),
    "log.no_tensorboard": Text(
        "TensorBoard cannot be imported where the board is served: {value}. hint: install it there"
        " again: {second}",
        "提供看板服务的机器无法导入 TensorBoard：{value}。提示：请在该处重新安装：{second}",
    ),
    "log.tensorboard_answers": Text(
        "TensorBoard answers {where} with {answer}: {value}",
        "TensorBoard 对 {where} 的应答是 {answer}：{value}",
    ),
    "log.host_silent": Text("host {host} does not answer: {why}", "主机 {host} 没有响应：{why}"),
    "log.host_answered": Text("host {host} answered {answer}", "主机 {host} 的应答是 {answer}"),
    "log.host_unregistered": Text("host {host} has not registered", "主机 {host} 尚未注册"),
    "log.host_garbled": Text(
        "host {host} sends what cannot be understood", "无法理解主机 {host} 的应答"
    ),
    "log.unchanged": Text("cannot be changed: {why}", "无法更改：{why}"),
    "log.queued": Text("{what}; waiting for a host", "{what}；等待主机"),
    "log.added": Text("{what} added", "已添加 {what}"),
    "log.removed": Text("{what} taken out", "已移除 {what}"),
    "log.run_deleted": Text("run {value} was deleted by {name}", "运行 {value} 已被 {name} 删除"),
    "log.runs_deleted": Text(
        "{n} runs were deleted by {name}: {value}", "{n} 个运行已被 {name} 删除：{value}"
    ),
    "log.up_without_data": Text("is up without data. {why}", "已启动，但没有数据。{why}"),
    "log.shows": Text("now shows {now}, before {before}", "现显示 {now}，此前 {before}"),
    "log.runs_and_places": Text(
        "{runs} runs and {places} places", "{runs} 个运行和 {places} 个位置"
    ),
    "log.runs_and_place": Text("{runs} runs and 1 place", "{runs} 个运行和 1 个位置"),
    "log.run_and_places": Text("1 run and {places} places", "1 个运行和 {places} 个位置"),
    "log.run_and_place": Text("1 run and 1 place", "1 个运行和 1 个位置"),
    "log.one_run": Text("1 run", "1 个运行"),
    "log.runs": Text("{n} runs", "{n} 个运行"),
    "log.one_place": Text("1 place", "1 个位置"),
    "log.places": Text("{n} places", "{n} 个位置"),
    "log.user_stopped": Text(
        "It was stopped; it can be started again.", "看板已停止；可以重新启动。"
    ),
    "log.user_stopped_by": Text(
        "It was stopped by {name}; it can be started again.", "看板已被 {name} 停止；可以重新启动。"
    ),
    "log.idle": Text(
        "Nobody looked at it for {time}; it starts again when visited.",
        "{time}内无人查看；访问时会重新启动。",
    ),
    "log.killed_by": Text("It was killed by {name}.", "被 {name} 终止。"),
    "log.killed": Text("It was killed.", "被终止。"),
    "log.expired": Text("Its maximum run time is over.", "已到最长运行时间。"),
    "log.no_data": Text(
        "Nothing was logged by its runs within {time}.", "{time}内其运行没有任何记录。"
    ),
    "log.host_ended": Text("Host {host} ended {how}.", "主机 {host} 已结束（{how}）。"),
    "log.host_died": Text("Host {host} {cause}: it ended {how}.", "主机 {host} {cause}：{how}。"),
    "log.host_hung": Text(
        "Host {host} {cause}: it was ended {how}.", "主机 {host} {cause}：{how}，已被终止。"
    ),
    "log.unanswered": Text("after it had not answered for {n} s", "{n} 秒没有响应"),
    "log.host_unanswered": Text(
        "Host {host} has not answered for {n} s.", "主机 {host} 已有 {n} 秒没有响应。"
    ),
    "log.restarts": Text("{what} The board restarts by itself.", "{what}看板将自动重启。"),
    "log.isolated": Text(
        "{what} The board restarts in a process of its own.", "{what}看板将在单独的进程中重启。"
    ),
    "log.given_up": Text(
        "{what} It was crash {n} of the processes that served this board.",
        "{what}这是为此看板提供服务的进程第 {n} 次崩溃。",
    ),
    "log.host_drained": Text("host {host} is drained", "主机 {host} 正在排空"),
    "log.one_day": Text("1 day", "1 天"),
    "log.days": Text("{n} days", "{n} 天"),
    "log.one_hour": Text("1 hour", "1 小时"),
    "log.hours": Text("{n} hours", "{n} 小时"),
    "log.one_minute": Text("1 minute", "1 分钟"),
    "log.minutes": Text("{n} minutes", "{n} 分钟"),
    "log.one_second": Text("1 second", "1 秒"),
    "log.seconds": Text("{n} seconds", "{n} 秒"),
    # --- why a host ended: `boards.life.Cause`
    "cause.crash": Text("crashed", "崩溃"),
    "cause.hang": Text("hung", "无响应"),
    "cause.out_of_memory": Text("ran out of memory", "内存不足"),
    "cause.preemption": Text("was preempted", "被抢占"),
    "cause.eviction": Text("was evicted", "被驱逐"),
    "cause.drain": Text("was drained", "被排空"),
    "cause.time_limit": Text("reached its time limit", "已到时限"),
    "cause.node_lost": Text("lost its machine", "失去所在机器"),
    "cause.terminated": Text("was terminated", "被终止"),
    "cause.cancelled": Text("was cancelled", "被取消"),
    # --- how a host ended, in the words of its launcher
    "log.with_exit_code": Text("with exit code {code}", "退出码 {code}"),
    "log.by_signal": Text("by signal {signal}", "信号 {signal}"),
    "log.by_signal_with_code": Text(
        "by signal {signal} (exit code {code})", "信号 {signal}，退出码 {code}"
    ),
    "log.unknown_reason": Text("for an unknown reason", "原因未知"),
    "log.reasons_unknown": Text("for reasons unknown", "原因未知"),
    "log.machine_restarted": Text("when the machine was restarted", "机器已重启"),
    "log.all_killed": Text("by being killed, shell and all", "连同 shell 一起被终止"),
    "log.launcher_changed": Text(
        "when the hub changed from launcher {old} to {new}", "hub 的启动器由 {old} 改为 {new}"
    ),
    "log.memory_limit": Text("because it ran out of its memory limit", "超出内存限制"),
    "log.memory_limit_of": Text(
        "because it ran out of its memory limit of {size}", "超出内存限制 {size}"
    ),
    "log.likely_memory": Text(
        "by signal SIGKILL (exit code 137), likely because it ran out of its memory limit of"
        " {size}",
        "信号 SIGKILL，退出码 137，可能超出内存限制 {size}",
    ),
    "log.container_removed": Text("when its container was removed", "容器已被删除"),
    "log.container_failed": Text("because its container failed: {why}", "容器出错：{why}"),
    "log.pod_evicted": Text("because its pod was evicted", "Pod 被驱逐"),
    "log.pod_evicted_why": Text("because its pod was evicted: {why}", "Pod 被驱逐：{why}"),
    "log.pod_preempted": Text("because its pod was preempted", "Pod 被抢占"),
    "log.pod_preempted_why": Text("because its pod was preempted: {why}", "Pod 被抢占：{why}"),
    "log.pod_deleted": Text(
        "because its pod was deleted or its node drained", "Pod 被删除或节点被排空"
    ),
    "log.pod_replaced": Text(
        "because its pod was replaced: deleted, or its node drained",
        "Pod 已被替换：被删除，或节点被排空",
    ),
    "log.deployment_deleted": Text("because its Deployment was deleted", "Deployment 已被删除"),
    "log.image_missing": Text(
        "because its image {image} cannot be had: {why}", "无法获取镜像 {image}：{why}"
    ),
    "log.node_lost": Text("because its node was lost", "节点丢失"),
    "log.node_lost_why": Text("because its node was lost: {why}", "节点丢失：{why}"),
    "log.node_shut_down": Text("because its node was shut down", "节点已关机"),
    "log.node_shut_down_why": Text("because its node was shut down: {why}", "节点已关机：{why}"),
    "log.node_drained": Text("because its node is drained", "节点正在排空"),
    "log.node_was_drained": Text("because its node was drained", "节点被排空"),
    "log.node_preempted": Text("because its node was preempted", "节点被抢占"),
    "log.node_removed": Text("because its node was taken out of the cluster", "节点已移出集群"),
    "log.node_died": Text("because its node died", "节点故障"),
    "log.node_failed": Text("because its node failed", "节点故障"),
    "log.node_not_booted": Text("because its node did not boot", "节点未能启动"),
    "log.node_refuses": Text("because its node may not have it any more", "节点不再允许运行它"),
    "log.node_refuses_why": Text(
        "because its node may not have it any more: {why}", "节点不再允许运行它：{why}"
    ),
    "log.not_begun": Text("before it had begun", "尚未开始"),
    "log.actor_killed": Text("because its actor was killed (ray.kill)", "actor 被终止（ray.kill）"),
    "log.actor_process_died": Text("because the process of its actor died", "actor 的进程意外结束"),
    "log.actor_process_died_why": Text(
        "because the process of its actor died ({why})", "actor 的进程意外结束（{why}）"
    ),
    "log.actor_restarted": Text("by being started anew by Ray", "被 Ray 重新启动"),
    "log.ray_memory": Text(
        "because Ray ended it when its node ran out of memory: {why}",
        "节点内存不足，被 Ray 结束：{why}",
    ),
    "log.job": Text("{how} (job {job}, {state})", "{how}（作业 {job}，{state}）"),
    "log.job_preempted": Text(
        "by being preempted: a job of higher priority took its place", "被优先级更高的作业抢占"
    ),
    "log.job_requeued": Text("by being put back into Slurm's queue", "被放回 Slurm 队列"),
    "log.job_moved": Text("by being moved to another cluster", "被移到另一个集群"),
    "log.job_time_limit": Text("at its job's time limit", "已到作业时限"),
    "log.job_deadline": Text("at its job's deadline", "已到作业截止时间"),
    "log.job_cancelled": Text(
        "by its job {job} being cancelled in Slurm (scancel)",
        "作业 {job} 在 Slurm 中被取消（scancel）",
    ),
    "log.job_memory": Text(
        "by using more memory than its job {job} has; raise the launcher's option memory",
        "内存用量超出作业 {job} 的限制；请调大启动器的 memory 选项",
    ),
    # --- what a board waits for
    "wait.data": Text(
        "Waiting for data: nothing has been logged there.", "等待数据：该处尚无任何记录。"
    ),
    "wait.nothing_left": Text(
        "All runs that it showed were deleted or taken out. hint: `tbhub add BOARD RUNS` adds"
        " others",
        "它显示的所有运行都已被删除或移除。提示：`tbhub add BOARD RUNS` 可添加其他运行",
    ),
    "wait.path": Text(
        "Waiting for {path}, which does not exist where the board is served.",
        "等待 {path}：它在提供看板服务的机器上不存在。",
    ),
    "wait.paths": Text(
        "Waiting for {path} and {n} more, which does not exist where the board is served.",
        "等待 {path} 及另外 {n} 处：它们在提供看板服务的机器上不存在。",
    ),
    "wait.answer": Text("Waiting for the first answer of {path}.", "等待 {path} 的首次应答。"),
    "wait.kept": Text("{why}; what was read before stays shown", "{why}；此前读取的内容仍会显示"),
    "wait.unreadable": Text(
        "{path} cannot be read: {why}. hint: the user that the board is served as needs the right"
        " to read it",
        "无法读取 {path}：{why}。提示：提供看板服务的用户需要读取权限",
    ),
    "wait.unreadable_as_said": Text("{path} cannot be read: {why}.", "无法读取 {path}：{why}。"),
    "wait.unreadable_bucket": Text(
        "{path} cannot be read: {why}. hint: check the name of the bucket, or create it",
        "无法读取 {path}：{why}。提示：请检查存储桶的名称，或创建该存储桶",
    ),
    "wait.unreadable_store": Text(
        "{path} cannot be read: {why}. hint: `tbhub storage test {tested}` tells more;"
        " `tbhub storage add NAME {added}` gives the hub credentials for it",
        "无法读取 {path}：{why}。提示：`tbhub storage test {tested}` 可查看详情；"
        "`tbhub storage add NAME {added}` 可为 hub 添加凭据",
    ),
    "wait.unreadable_connection": Text(
        "{path} cannot be read: {why}. hint: `tbhub storage test {name} --for boards` tests the"
        " connection that is used; `tbhub storage add NAME {added}` gives the hub other credentials"
        " for it",
        "无法读取 {path}：{why}。提示：`tbhub storage test {name} --for boards` 可测试所用的连接；"
        "`tbhub storage add NAME {added}` 可为 hub 添加其他凭据",
    ),
    "wait.not_mounted": Text(
        "{path} exists on the hub's machine but not where the board is served. hint: mount it for"
        " hosts of the launcher {launcher}, see docs/launchers.md",
        "{path} 在 hub 的机器上存在，但在提供看板服务的机器上不存在。"
        "提示：请为启动器 {launcher} 的主机挂载它，见 docs/launchers.md",
    ),
    "wait.host": Text("host {host}: {what}", "主机 {host}：{what}"),
    "wait.no_host": Text("no host could be started: {why}", "无法启动主机：{why}"),
    "wait.no_host_yet": Text(
        "no host could be started, which is tried again: {why}", "无法启动主机，将重试：{why}"
    ),
    "wait.host_ended": Text("it ended {how}.", "已结束（{how}）。"),
    "wait.host_ended_saying": Text("it ended {how}. {last}", "已结束（{how}）。{last}"),
    "wait.container": Text("its container has been created", "容器已创建"),
    "wait.container_on": Text("its container is being made on {node}", "正在 {node} 上创建容器"),
    "wait.pod": Text("its pod is being made", "正在创建 Pod"),
    "wait.pod_made": Text("its pod has been made", "Pod 已创建"),
    "wait.no_pod": Text("no pod can be made: {why}", "无法创建 Pod：{why}"),
    "wait.node": Text("its pod waits for a node", "Pod 正在等待节点"),
    "wait.node_why": Text("its pod waits for a node: {why}", "Pod 正在等待节点：{why}"),
    "wait.actor_labels": Text(
        "its actor waits for a node with the labels {labels}: there is none",
        "actor 正在等待带有标签 {labels} 的节点：目前没有",
    ),
    "wait.actor_node": Text(
        "its actor waits for a node with {wanted}: none has that much",
        "actor 正在等待具有 {wanted} 的节点：没有节点满足",
    ),
    "wait.actor_resources": Text(
        "its actor waits for resources: {wanted}; those there are are in use",
        "actor 正在等待资源 {wanted}：现有资源已被占用",
    ),
    "wait.actor_starts": Text(
        "its actor has a place, and its worker is being started",
        "actor 已分配到节点，正在启动工作进程",
    ),
    "wait.job_queued": Text("job {job} is in Slurm's queue", "作业 {job} 在 Slurm 队列中"),
    "wait.job_queued_why": Text(
        "job {job} waits in Slurm's queue {why} ({reason})",
        "作业 {job} 在 Slurm 队列中等待：{why}（{reason}）",
    ),
    "wait.job": Text("job {job} waits ({reason})", "作业 {job} 正在等待（{reason}）"),
    "wait.job_node": Text("job {job}: its node is made ready", "作业 {job}：正在准备节点"),
    "wait.slurm_resources": Text("until nodes are free", "暂无空闲节点"),
    "wait.slurm_priority": Text("behind jobs of higher priority", "前面有优先级更高的作业"),
    "wait.slurm_dependency": Text("for jobs it depends on", "等待所依赖的作业"),
    "wait.slurm_down": Text("because its partition is down", "分区已停用"),
    "wait.slurm_inactive": Text("because its partition is not active", "分区未激活"),
    "wait.slurm_nodes": Text("for more nodes than its partition has", "所需节点数超出分区"),
    "wait.slurm_time": Text("for more time than its partition gives", "所需时间超出分区上限"),
    "wait.slurm_unavailable": Text(
        "for nodes that are down, drained or reserved", "所需节点已停机、被排空或被预留"
    ),
    "wait.slurm_held": Text("because it is held", "作业被挂起"),
    "wait.slurm_held_admin": Text("because it is held by an administrator", "作业被管理员挂起"),
    "wait.slurm_constraints": Text("for what no node can give", "没有节点满足要求"),
    "wait.slurm_begin": Text("for the time it is to begin at", "未到开始时间"),
    "wait.slurm_reservation": Text("for its reservation", "等待预留"),
    # --- the test of a storage connection
    "storage.answers": Text("the store answers", "存储有响应"),
    "storage.accepted": Text("accepted", "已接受"),
    "storage.there": Text("there", "存在"),
    "storage.right": Text("right", "正确"),
    "storage.near": Text("near enough to the store's", "与存储的时钟足够接近"),
    "storage.behind": Text("{n} s behind the store's", "比存储的时钟慢 {n} 秒"),
    "storage.ahead": Text("{n} s ahead of the store's", "比存储的时钟快 {n} 秒"),
    "storage.may_list": Text("may list", "可以列举"),
    "storage.may_read": Text("may read", "可以读取"),
    "storage.may_write": Text("may write", "可以写入"),
    "storage.created": Text("refuses to replace what was created", "拒绝覆盖已新建的对象"),
    "storage.parts": Text("may write in parts", "可以分段写入"),
    "storage.may_delete": Text("may delete", "可以删除"),
    "storage.left": Text("{why}; {name} is left there", "{why}；{name} 留在该处"),
    "storage.not_tried": Text("not tried, because of the above", "因上述问题未测试"),
    "storage.nothing_to_read": Text(
        "not tried: nothing is there to read yet", "未测试：尚无可读取的内容"
    ),
    "storage.not_known": Text("not known", "未知"),
    "storage.answered": Text("{why} ({answer})", "{why}（{answer}）"),
    "storage.needs": Text("{why}; needs {value}", "{why}；需要 {value}"),
    "storage.needs_both": Text(
        "{why}; needs {value} and {second}", "{why}；需要 {value} 和 {second}"
    ),
    "storage.only_runs": Text(
        "{why}; runs need this, boards do not", "{why}；运行需要此权限，看板不需要"
    ),
    "storage.no_list": Text("no permission to list there", "没有列举权限"),
    "storage.no_read": Text("no permission to read there", "没有读取权限"),
    "storage.no_write": Text("no permission to write there", "没有写入权限"),
    "storage.no_delete": Text("no permission to delete there", "没有删除权限"),
    "storage.bad_key": Text(
        "the credentials are not accepted; check key and secret",
        "凭据未被接受；请检查密钥 ID 和密钥",
    ),
    "storage.bad_account": Text(
        "the credentials are not accepted; check account and key",
        "凭据未被接受；请检查账户和密钥",
    ),
    "storage.bad_credentials": Text(
        "the credentials are not accepted; check them", "凭据未被接受；请检查凭据"
    ),
    "storage.expired": Text(
        "the credentials have expired or are not valid; get new ones",
        "凭据已过期或无效；请获取新的凭据",
    ),
    "storage.no_bucket": Text(
        "there is no such bucket; create it, or check its name and the account",
        "没有此存储桶；请创建它，或检查其名称和账户",
    ),
    "storage.no_object": Text("there is no such object", "没有此对象"),
    "storage.no_connection": Text(
        "no connection; is the address right, and is the store up?",
        "无法连接；请检查地址是否正确、存储是否在运行",
    ),
    "storage.no_answer": Text("the store did not answer in time", "存储未及时响应"),
    "storage.store_failed": Text("the store says that it has failed", "存储报告自身出错"),
    "storage.throttled": Text(
        "the store asks for fewer requests; try again later", "存储要求减少请求；请稍后重试"
    ),
    "storage.wrong_clock": Text(
        "this machine's clock is wrong; set it", "本机时钟不正确；请校准时钟"
    ),
    "storage.other_region": Text(
        "the bucket is in another region; set the region", "存储桶在其他区域；请设置 region"
    ),
    "storage.region_is": Text(
        "the bucket is in another region: it is in {value}; set the region",
        "存储桶在其他区域：{value}；请设置 region",
    ),
    "storage.gave_up": Text("the store gave up waiting", "存储等待超时"),
    "storage.broke_off": Text("the answer broke off", "应答中断"),
    "storage.connection_broke": Text("the connection broke", "连接中断"),
    "storage.not_implemented": Text("the store does not know how", "存储不支持此操作"),
    "storage.failed": Text("the store failed", "存储出错"),
    "storage.library_failed": Text(
        "the storage library failed: {value}. hint: check the endpoint, the region and the keys",
        "存储客户端出错：{value}。提示：请检查 endpoint、region 和密钥",
    ),
    "storage.written_by_other": Text("it has been written to by someone else", "已被他人写入"),
    "storage.bad_name": Text("the store cannot hold this name", "存储不支持此名称"),
    "storage.no_identity": Text(
        "no credentials, and this machine has no identity: {why}",
        "没有凭据，且本机没有云身份：{why}",
    ),
    "storage.unusable": Text("the credentials cannot be used: {why}", "凭据无法使用：{why}"),
    "storage.login_file": Text("the login in {where}", " {where} 中的登录凭据"),
    "storage.google_login": Text("the Google login", " Google 登录凭据"),
    "storage.login_unopened": Text(
        "{login} could not be used: the file cannot be opened. hint: check its path and who may"
        " read it",
        "无法使用{login}：文件无法打开。提示：请检查路径和读取权限",
    ),
    "storage.login_undecoded": Text(
        "{login} could not be used: the file is no login of Google's. hint: `gcloud auth"
        " application-default login` writes one",
        "无法使用{login}：文件不是 Google 登录凭据。"
        "提示：可用 `gcloud auth application-default login` 生成",
    ),
    "storage.login_expired": Text(
        "{login} could not be used: it has expired or was revoked. hint: log in again with `gcloud"
        " auth application-default login`, or use a new key of the service account",
        "无法使用{login}：已过期或已撤销。提示：请用 `gcloud auth application-default login`"
        " 重新登录，或使用服务账号的新密钥",
    ),
    "storage.login_refused": Text(
        "{login} could not be used: Google's token server does not accept it. hint: log in again"
        " with `gcloud auth application-default login`, or use a new key of the service account",
        "无法使用{login}：Google 令牌服务器不接受。提示：请用"
        " `gcloud auth application-default login` 重新登录，或使用服务账号的新密钥",
    ),
    "storage.login_failed": Text(
        "{login} could not be used: Google's token server has failed",
        "无法使用{login}：Google 令牌服务器出错",
    ),
    "storage.login_timeout": Text(
        "{login} could not be used: Google's token server did not answer in time",
        "无法使用{login}：Google 令牌服务器响应超时",
    ),
    "storage.login_unreachable": Text(
        "{login} could not be used: Google's token server cannot be reached. hint: check the"
        " network of the machine that reads the bucket, and HTTPS_PROXY if it needs a proxy",
        "无法使用{login}：无法连接 Google 令牌服务器。提示：请检查读取存储桶的机器的网络；"
        "若需要代理，请检查 HTTPS_PROXY",
    ),
    "storage.setup": Text(
        "set the environment variables in docs/storage.md where this runs; for what the hub reads,"
        " `tbhub storage add`; the hub keeps the logs of runs for which no storage is given",
        "请在运行处设置 docs/storage.md 中的环境变量；hub 读取的内容请用 `tbhub storage add`"
        " 添加凭据；未指定存储的运行由 hub 保存日志",
    ),
    "storage.no_authorities": Text(
        "no CA certificates are installed here to check the store's certificate with. hint: install"
        " the package ca-certificates (in the image, if this is a container), or set SSL_CERT_FILE"
        " to a file of CA certificates",
        "此处未安装用于验证存储证书的 CA 证书。提示：请安装 ca-certificates 软件包"
        "（若为容器，请装在镜像中），或将 SSL_CERT_FILE 设为 CA 证书文件",
    ),
    "storage.unknown_authority": Text(
        "the store's certificate was issued by an authority that is not trusted here. hint: set"
        " SSL_CERT_FILE to a file with that authority's certificate",
        "存储的证书由此处不信任的机构签发。提示：请将 SSL_CERT_FILE 设为含该机构证书的文件",
    ),
    "storage.bad_certificate": Text(
        "the store's certificate is not valid: {value}", "存储的证书无效：{value}"
    ),
    "storage.replaces": Text(
        "the store replaces an object where it was told to create one, so that writers of one run"
        " could overwrite each other",
        "要求仅新建时存储仍会覆盖对象，同一运行的多个写入者可能互相覆盖",
    ),
    # --- settings and names that cannot be right
    "storage.unknown_setting": Text("a setting that this store does not know", "此存储没有该设置"),
    "storage.unknown_settings": Text(
        "unknown settings {value}; there are {second}", "未知的设置 {value}；可用：{second}"
    ),
    "storage.oss_region": Text(
        "give a region or an endpoint, or set OSS_REGION, or write {value}",
        "请提供 region 或 endpoint，或设置 OSS_REGION，或写作 {value}",
    ),
    "storage.oss_keys": Text(
        "no credentials; give them, or set OSS_ACCESS_KEY_ID and _SECRET",
        "没有凭据；请提供凭据，或设置 OSS_ACCESS_KEY_ID 和 OSS_ACCESS_KEY_SECRET",
    ),
    "storage.az_account": Text(
        "no account; write {value}, or set AZURE_STORAGE_ACCOUNT_NAME",
        "缺少账户；请写作 {value}，或设置 AZURE_STORAGE_ACCOUNT_NAME",
    ),
    "storage.no_hub": Text(
        "no hub is known: say where it is with `tbhub login URL` or TBHUB_URL, or start one on this"
        " machine with `tbhub up`",
        "没有已知的 hub：请用 `tbhub login URL` 或 TBHUB_URL 指定，或用 `tbhub up` 在本机启动",
    ),
    "storage.attempt": Text(
        "attempt, or TBHUB_ATTEMPT, is a number", "attempt 或 TBHUB_ATTEMPT 应为数"
    ),
    "storage.unknown_scheme": Text(
        "unknown scheme; known are {value} and paths", "未知的协议；可用 {value} 和路径"
    ),
    "storage.file_uri": Text(
        "a file URI has three slashes: {value}", "文件 URI 有三个斜杠：{value}"
    ),
    "storage.no_path": Text("not a path", "不是路径"),
    "storage.follows_run": Text(
        "what follows must be runs/ and a run's number", "其后应为 runs/ 和运行的编号"
    ),
    "storage.follows": Text("what follows must be {value}", "其后应为 {value}"),
    "storage.no_account_name": Text("not the name of an account", "不是账户名称"),
    "storage.bucket_character": Text(
        "names in a bucket cannot hold {value}", "存储桶中的名称不能含有 {value}"
    ),
    "storage.zero_byte": Text("file names cannot hold a zero byte", "文件名不能含有零字节"),
    "storage.name_part": Text(
        "a name cannot have {value} between its slashes", "名称的斜杠之间不能是 {value}"
    ),
    # --- this machine's files
    "storage.no_file": Text("there is no such file", "没有此文件"),
    "storage.is_no_file": Text("it is not a file", "不是文件"),
    "storage.long_name": Text(
        "the name is too long for this file system", "名称超出文件系统的长度限制"
    ),
    "storage.broken_link": Text("a link that leads nowhere", "链接的目标不存在"),
    "system.EACCES": Text("Permission denied", "权限不足"),
    "system.EPERM": Text("Operation not permitted", "不允许此操作"),
    "system.ENOENT": Text("No such file or directory", "没有此文件或目录"),
    "system.ENOTDIR": Text("Not a directory", "不是目录"),
    "system.EIO": Text("Input/output error", "输入/输出错误"),
    "system.ESTALE": Text("Stale file handle", "文件句柄已失效"),
    "system.ELOOP": Text("Too many levels of symbolic links", "符号链接层数过多"),
    "system.EMFILE": Text("Too many open files", "打开的文件过多"),
    "system.ENOTCONN": Text("Transport endpoint is not connected", "文件系统未连接"),
    "system.ENOSPC": Text("No space left on device", "磁盘空间不足"),
}

# Problems that the catalog, the registry of boards and the parser of selectors report.
_RECOGNIZED_PROBLEMS = {
    **_STORE_ERRORS,
    # --- what is not there
    "missing.things": Text("There is no {things}.", "没有{things}。"),
    "missing.things_more": Text(
        "There is no {things}, and {n} more are unknown.", "没有{things}，另有 {n} 项不存在。"
    ),
    "missing.things_advice": Text("There is no {things}. {hint}", "没有{things}。{hint}"),
    "missing.and": Text("{things}, no {more}", "{things}、{more}"),
    "missing.a_board": Text("board {name}", "看板 {name}"),
    "missing.a_run": Text("run {name}", "运行 {name}"),
    "missing.a_run_below": Text("run at or below {name}", "位于 {name} 的运行"),
    "missing.an_experiment": Text("experiment {name}", "实验 {name}"),
    "missing.a_job": Text("job {name}", "作业 {name}"),
    "missing.a_workspace": Text("workspace {name}", "工作区 {name}"),
    "missing.a_home": Text("workspace or directory {name}", "工作区或目录 {name}"),
    "missing.a_logdir": Text("logdir {name}", "日志目录 {name}"),
    "missing.a_connection": Text("storage connection {name}", "存储连接 {name}"),
    "missing.connection_list": Text(
        "There is no storage connection {name}; `tbhub storage` lists them.",
        "没有存储连接 {name}；`tbhub storage` 可列出所有连接。",
    ),
    "missing.a_user": Text("user {name}", "用户 {name}"),
    "missing.a_host": Text("host {name}", "主机 {name}"),
    "missing.a_directory": Text(
        "There is no directory {where} on the hub's machine.", "hub 的机器上没有目录 {where}。"
    ),
    "missing.such_a_workspace": Text("There is no such workspace.", "没有此工作区。"),
    "missing.such_a_job": Text("There is no such job.", "没有此作业。"),
    "missing.such_board": Text("no such board", "没有此看板。"),
    "missing.such_workspace": Text("no such workspace", "没有此工作区。"),
    "missing.such_run": Text("no such run", "没有此运行。"),
    "missing.such_connection": Text("no such storage connection", "没有此存储连接。"),
    "missing.no_run": Text("no run {name}", "没有运行 {name}。"),
    "missing.no_experiment": Text("no experiment {name}", "没有实验 {name}。"),
    "missing.nothing_at": Text(
        "There is nothing at {where}, or nothing you may see.", "{where} 没有内容，或你无权查看。"
    ),
    "missing.share": Text("this board has no share link {value}", "此看板没有分享链接 {value}。"),
    "missing.member": Text(
        "{name} is not a member of the workspace {value}.", "{name} 不是工作区 {value} 的成员。"
    ),
    "missing.deleted_board": Text("The board was deleted.", "看板已被删除。"),
    "missing.log": Text("this run has no console log", "此运行没有控制台日志。"),
    "missing.log_file": Text(
        "this run has no console log {file}; there are {files}",
        "此运行没有控制台日志 {file}；现有 {files}。",
    ),
    "missing.matches": Text(
        "No run matches {selector}. A board that follows waits for some.",
        "没有符合 {selector} 的运行。持续添加运行的看板会等待它们出现。",
    ),
    "advice.parts": Text("hint: it has the parts {value}.", "它包含 {value}。"),
    "advice.called": Text(
        "hint: #{n} is called {name}: write {value}.", "#{n} 的名称是 {name}：请写 {value}。"
    ),
    "advice.experiment": Text("An experiment is called so: {value}.", "有同名的实验：{value}。"),
    "advice.run_called": Text(
        "hint: a run is called {name}: write {value}.", "有运行名为 {name}：请写 {value}。"
    ),
    "advice.blanks": Text(
        "hint: put quotes around a name with blanks: {value}.", "含空格的名称要加引号：{value}。"
    ),
    "advice.run": Text("A run has this number: {value}.", "有此编号的运行：{value}。"),
    # --- what is not the only one
    "several.runs": Text(
        "{name} names {n} runs: {matches}. hint: {advice}.",
        "{name} 对应 {n} 个运行：{matches}。{advice}。",
    ),
    "several.directories": Text(
        "{name} names {n} directories: {matches}. hint: {advice}.",
        "{name} 对应 {n} 个目录：{matches}。{advice}。",
    ),
    "several.terms": Text(
        "{name} is the name of a run, {matches}, and also a list of {n} terms. hint: write {value},"
        " or {second}.",
        "{name} 是运行 {matches} 的名称，也是 {n} 项的列表。请写 {value}，或 {second}。",
    ),
    "several.runs_or_terms": Text(
        "{name} is the name of {runs} runs, {matches}, and also a list of {n} terms. hint: write"
        " {value}, or {second}.",
        "{name} 是 {runs} 个运行的名称（{matches}），也是 {n} 项的列表。"
        "请写 {value}，或 {second}。",
    ),
    "several.path_or_number": Text(
        "write more of the path, or a number: {value}", "请写出更多路径，或使用编号：{value}"
    ),
    "several.path": Text("write more of the path", "请写出更多路径"),
    "several.boards": Text(
        "{name} can mean {n} boards: {matches}.", "{name} 可能指 {n} 个看板：{matches}。"
    ),
    "several.jobs": Text(
        "{name} can mean {n} things: {value}. hint: write one of these.",
        "{name} 可能指 {n} 项：{value}。请写其中之一。",
    ),
    "several.homes": Text(
        "{name} is in {n} workspaces; say which: {value}.",
        "{name} 存在于 {n} 个工作区；请指明：{value}。",
    ),
    "several.range": Text(
        "{name} is a range of {n} runs, and also the name of {value}. hint: write trial:{runs} for"
        " that run, or name the runs of the range one by one.",
        "{name} 是 {n} 个运行的范围，也是 {value} 的名称。请写 trial:{runs} 指该运行，"
        "或逐个写出范围内的运行。",
    ),
    "several.more": Text("{value} and {n} more", "{value} 等（另有 {n} 个）"),
    # --- boards
    "board.ended": Text(
        "The board has ended for good ({value}): {why} Create another one with the same runs.",
        "看板已永久结束（{value}）：{why}请用相同的运行新建一个看板。",
    ),
    "board.is": Text("The board is {value}: {why}", "看板的状态是 {value}：{why}"),
    "board.starting": Text(
        "The board is still being started. Try again.", "看板仍在启动中。请重试。"
    ),
    "board.changes": Text(
        "What the board is to show changes too quickly. Try again.",
        "看板要显示的内容变化过快。请重试。",
    ),
    "board.no_end": Text("The board has no end that could be put off.", "看板没有可以延长的时限。"),
    "board.launcher": Text(
        "This hub serves boards by the launcher {name}, not by {value}; one that does is started"
        " with --launcher {second}.",
        "此 hub 的看板由启动器 {name} 提供，而不是 {value}；请用 --launcher {second} 启动 hub。",
    ),
    "board.nothing": Text(
        "Nothing to show: give a selector, experiments, runs or places.",
        "没有要显示的内容：请提供选择器、实验、运行或位置。",
    ),
    "board.whole_path": Text(
        "{where}: the hub needs the whole path, beginning with /.",
        "{where}：hub 需要以 / 开头的完整路径。",
    ),
    "board.silent": Text(
        "the process that serves this board does not answer", "为此看板提供服务的进程没有响应。"
    ),
    # --- storage connections
    "connection.unreadable": Text(
        "{where} cannot be read with these settings: {why}", "用这些设置无法读取 {where}：{why}"
    ),
    "connection.exists": Text(
        "There is a storage connection {name} already; remove it first.",
        "已有存储连接 {name}；请先删除它。",
    ),
    "connection.only_buckets": Text(
        "{where}: only buckets have connections, {value} and the like",
        "{where}：只有存储桶可以有连接，例如 {value}",
    ),
    "connection.own_keys": Text(
        "without keys the hub's own would be used, which is for its admins",
        "不提供密钥就会使用 hub 自己的凭据，只有 hub 的管理员可以这样做。",
    ),
    "connection.address": Text(
        "which address the hub asks is for its admins to say",
        "只有 hub 的管理员可以指定 hub 访问的地址。",
    ),
    "connection.service_account": Text(
        "service_account is a file here; give its text as service_account_key",
        "service_account 在此处是文件；请用 service_account_key 提供其内容。",
    ),
    "connection.setting": Text(
        "{name}:// has no setting {value}; there are {second}",
        "{name}:// 没有设置 {value}；可用：{second}",
    ),
    # --- runs, workspaces and logdirs
    "run.name_taken": Text(
        "Another run is called {name}; choose another name.",
        "已有运行名为 {name}；请换一个名称。",
    ),
    "run.name_is_number": Text(
        "{name} means the run of this number. hint: choose another name.",
        "{name} 表示此编号的运行。提示：请换一个名称。",
    ),
    "run.which_to_delete": Text(
        "name the runs to delete; all of them are `all`",
        "请指明要删除的运行；`all` 表示所有运行。",
    ),
    "run.which_to_change": Text(
        "name the runs to change, by ids or by q; all of them are `all`",
        "请用 ids 或 q 指明要更改的运行；`all` 表示所有运行。",
    ),
    "run.no_reader": Text("no process that reads runs: {why}", "没有读取运行的进程：{why}"),
    "run.reader_silent": Text(
        "the process that reads runs does not answer", "读取运行的进程没有响应。"
    ),
    "workspace.exists": Text("There is a workspace {name} already.", "已有工作区 {name}。"),
    "workspace.default": Text(
        "The workspace default is always there and cannot be deleted.",
        "工作区 default 始终存在，不能删除。",
    ),
    "logdir.watched": Text(
        "{where} is being watched in the workspace {name} already.",
        "工作区 {name} 已在监视 {where}。",
    ),
    "logdir.not_on_hub": Text(
        "There is no directory {where} on the hub's machine.", "hub 的机器上没有目录 {where}。"
    ),
    "logdir.no_directory": Text(
        "{where} is not a directory of this machine.", "{where} 不是本机的目录。"
    ),
    "logdir.hubs_own": Text(
        "{where}: what a hub keeps is known to it already.", "{where}：hub 已知道自己保存的内容。"
    ),
    "logdir.no_text": Text(
        "{where} is not UTF-8; its runs could not be named.",
        "{where} 不是 UTF-8；无法为其中的运行命名。",
    ),
    "logdir.large": Text(
        "{where} is large: {n} directories and more; name a directory of runs, or watch it",
        "{where} 很大：超过 {n} 个目录；请指定含有运行的目录，或监视它。",
    ),
    # --- logging in, and requests
    "login.link_used": Text(
        "this login link was used already or has expired", "此登录链接已使用或已过期。"
    ),
    "login.form": Text(
        "a form is expected, as the login page sends it", "请求应为登录页面发送的表单。"
    ),
    "login.long": Text("a login is shorter than this", "登录请求过长。"),
    "login.admin_scope": Text(
        "a token with scope admin is of use to admins only", "权限为 admin 的令牌只供管理员使用。"
    ),
    "login.local_only": Text(
        "without authentication the hub answers to this machine's names only",
        "未启用身份验证时，hub 只响应以本机名称访问的请求。",
    ),
    "oidc.other_provider": Text(
        "another provider has answered; try again", "应答来自另一个身份提供方；请重试。"
    ),
    "oidc.unavailable": Text("the provider cannot sign anybody in now", "身份提供方目前无法登录。"),
    "oidc.other_program": Text(
        "the provider's answer is for another program", "身份提供方的应答是给另一个程序的。"
    ),
    "oidc.other_sign_in": Text(
        "the provider's answer is to another sign-in; try again",
        "身份提供方的应答属于另一次登录；请重试。",
    ),
    "oidc.long_name": Text(
        "the provider's name for this person is too long", "身份提供方给出的用户名过长。"
    ),
    "oidc.no_json": Text(
        "the provider at {where} answers what is no JSON", "身份提供方 {where} 的应答不是 JSON。"
    ),
    "oidc.issuer": Text(
        "the provider calls itself {value}; set oidc_issuer to that",
        "身份提供方自称 {value}；请将 oidc_issuer 设为该值。",
    ),
    "request.failed": Text(
        "something went wrong in the hub; its log says what", "hub 内部出错；详情见 hub 的日志。"
    ),
    "request.database": Text("the database does not answer: {why}", "数据库没有响应：{why}"),
    "request.no_leader": Text(
        "no hub leads just now; another will in a second", "目前没有主 hub；稍后会有另一个接替。"
    ),
    "request.base": Text("the hub is below {where}", "hub 位于 {where} 之下。"),
    "request.large": Text("a request may have {n} MB", "请求最大为 {n} MB。"),
    # --- fields of a request
    "field.no_json": Text("this is not JSON: {why}", "不是有效的 JSON：{why}"),
    "field.letters": Text(
        "letters, digits and _ . - alone, the first a letter, a digit or _",
        "只能含字母、数字和 _ . -，且以字母、数字或 _ 开头",
    ),
    "field.one_line": Text("one line, without control characters", "只能是一行，不含控制字符"),
    "field.no_zero_bytes": Text("text without zero bytes", "不能含零字节"),
    "field.missing": Text("field required", "缺少此字段"),
    "field.unknown": Text("extra inputs are not permitted", "没有此字段"),
    "field.greater": Text("input should be greater than {limit}", "应大于 {limit}"),
    "field.at_least": Text(
        "input should be greater than or equal to {limit}", "应大于或等于 {limit}"
    ),
    "field.less": Text("input should be less than {limit}", "应小于 {limit}"),
    "field.at_most": Text("input should be less than or equal to {limit}", "应小于或等于 {limit}"),
    "field.empty": Text("string should have at least 1 character", "不能为空"),
    "field.short": Text("string should have at least {limit} characters", "至少 {limit} 个字符"),
    "field.long": Text("string should have at most {limit} characters", "最多 {limit} 个字符"),
    "field.no_integer": Text("input should be a valid integer", "应为整数"),
    "field.integer_of_text": Text(
        "input should be a valid integer, unable to parse string as an integer", "应为整数"
    ),
    "field.integer_of_number": Text(
        "input should be a valid integer, got a number with a fractional part", "应为整数"
    ),
    "field.large_integer": Text(
        "unable to parse input string as an integer, exceeded maximum size", "整数过大"
    ),
    "field.no_number": Text("input should be a valid number", "应为数"),
    "field.number_of_text": Text(
        "input should be a valid number, unable to parse string as a number", "应为数"
    ),
    "field.not_finite": Text("input should be a finite number", "应为有限的数"),
    "field.no_text": Text("input should be a valid string", "应为文本"),
    "field.choice": Text("input should be {expected}", "应为 {expected}"),
    # --- groups of runs
    "group.fields": Text(
        "group by one to {n} fields, as in {value}", "可按 1 至 {n} 个字段分组，例如 {value}。"
    ),
    "group.order": Text(
        "groups are not ordered by {value}; there are {second}",
        "分组不能按 {value} 排序；可用：{second}",
    ),
    "group.by": Text(
        "runs are not grouped by {value}; take a column that some share",
        "运行不能按 {value} 分组；请选多个运行共有的列。",
    ),
    "group.number": Text(
        "{value} is no number; columns of groups are put together",
        "{value} 不是数；分组的列由数汇总而成。",
    ),
    # --- selectors
    "selector.patterns": Text(
        "The selector has {n} ranges, wildcards and paths; at most {value} are allowed.",
        "选择器有 {n} 个范围、通配符和路径；最多允许 {value} 个。",
    ),
    "selector.range_names": Text(
        "The selector's ranges have {n} names; at most {value} are allowed.",
        "选择器的范围有 {n} 个名称；最多允许 {value} 个。",
    ),
    "selector.wrong": Text(
        "selector {selector}, column {column}: {what}; {advice}",
        "选择器 {selector}，第 {column} 列：{what}；{advice}",
    ),
    "selector.status": Text("no run has the status {value}", "没有状态 {value}"),
    "selector.did_you_mean": Text("did you mean {value}?", "是否指 {value}？"),
    "selector.there_are": Text("there are {value}", "可用：{value}"),
    "selector.no_operator": Text("an operator is missing behind {value}", "{value} 之后缺少运算符"),
    "selector.write_operator": Text(
        "write for example {value}, or one of != < <= > >= ~ in is",
        "例如 {value}，或使用 != < <= > >= ~ in is 之一",
    ),
    "selector.no_value": Text("a value is missing", "缺少值"),
    "selector.quote_text": Text(
        "text that is no single word is quoted", "不是单个词的文本要加引号"
    ),
    "selector.no_field": Text("a field is missing", "缺少字段"),
    "selector.no_field_before": Text("a field is missing before {value}", "{value} 之前缺少字段"),
    "selector.is_no_field": Text("{value} is no field", "{value} 不是字段"),
    "selector.field_first": Text(
        "put the field first, as in {value}", "字段写在前面，例如 {value}"
    ),
    "selector.hparam": Text("write {value} for a hyperparameter", "超参数请写 {value}"),
    "selector.unexpected": Text("{value} is not expected here", "此处不应有 {value}"),
    "selector.join": Text(
        "join comparisons by and or or; names of runs stand before where",
        "用 and 或 or 连接比较；运行的名称写在 where 之前",
    ),
    "selector.out_of_order": Text("{value} is out of order", "{value} 的顺序不对"),
    "selector.reserved": Text("{value} is a word of the language", "{value} 是保留字"),
    "selector.no_name": Text("{value} is no name", "{value} 不是名称"),
    "selector.begin_where": Text(
        "a filter begins with where; a name with such characters is quoted",
        "筛选条件以 where 开头；含这些字符的名称要加引号",
    ),
    "selector.cannot_stand": Text("{value} cannot stand here", "{value} 不能出现在此处"),
    "selector.called_so": Text(
        "names are parted by commas or blanks; a run called so is written {value}",
        "名称之间用逗号或空格分隔；有此名称的运行写作 {value}",
    ),
    "selector.no_kind": Text("nothing is called {value}", "没有 {value} 这种写法"),
    "selector.kinds": Text(
        "there are exp:, trial: and job:; a name with a colon is quoted",
        "可用 exp:、trial: 和 job:；含冒号的名称要加引号",
    ),
    "selector.names_nothing": Text("{value} names nothing", "{value} 之后缺少名称"),
    "selector.open_quote": Text("a quote is not closed", "引号未闭合"),
    "selector.empty_quotes": Text("nothing is between the quotes", "引号之间没有内容"),
    "selector.name_there": Text("write a name there", "请写名称"),
    "selector.open_bracket": Text("a ( is not closed", "括号 ( 未闭合"),
    "selector.close": Text("close it with {value}", "请用 {value} 闭合"),
    "selector.number": Text(
        "{selector} is a number, {value} is not", "{selector} 是数，{value} 不是"
    ),
    "selector.integer": Text(
        "{selector} is a whole number, {value} is not", "{selector} 是整数，{value} 不是"
    ),
    "selector.write_one": Text("write one", "请写一个"),
    "selector.no_duration": Text("{value} is no duration", "{value} 不是时长"),
    "selector.no_time": Text("{value} is no time", "{value} 不是时间"),
    "selector.no_text": Text("{value} is no text", "{value} 不是文本"),
    "selector.compare": Text("compare it with = < or >", "请用 =、< 或 > 比较"),
    "selector.in_list": Text("in needs a list", "in 之后需要列表"),
    "selector.list_comma": Text("the list goes on without a comma", "列表中缺少逗号"),
    "selector.end_list": Text("end it with )", "请用 ) 结束"),
    "selector.null": Text("null is missing", "缺少 null"),
    "selector.by": Text("by is missing", "缺少 by"),
    "selector.limit": Text("limit needs a number", "limit 之后需要数"),
    "selector.example": Text("write for example {value}", "例如 {value}"),
    "selector.or": Text("write {value}", "请写 {value}"),
    "selector.either": Text("write {value} or {second}", "请写 {value} 或 {second}"),
    "selector.use": Text("use {value}", "请用 {value}"),
    "selector.use_lists": Text("use in (…) for lists", "列表请用 in (…)"),
    "selector.use_both": Text("use < and >", "请用 < 和 >"),
    "selector.use_either": Text("use < or >", "请用 < 或 >"),
    "selector.use_equal": Text("use = or !=", "请用 = 或 !="),
    "selector.null_or_not": Text("write is null or is not null", "请写 is null 或 is not null"),
    "selector.unequal_or_not": Text("write != or not", "请写 != 或 not"),
    "selector.name_kind": Text(
        'write {value} or {second}:"a name"', '请写 {value} 或 {second}:"名称"'
    ),
    "selector.durations": Text("write 90s, 5m, 2h or 3d", "例如 90s、5m、2h 或 3d"),
    "selector.limit_example": Text(
        'write for example limit 10; a run is "limit"',
        '例如 limit 10；名为 limit 的运行写作 "limit"',
    ),
    "selector.no_comma": Text("a comma is missing", "缺少逗号"),
    "selector.comma_between": Text("put one between two fields", "请在两个字段之间写逗号"),
    "selector.by_tag": Text("runs cannot be ordered by tag", "运行不能按 tag 排序"),
    "selector.many_tags": Text("a run may have many tags", "一个运行可以有多个标签"),
    "selector.deep": Text("the condition is nested too deeply", "条件嵌套过深"),
    "selector.fewer_brackets": Text("write it with fewer brackets", "请减少括号"),
    "selector.too_many_fields": Text("there are too many fields", "字段过多"),
    "selector.too_many_orders": Text("there are too many fields to order by", "排序的字段过多"),
    "selector.allowed": Text("{n} are allowed", "最多允许 {n} 个"),
    "selector.comparisons": Text("there are more than {n} comparisons", "比较超过 {n} 个"),
    "selector.no_order": Text("{value} is not more or less than another", "{value} 不能比较大小"),
    "selector.not_so": Text(
        "{value} cannot be compared so with {second}", "{value} 与 {second} 不能这样比较"
    ),
    "selector.age": Text("an age goes with < <= > >=", "时长请用 < <= > >= 比较"),
    "selector.age_no_time": Text("an age is no single time", "时长不是单个时间"),
    "selector.null_order": Text("nothing is more or less than null", "null 不能比较大小"),
    "selector.list_times": Text("the list has more than {n} times", "列表超过 {n} 个时间"),
    "selector.list_values": Text("the list has more than {n} values", "列表超过 {n} 个值"),
    "selector.archived": Text("archived is true or false", "archived 是 true 或 false"),
    "selector.exclamation": Text("a ! stands alone", "单独的 !"),
    "selector.large": Text("no number is that large", "数过大"),
    "selector.quote_number": Text("quote text that looks like one", "看起来像数的文本要加引号"),
    "selector.quote_number_name": Text("quote a name that is one", "是数的名称要加引号"),
    "selector.no_character": Text("this character is not text", "此字符不是文本"),
    "selector.leave_out": Text("leave it out", "请去掉它"),
    "selector.quote_within": Text("quotes begin within a name", "引号从名称中间开始"),
    "selector.quote_part": Text("quotes begin or end within a name", "引号从名称中间开始或结束"),
    "selector.quote_all": Text("put them around all of it", "请给整个名称加引号"),
    "selector.no_workspace": Text("{value}/ is no workspace", "{value}/ 不是工作区"),
    "selector.quote_path": Text(
        'write ws1/"my run", or quote all of a path', '请写 ws1/"运行名"，或给整个路径加引号'
    ),
    "selector.wildcard_path": Text(
        "wildcards stand in names of runs, not in paths", "通配符只能用于运行的名称，不能用于路径"
    ),
    "selector.quote_star": Text("quote a path that has a *", "含 * 的路径要加引号"),
    "selector.range_reversed": Text(
        "the range ends before it begins: {value} is less than {second}",
        "范围的终点在起点之前：{value} 小于 {second}",
    ),
    "selector.range_wide": Text("the range is wider than {n} names", "范围超过 {n} 个名称"),
    "selector.range_zeros": Text(
        "the ends of the range differ in leading zeros", "范围两端的前导零不一致"
    ),
    # --- name templates
    "template.wrong": Text(
        "template {selector}, column {column}: {what}",
        "名称模板 {selector}，第 {column} 列：{what}",
    ),
    "template.blank": Text(
        "the template is blank; write for example {{workspace}}_{{run}}_{{logdir}}",
        "名称模板为空；例如 {{workspace}}_{{run}}_{{logdir}}",
    ),
    "template.open_brace": Text(
        "a {{ is not closed; close it with }}, or write {{{{ for a brace",
        "{{ 未闭合；请用 }} 闭合，或用 {{{{ 表示花括号",
    ),
    "template.lone_brace": Text(
        "a }} closes nothing; write }}}} for a brace", "多余的 }}；请用 }}}} 表示花括号"
    ),
    "template.no_name": Text(
        "a field has no name; write for example {{run}} or {{hparams.lr}}",
        "字段缺少名称；例如 {{run}} 或 {{hparams.lr}}",
    ),
    "template.no_hparam": Text(
        "{{hparams.}} names no hyperparameter; write for example {{hparams.lr}}",
        "{{hparams.}} 之后缺少超参数；例如 {{hparams.lr}}",
    ),
    # --- files of runs
    "file.missing": Text("there is no file {where}", "没有文件 {where}"),
    "file.not_directory": Text(
        "{where}: a file is where a directory would have to be, or the reverse",
        "{where}：路径上的文件应为目录，或目录应为文件",
    ),
    "file.changed": Text("{where} has been written to by someone else", "{where} 已被他人写入"),
    "file.long_name": Text(
        "{where}: the name is too long for the hub's file system",
        "{where}：名称超出 hub 文件系统的长度限制",
    ),
    "file.disk_full": Text(
        "the disk that the hub keeps files on is full; make room on it",
        "hub 存放文件的磁盘已满；请清理空间",
    ),
}

# What failed in the test of a storage connection; the reason is the store's own.
_FAILED_CHECKS = {
    "check.reach": Text("{why}", "无法连通存储：{why}"),
    "check.credentials": Text("{why}", "凭据或设置不可用：{why}"),
    "check.bucket": Text("{why}", "存储桶不可用：{why}"),
    "check.region": Text("{why}", "区域不正确：{why}"),
    "check.clock": Text("{why}", "时钟偏差过大：{why}"),
    "check.list": Text("{why}", "无法列举：{why}"),
    "check.read": Text("{why}", "无法读取：{why}"),
    "check.write": Text("{why}", "无法写入：{why}"),
    "check.create": Text("{why}", "无法仅新建：{why}"),
    "check.parts": Text("{why}", "无法分段写入：{why}"),
    "check.delete": Text("{why}", "无法删除：{why}"),
}

# What `tbhub doctor` finds; `where` and `names` are the user's own.
_FINDINGS = {
    "doctor.well_one": Text(
        "Nothing wrong was found: 1 run looked at.", "未发现问题：检查了 1 个运行。"
    ),
    "doctor.well": Text(
        "Nothing wrong was found: {n} runs looked at.", "未发现问题：检查了 {n} 个运行。"
    ),
    "doctor.serves": Text(
        "Host {where} (process {value}) serves TensorBoard {second}.",
        "主机 {where}（进程 {value}）提供 TensorBoard {second}。",
    ),
    "doctor.reads": Text(
        "Host {value} reads {where}: {amount}.", "主机 {value} 读取 {where}：{amount}。"
    ),
    "doctor.cannot_read": Text(
        "Host {value} cannot read {source}.", "主机 {value} 无法读取 {source}。"
    ),
    "doctor.read_before": Text(
        "{source}; it shows {amount} that it has read before", "{source}；显示之前读取的{amount}"
    ),
    "doctor.credentials": Text("{source}, credentials: {by}", "{source}，凭据：{by}"),
    "doctor.user": Text("{source}, as {second}", "{source}，用户：{second}"),
    "doctor.sent": Text(
        "sent by the hub {value} from connection {second}", "由 hub 从连接 {second} 提供 {value}"
    ),
    "doctor.sent_environment": Text(
        "sent by the hub {value} from the hub's environment", "由 hub 从其环境变量提供 {value}"
    ),
    "doctor.no_credentials": Text(
        "none: the identity of the backend's machine, if it has one",
        "无；使用后端所在机器的身份（如果有）",
    ),
    "doctor.login": Text("the login in {value}", "{value} 中的登录凭据"),
    "doctor.own": Text("of the backend's environment {value}", "后端的环境变量 {value}"),
    "doctor.traffic": Text(
        "Stores have been asked {n} times for {places} bytes.",
        "已向存储请求 {n} 次，共 {places} 字节。",
    ),
    "doctor.traffic_allowed": Text(
        "Stores have been asked {n} times for {places} bytes. It may ask {runs} times a minute; "
        "where that is used up new points come later.",
        "已向存储请求 {n} 次，共 {places} 字节。每分钟最多请求 {runs} 次；"
        "用完后新数据点会延迟出现。",
    ),
    "doctor.host": Text("Host {value}: {why}", "主机 {value}：{why}"),
    "doctor.amount": Text("{runs} runs in {n} event files", "{n} 个事件文件中的 {runs} 个运行"),
    "doctor.amount_one_file": Text("{runs} runs in 1 event file", "1 个事件文件中的 {runs} 个运行"),
    "doctor.amount_one_run": Text("1 run in {n} event files", "{n} 个事件文件中的 1 个运行"),
    "doctor.amount_one": Text("1 run in 1 event file", "1 个事件文件中的 1 个运行"),
    "doctor.failed": Text("It has failed ({value}): {why}", "已失败（{value}）：{why}"),
    "doctor.ended": Text("It has ended for good ({value}): {why}", "已永久结束（{value}）：{why}"),
    "doctor.stopped": Text("It is stopped ({value}): {why}", "已停止（{value}）：{why}"),
    "doctor.not_up": Text("It is {value}: it is not up yet.", "状态为 {value}：尚未就绪。"),
    "doctor.no_answer": Text("Its host does not answer: {why}.", "其主机没有应答：{why}。"),
    "doctor.nothing": Text("Nothing matches {selector}.", "没有与 {selector} 匹配的内容。"),
    "doctor.has_more": Text(
        "It has {runs} runs, of which {n} were looked at.",
        "共有 {runs} 个运行，检查了其中 {n} 个。",
    ),
    "doctor.many": Text(
        "{runs} runs are more than a page of TensorBoard shows quickly.",
        "{runs} 个运行过多，TensorBoard 页面无法快速显示。",
    ),
    "doctor.loading": Text(
        "{n} of {runs} runs have been read so far.", "目前已读取 {runs} 个运行中的 {n} 个。"
    ),
    "doctor.missing": Text("{where} is not there.", "{where} 不存在。"),
    "doctor.not_mounted": Text(
        "{where} exists on the hub's machine but not where the board is served.",
        "{where} 在 hub 的机器上存在，但在提供看板的机器上不存在。",
    ),
    "doctor.runs_deleted": Text(
        "All runs that it showed were deleted or taken out.", "其显示的运行均已删除或移出。"
    ),
    "doctor.unreadable": Text("{where} cannot be read: {why}.", "{where} 无法读取：{why}。"),
    "doctor.notice": Text("{where} cannot be read: {why}", "{where} 无法读取：{why}"),
    "doctor.unreadable_with": Text(
        "{where} cannot be read: {why}. Credentials: {by}.", "{where} 无法读取：{why}。凭据：{by}。"
    ),
    "doctor.no_files": Text("{where} has no event files.", "{where} 没有事件文件。"),
    "doctor.no_files_itself": Text(
        "{where} has no event files itself; what lies below it is shown.",
        "{where} 本身没有事件文件；显示其下的内容。",
    ),
    "doctor.network": Text(
        "{where} is on a network file system, where changes are found by looking every few "
        "seconds.",
        "{where} 位于网络文件系统，每隔几秒检查一次变化。",
    ),
    "doctor.silent": Text(
        "{where} is said to be running, and nothing has reached its files for minutes.",
        "{where} 标记为运行中，但文件已有数分钟没有写入。",
    ),
    "doctor.unwritten": Text(
        "{where} has files in which nothing is logged yet.", "{where} 的文件中尚无任何记录。"
    ),
    "doctor.rewinds": Text("{where} has steps that go back.", "{where} 的步数有回退。"),
    "doctor.future": Text(
        "{where} has events from the future, the last of {value} UTC.",
        "{where} 有来自未来的事件，最后一个在 {value} UTC。",
    ),
    "doctor.problem": Text("{where} has a problem: {why}.", "{where} 有问题：{why}。"),
    "doctor.is_gone": Text("it is gone", "主机已不存在"),
    # --- what to do
    "advice.bucket": Text(
        "Check the name of the bucket, or create it.", "请检查存储桶的名称，或创建它。"
    ),
    "advice.right": Text(
        "The user that the board is served as needs the right to read it.",
        "提供看板服务的用户需要读取权限。",
    ),
    "advice.storage_test": Text(
        "`tbhub storage test {value}` tells more; `tbhub storage add NAME {where}` gives the hub "
        "credentials for it.",
        "用 `tbhub storage test {value}` 查看详情；"
        "用 `tbhub storage add NAME {where}` 为 hub 提供凭据。",
    ),
    "advice.storage_used": Text(
        "`tbhub storage test {value} --for boards` tests the connection that is used; `tbhub "
        "storage add NAME {where}` gives the hub other credentials for it.",
        "用 `tbhub storage test {value} --for boards` 测试所用的连接；"
        "用 `tbhub storage add NAME {where}` 为 hub 提供其他凭据。",
    ),
    "advice.wait_host": Text(
        "Wait half a minute: the hub replaces it, and its boards restart by themselves.",
        "请等待半分钟：hub 会替换主机，其看板会自动重新启动。",
    ),
    "advice.mount": Text(
        "Mount it for hosts of the launcher {value}, see docs/launchers.md.",
        "请为启动器 {value} 的主机挂载，参见 docs/launchers.md。",
    ),
    "advice.add_others": Text(
        "Add others: tbhub add {value} RUNS. See tbhub logs {second}.",
        "请添加其他运行：`tbhub add {value} RUNS`。参见 `tbhub logs {second}`。",
    ),
    "advice.restart": Text(
        "Start it again: tbhub restart {value}. See tbhub logs {second}.",
        "请重新启动：`tbhub restart {value}`。参见 `tbhub logs {second}`。",
    ),
    "advice.another": Text(
        "Make another one with the same runs: tbhub start.", "请用相同的运行新建：`tbhub start`。"
    ),
    "advice.open": Text("Open its link.", "请打开其链接。"),
    "advice.wait": Text("Wait a moment.", "请稍候。"),
    "advice.look": Text(
        "Look with tbhub runs. Runs that match later are shown as they come.",
        "请用 `tbhub runs` 查看。之后匹配的运行出现时即会显示。",
    ),
    "advice.fewer": Text(
        "Choose fewer, for example with where and limit.", "请减少运行，例如使用 where 和 limit。"
    ),
    "advice.loading": Text(
        "Wait: what has been read is shown already.", "请等待：已读取的内容已经显示。"
    ),
    "advice.damaged": Text(
        "tbhub check tells where; tbhub repair writes the good ones anew.",
        "`tbhub check` 指出位置；`tbhub repair` 重新写出完好的记录。",
    ),
    "advice.moved": Text(
        "Was the directory moved or deleted, or is its disk not mounted?",
        "目录是否被移动或删除，或磁盘未挂载？",
    ),
    "advice.rights": Text(
        "The hub runs as another user than who logs: give it the right to read.",
        "hub 的运行用户与写日志的用户不同：请授予读取权限。",
    ),
    "advice.not_begun": Text(
        "Training has not begun, or logs to another directory.", "训练尚未开始，或写入了其他目录。"
    ),
    "advice.flush": Text(
        "The writer keeps events in memory: call flush(), or lower flush_secs. "
        "Or the process is gone.",
        "writer 将事件保留在内存中：请调用 flush() 或减小 flush_secs。也可能进程已结束。",
    ),
    "advice.not_flushed": Text(
        "The writer has not flushed yet: call flush(), or lower flush_secs.",
        "writer 尚未写出：请调用 flush() 或减小 flush_secs。",
    ),
    "advice.restarted": Text(
        "A restart logged earlier steps again: lines go back, or are drawn twice.",
        "重启后再次记录了较早的步数：曲线会回退或重复绘制。",
    ),
    "advice.clock": Text(
        "The clock of the machine that logs is ahead, or the hub's is behind.",
        "写日志的机器时钟偏快，或 hub 的时钟偏慢。",
    ),
    "advice.path": Text(
        "It is shown as soon as it is. Is the path right?", "出现后会立即显示。路径是否正确？"
    ),
    "advice.more_requests": Text(
        "Make one with more: tbhub start --requests-per-minute.",
        "请新建请求数更多的看板：`tbhub start --requests-per-minute`。",
    ),
}

TEXTS: Mapping[str, Text] = {
    **_PROBLEMS,
    **_PAGES,
    **_RECOGNIZED,
    **_RECOGNIZED_PROBLEMS,
    **_FAILED_CHECKS,
    **_FINDINGS,
}
