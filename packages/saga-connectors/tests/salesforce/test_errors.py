"""What a user sees when Salesforce cannot be used."""

import pickle
import subprocess
import sys

import pytest

from saga_connectors.salesforce import errors
from saga_core import SagaError

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, SagaError)]


@pytest.mark.parametrize("kind", [each for each in CLASSES if each is not SagaError])
def test_an_error_survives_another_process_with_what_it_says(kind: type[SagaError]) -> None:
    error = kind("what happened.", world="what is so now", next="what to do")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 -- its own bytes
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert kind.code.startswith("SG62")


def test_a_missing_library_is_named_with_what_to_install() -> None:
    program = "import sys; sys.modules['simple_salesforce'] = None; import saga_connectors.salesforce"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'pip install "saga-connectors[salesforce]"' in ended.stderr
    assert "MissingExtra" in ended.stderr
