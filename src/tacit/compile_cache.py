"""Programs that Numba and JAX compiled are kept between processes, where there is a place for them.

Numba keeps them beside their source, or in the user's cache folder. JAX keeps nothing unless it is
told where: in a folder of the user's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SHORTEST = 0.1  # seconds of compilation that are worth a file


def cached(*signatures: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's `njit`; what it compiles is kept on disk where one of its places is writable."""
    import numba

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(*signatures, cache=True, **options)(function)
        except RuntimeError:  # neither the package nor the user's cache folder can be written to
            return numba.njit(*signatures, **options)(function)

    return compiled


def cache_folder() -> Path | None:
    """Return the folder, made for this user alone; None where there is no such place."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "tacit" / "jax"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
    except (OSError, RuntimeError):
        return None
    # What is in it is run: nobody else may have put it there.
    mine = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
    safe = not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if folder.is_absolute() and mine and safe else None


def keep_programs(jax: Any) -> None:
    """Let JAX keep what it compiles, unless the user has told it what to do."""
    told = "JAX_ENABLE_COMPILATION_CACHE" in os.environ
    if told or jax.config.jax_compilation_cache_dir is not None:
        return
    folder = cache_folder()
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _SHORTEST)
