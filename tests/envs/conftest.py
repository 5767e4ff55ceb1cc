"""Rooms of the tests are cached in a folder of their own."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def room_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRESHPER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
