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
from typing import Any, Literal, Self, get_args

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
    for code, pattern in _patterns():
        found = pattern.fullmatch(written)
        if found is not None:
            return Message(code, {name: recognize(v) for name, v in found.groupdict().items()})
    return written


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Return a pattern for each text that is recognized, those with the most words first."""
    made = []
    for code, each in _RECOGNIZED.items():
        parts = re.split(r"\{(\w+)\}", each.en)
        pattern = "".join(
            f"(?P<{part}>{_NUMBER if part in _NUMBERS else _ANY})"
            if number % 2
            else re.escape(part)
            for number, part in enumerate(parts)
        )
        made.append((sum(map(len, parts[::2])), code, re.compile(pattern, re.DOTALL)))
    return [(code, pattern) for _, code, pattern in sorted(made, key=lambda each: -each[0])]


_NUMBERS = frozenset({"n", "runs", "places", "now", "before"})  # values that are numbers
_NUMBER, _ANY = r"[\d,]+", ".+?"

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
    "page.board_silent": Text(
        "The process that serves it does not answer; this page tries again.",
        "为其提供服务的进程没有响应；此页面将自动重试。",
    ),
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
    "reason.START_FAILED": Text("It could not be started.", "无法启动。"),
}

_RECOGNIZED = {
    # --- the log of a board, and why it ended
    "log.again": Text("starting again", "重新启动"),
    "log.placed": Text("was placed on host {host}", "已分配到主机 {host}"),
    "log.requeued": Text("{why}; another host will be chosen", "{why}；将选择另一台主机"),
    "log.running": Text("is running", "正在运行"),
    "log.waiting": Text("is up and waits for the first data", "已就绪，等待首批数据"),
    "log.data": Text("the first data is there; is running", "首批数据已到；正在运行"),
    "log.stopping": Text("is stopping", "正在停止"),
    "log.stopped": Text("stopped: {why}", "已停止：{why}"),
    "log.terminated": Text("terminated: {why}", "已结束：{why}"),
    "log.failed": Text("failed: {why}", "失败：{why}"),
    "log.start_failed": Text("failed to start: {why}", "启动失败：{why}"),
    "log.unchanged": Text("cannot be changed: {why}", "无法更改：{why}"),
    "log.queued": Text("{what}; waiting for a host", "{what}；等待主机"),
    "log.added": Text("{what} added", "已添加 {what}"),
    "log.removed": Text("{what} taken out", "已移除 {what}"),
    "log.shows": Text(
        "now shows {now} runs, before {before}", "现显示 {now} 个运行，此前 {before} 个"
    ),
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
    "log.with_exit_code": Text("with exit code {code}", "退出码 {code}"),
    "log.by_signal": Text("by signal {signal}", "信号 {signal}"),
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
    "storage.may_delete": Text("may delete", "可以删除"),
    "storage.left": Text("{why}; {name} is left there", "{why}；{name} 留在该处"),
    "storage.not_tried": Text("not tried, because of the above", "因上述问题未测试"),
    "storage.not_known": Text("not known", "未知"),
}

# What failed in the test of a storage connection; the reason is the store's own.
_FAILED_CHECKS = {
    "check.reach": Text("{why}", "无法连通存储：{why}"),
    "check.credentials": Text("{why}", "凭据未被接受：{why}"),
    "check.bucket": Text("{why}", "存储桶不可用：{why}"),
    "check.region": Text("{why}", "区域不正确：{why}"),
    "check.clock": Text("{why}", "时钟偏差过大：{why}"),
    "check.list": Text("{why}", "无法列举：{why}"),
    "check.read": Text("{why}", "无法读取：{why}"),
    "check.write": Text("{why}", "无法写入：{why}"),
    "check.delete": Text("{why}", "无法删除：{why}"),
}

TEXTS: Mapping[str, Text] = {**_PROBLEMS, **_PAGES, **_RECOGNIZED, **_FAILED_CHECKS}
