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


_NUMBERS = frozenset({"n", "runs", "places"})  # values that are numbers
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
    "cause.out_of_memory": Text("ran out of memory", "内存不足"),
    "cause.preemption": Text("was preempted", "被抢占"),
    "cause.eviction": Text("was evicted", "被驱逐"),
    "cause.drain": Text("was drained", "被排空"),
    "cause.time_limit": Text("reached its time limit", "已到时限"),
    "cause.node_lost": Text("lost its machine", "失去所在机器"),
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
        "Waiting for the first data: nothing has been logged yet.", "等待首批数据：尚无任何记录。"
    ),
    "wait.path": Text(
        "Waiting for {path}, which does not exist where the board is served.",
        "等待 {path}：它在提供看板服务的机器上不存在。",
    ),
    "wait.paths": Text(
        "Waiting for {path} and {n} more, which does not exist where the board is served.",
        "等待 {path} 及另外 {n} 处：它们在提供看板服务的机器上不存在。",
    ),
    "wait.unreadable": Text(
        "{path} cannot be read: {why}. hint: the user that the board is served as needs the right"
        " to read it",
        "无法读取 {path}：{why}。提供看板服务的用户需要读取权限",
    ),
    "wait.unreadable_store": Text(
        "{path} cannot be read: {why}. hint: `tbhub storage test {tested}` tells more;"
        " `tbhub storage add NAME {added}` gives the hub credentials for it",
        "无法读取 {path}：{why}。`tbhub storage test {tested}` 可查看详情；"
        "`tbhub storage add 名称 {added}` 可为 hub 添加凭据",
    ),
    "wait.not_mounted": Text(
        "{path} exists on the hub's machine but not where the board is served. hint: mount it for"
        " hosts of the launcher {launcher}, see docs/launchers.md",
        "{path} 在 hub 的机器上存在，但在提供看板服务的机器上不存在。"
        "请为启动器 {launcher} 的主机挂载它，见 docs/launchers.md",
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
    "check.create": Text("{why}", "无法仅新建：{why}"),
    "check.parts": Text("{why}", "无法分段写入：{why}"),
    "check.delete": Text("{why}", "无法删除：{why}"),
}

TEXTS: Mapping[str, Text] = {**_PROBLEMS, **_PAGES, **_RECOGNIZED, **_FAILED_CHECKS}
