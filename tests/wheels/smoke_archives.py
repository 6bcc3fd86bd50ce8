"""What the built wheels and sdists in SAGA_DIST carry; run by the session `wheels`."""

import os
import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

NAMES = ["saga_connectors", "saga_core", "saga_crewai", "saga_langgraph", "saga_openai"]
DIST = Path(os.environ["SAGA_DIST"])
LICENSE = Path(__file__).parents[2].joinpath("LICENSE").read_bytes()


def archive(name: str, ending: str) -> Path:
    (found,) = DIST.glob(f"{name}-*{ending}")
    return found


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return BytesParser().parsebytes(wheel.read(name))


def test_there_is_one_wheel_and_one_sdist_of_each_package() -> None:
    assert sorted(path.name.split("-")[0] for path in DIST.glob("*.whl")) == NAMES
    assert sorted(path.name.split("-")[0] for path in DIST.glob("*.tar.gz")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_carries_its_licence_verbatim_and_declares_it(name: str) -> None:
    with zipfile.ZipFile(archive(name, ".whl")) as wheel:
        (licence,) = (entry for entry in wheel.namelist() if entry.endswith(".dist-info/licenses/LICENSE"))
        assert wheel.read(licence) == LICENSE
        assert metadata(wheel)["License-Expression"] == "AGPL-3.0-or-later"
        assert metadata(wheel).get_all("License-File") == ["LICENSE"]


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_is_typed_and_holds_its_package_and_nothing_else(name: str) -> None:
    with zipfile.ZipFile(archive(name, ".whl")) as wheel:
        entries = [entry for entry in wheel.namelist() if ".dist-info/" not in entry]
        assert f"{name}/py.typed" in entries
        assert {entry.split("/")[0] for entry in entries} == {name}
        assert not [entry for entry in entries if "__pycache__" in entry or "/tests/" in entry]


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_shows_its_readme(name: str) -> None:
    with zipfile.ZipFile(archive(name, ".whl")) as wheel:
        assert str(metadata(wheel).get_payload()).startswith(f"# {name.replace('_', '-')}\n")


@pytest.mark.parametrize("name", NAMES)
def test_an_sdist_carries_its_licence_verbatim(name: str) -> None:
    path = archive(name, ".tar.gz")
    with tarfile.open(path) as sdist:
        member = sdist.extractfile(f"{path.name.removesuffix('.tar.gz')}/LICENSE")
        assert member is not None
        assert member.read() == LICENSE
