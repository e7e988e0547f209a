"""Which build this is."""

import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True, slots=True)
class Build:
    """The package's version, and the revision that an image was built from where it was told."""

    version: str
    revision: str


def build() -> Build:
    """This build. The image's Dockerfile sets BUILD_REVISION."""
    try:
        number = version("modelwarden")
    except PackageNotFoundError:
        number = "0.0.0+source"
    return Build(number, os.environ.get("BUILD_REVISION", ""))
