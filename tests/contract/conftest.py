"""Contract tests share the comparison with the engines' own answers with the live test, which lives with the engines' tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engines"))
