"""The items of one session while they are built: their order, the path, and the changes of one batch."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from ostler.history.items import (
    BaseItem,
    CallItem,
    Change,
    Changed,
    Closed,
    Item,
    Level,
    NoticeCode,
    NoticeItem,
    Opened,
    PathMoved,
)
from ostler.schema.facts import Fact


class OpenItem(Protocol):
    """An item that still grows: a mutable record that makes the item on demand."""

    key: str

    def item(self) -> Item: ...


class ItemStore:
    """Keeps all items in the order in which they first appeared; or, without `keeps_all`, the open ones."""

    def __init__(self, *, keeps_all: bool) -> None:
        self.keeps_all = keeps_all
        self.changes: list[Change] = []
        self.leaf = 0
        self._items: dict[str, Item | OpenItem] = {}
        self._at: dict[int, dict[str, None]] = {}
        """The keys of the items by the facts they come from."""
        self._parents: dict[int, int] = {}
        self._path: set[int] = set()
        self._live = 0

    def base(self, fact: Fact | None, key: str = "") -> dict[str, Any]:
        """The common fields of an item that this fact makes, or a live event."""
        if fact is None:
            self._live += not key
            return {"key": key or f"live:{self._live}", "anchor": self.leaf}
        return {
            "key": key or f"fact:{fact.seq}",
            "seq": fact.seq,
            "anchor": self.leaf,
            "run": fact.run,
            "time_ms": fact.time_ms,
        }

    # --- items ----------------------------------------------------------------------------------------

    def get(self, key: str) -> Item | OpenItem | None:
        return self._items.get(key)

    def open(self, record: OpenItem) -> None:
        self._items[record.key] = record
        item = record.item()
        self._register(item)
        self.changes.append(Opened(item))

    def change_open(self, record: OpenItem) -> None:
        item = record.item()
        self._register(item)
        self.changes.append(Changed(item))

    def change(self, item: Item) -> None:
        """Replaces an item that was closed before."""
        if self.keeps_all:
            self._put(item)
        self.changes.append(Changed(item))

    def close(self, item: Item) -> None:
        if self.keeps_all:
            self._put(item)
        else:
            self._items.pop(item.key, None)
        self.changes.append(Closed(item))

    def drop(self, record: OpenItem) -> None:
        """Removes a streamed item that the message does not have."""
        if self._items.pop(record.key, None) is not None:
            self.changes.append(Closed(msgspec.structs.replace(record.item(), hidden=True)))

    def remove(self, key: str) -> None:
        self._items.pop(key, None)

    def _put(self, item: Item) -> None:
        self._items[item.key] = item
        self._register(item)

    def _register(self, item: Item) -> None:
        if not self.keeps_all:
            return
        self._at.setdefault(item.seq, {})[item.key] = None
        if isinstance(item, CallItem):
            self._at.setdefault(item.called_seq, {})[item.key] = None
            if item.result is not None:
                self._at.setdefault(item.result.seq, {})[item.key] = None

    def notice(
        self,
        code: NoticeCode,
        text: str,
        fact: Fact | None,
        level: Level = "info",
        details: dict[str, Any] | None = None,
        request: str = "",
    ) -> None:
        base = self.base(fact) | {"code": code, "level": level, "request": request}
        self.close(NoticeItem(**base, text=text, details=details))

    # --- reading --------------------------------------------------------------------------------------

    def items(self, *, all_branches: bool = False) -> list[Item]:
        every = map(as_item, self._items.values())
        return [item for item in every if all_branches or not item.anchor or item.anchor in self._path]

    def items_at(self, seq: int) -> list[Item]:
        """The items that a fact made or changed."""
        return [as_item(self._items[key]) for key in self._at.get(seq, ()) if key in self._items]

    def records(self) -> list[OpenItem]:
        """The open items."""
        return [record for record in self._items.values() if not isinstance(record, BaseItem)]

    # --- the path -------------------------------------------------------------------------------------

    def append_entry(self, seq: int, parent: int) -> None:
        """Makes a new entry of the tree the leaf."""
        is_move = parent != self.leaf and self.leaf != 0
        if self.keeps_all:
            self._parents[seq] = parent
        if parent == self.leaf:
            self._path.add(seq)
            self.leaf = seq
        else:
            self._find_path(seq)
        if is_move:
            self.changes.append(PathMoved(seq))
        if not self.keeps_all:
            self._path.clear()

    def move_leaf(self, leaf: int) -> None:
        self._find_path(leaf)
        self.changes.append(PathMoved(leaf))

    def _find_path(self, leaf: int) -> None:
        self.leaf, self._path = leaf, set()
        while leaf and leaf not in self._path:
            self._path.add(leaf)
            leaf = self._parents.get(leaf, 0)


def as_item(record: Item | OpenItem) -> Item:
    return record if isinstance(record, BaseItem) else record.item()
