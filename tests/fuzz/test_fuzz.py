"""Nothing that is read, however odd, ends in anything but a sentence, and none takes long."""

import subprocess
import sys
from pathlib import Path

FUZZING = Path(__file__).parent / "fuzzing.py"
COUNT = 2_000


def test_changed_examples_and_all_that_was_ever_found_are_read_or_refused(tmp_path: Path) -> None:
    """In a process of its own, without the checks of shapes that tests add: it is timed."""
    command = [sys.executable, str(FUZZING), str(COUNT), "--findings", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"{COUNT:,} inputs, 0 findings" in done.stdout
