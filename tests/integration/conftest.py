from __future__ import annotations

import os
from pathlib import Path

import pytest

from apiserver import NoGoError, build, cache_folder


@pytest.fixture(scope="session")
def api_server() -> Path:
    """The program that says what the API server would say."""
    try:
        return build(cache_folder(os.environ))
    except NoGoError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
