"""The token that is sent with every request. Nothing here shows it."""

from __future__ import annotations

import os
import re
from typing import Optional

from .errors import BadSettings

_PLAIN = re.compile(r"[!-~]+")


class Token:
    """A token: given, or in a file, which is read again when servers do not accept it any more."""

    def __init__(self, text: Optional[str], path: Optional[str] = None) -> None:
        self._path = path
        self._text = _read(path) if path is not None else _checked(text)

    @classmethod
    def find(cls, token: Optional[str], token_file: Optional[str]) -> Token:
        """The token that is given, or else the one that the environment names, or none."""
        if token is not None and token_file is not None:
            raise BadSettings("give `token` or `token_file`, not both")
        if token is None and token_file is None:
            token = os.environ.get("KEYMILL_TOKEN") or None
            token_file = None if token else os.environ.get("KEYMILL_TOKEN_FILE") or None
        return cls(token, token_file)

    def __repr__(self) -> str:
        return "Token(…)" if self._text else "Token(None)"

    def header(self) -> str:
        """The line of a request that carries it; empty without one."""
        return f"Authorization: Bearer {self._text}\r\n" if self._text else ""

    def reload(self) -> bool:
        """Reads the file again. Returns whether there is another token now."""
        if self._path is None:
            return False
        try:
            found = _read(self._path)
        except BadSettings:
            # Perhaps it is being replaced: the server's refusal says more.
            return False
        if found == self._text:
            return False
        self._text = found
        return True


def _read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _checked(file.read(65536))
    except OSError as error:
        raise BadSettings(f"the token file {path!r} cannot be read: {error.strerror}") from None


def _checked(text: Optional[str]) -> Optional[str]:
    if text is None:
        return None
    text = text.strip()
    if not _PLAIN.fullmatch(text):
        raise BadSettings("the token is empty, or has characters that no token has; it looks like km_…")
    return text
