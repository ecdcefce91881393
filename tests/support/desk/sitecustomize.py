"""Takes from this Python what Windows does not have.

The interpreter imports this module at its start if this folder is on ``PYTHONPATH``. It runs on
Linux: so it shows that nothing of this is needed, not that Windows does everything else alike.
"""

from __future__ import annotations

import errno
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType
from typing import Any

_MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
_ATTRIBUTES: dict[ModuleType, str] = {
    os: "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC chown fchmod fchown fork "
    "forkpty geteuid getgid getpgid getsid getuid killpg mkfifo openpty pidfd_open pread "
    "pwrite set_blocking setpgid setsid statvfs sysconf",
    select: "EPOLLIN POLLHUP POLLIN POLLRDHUP epoll poll",
    signal: "SIGALRM SIGHUP SIGKILL SIGUSR1 SIGUSR2 alarm pidfd_send_signal pthread_kill "
    "pthread_sigmask setitimer sigwait",
    socket: "AF_UNIX MSG_DONTWAIT TCP_USER_TIMEOUT",
    time: "CLOCK_BOOTTIME CLOCK_MONOTONIC clock_gettime clock_gettime_ns",
}
_FOLDERS = ("/proc/", "/sys/")
_FORBIDDEN = frozenset('<>:"|?*\\')
"""No part of a path has these on Windows."""


def _refuse_paths(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("open", "os.listdir", "os.scandir", "os.stat", "os.mkdir"):
        return
    if not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    name = os.fsdecode(arguments[0])
    if f"{name}/".startswith(_FOLDERS):
        raise FileNotFoundError(errno.ENOENT, "taken away", name)
    created = event == "os.mkdir" or (event == "open" and arguments[2] & os.O_CREAT)
    if created and _FORBIDDEN & set(name):
        raise OSError(errno.EINVAL, "no such name on Windows", name)


def _stat(path: Any, *, real: Any = os.stat, **options: Any) -> os.stat_result:
    _refuse_paths("os.stat", (path,))
    return real(path, **options)  # type: ignore[no-any-return]


def _rename(source: Any, target: Any) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "Windows renames to new names only", target)
    os.replace(source, target)  # noqa: PTH105


def _windows_locks() -> ModuleType:
    """Return a ``msvcrt`` whose locks are those of the kernel that runs this."""
    import fcntl

    def locking(file: int, mode: int, _size: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "locked") from error

    module: Any = ModuleType("msvcrt")
    module.LK_UNLCK, module.LK_NBLCK, module.locking = 0, 2, locking
    return module  # type: ignore[no-any-return]


subprocess.Popen.kill = lambda self: self.send_signal(9)  # type: ignore[method-assign]
sys.modules["msvcrt"] = _windows_locks()  # after subprocess, which would take this for Windows
for _name in _MODULES:
    sys.modules[_name] = None  # type: ignore[assignment]
for _module, _names in _ATTRIBUTES.items():
    for _name in _names.split():
        delattr(_module, _name)
os.stat = _stat  # type: ignore[assignment]
os.rename = _rename  # type: ignore[assignment]
platform.system = lambda: "Windows"
sys.addaudithook(_refuse_paths)
