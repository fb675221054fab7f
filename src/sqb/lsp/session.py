"""One project that an editor has open: its texts, its newest snapshot, and when a new one is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from sqb.lsp.snapshot import ProjectReader, Snapshot

T = TypeVar("T")

# How long nothing must be typed before the project is compiled again.
QUIET_SECONDS = 0.2


class ProjectSession:
    """Keeps a snapshot of a project up to date while people type; one is made at a time, beside the answers."""

    def __init__(self, root: Path, publish: Callable[[Snapshot], Awaitable[None]]) -> None:
        self.root = root
        self.texts: dict[str, str] = {}
        self.reader = ProjectReader(root)
        self._publish = publish
        self._snapshot = Snapshot(root)
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._is_new = True

    @property
    def snapshot(self) -> Snapshot:
        """What is known now, with the texts as they are typed."""
        return self._snapshot.with_texts(dict(self.texts))

    def put_text(self, path: str, text: str | None) -> None:
        """Take over what the editor holds for a file; None when it is closed."""
        if text is None:
            self.texts.pop(path, None)
        else:
            self.texts[path] = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self.schedule()

    def schedule(self) -> None:
        """Make a new snapshot when it has been quiet for a moment."""
        self._is_new = True
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self.wait_and_read())

    async def settle(self) -> Snapshot:
        """The snapshot of what is typed now."""
        if self._is_new:
            await self._read()
        return self.snapshot

    async def run(self, work: Callable[[], T]) -> T:
        """Do something with the reader, while no snapshot is made."""
        async with self._lock:
            return await asyncio.to_thread(work)

    async def wait_and_read(self) -> None:
        """Make a new snapshot after a moment, unless something is typed before."""
        await asyncio.sleep(QUIET_SECONDS)
        # From here on it is finished, whatever is typed meanwhile: that comes after it.
        self._task = None
        await self._read()

    async def _read(self) -> None:
        async with self._lock:
            if not self._is_new:
                return
            self._is_new = False
            texts = dict(self.texts)
            self._snapshot = await asyncio.to_thread(self.reader.read, texts)
        await self._publish(self._snapshot)
