# SPDX-License-Identifier: MIT
# Needs: mypy
# Goal:   the package's types hold.
# Method: mypy, as for the oldest Python that it is for.
import os
import subprocess
import sys
import unittest

from nodes import SOURCE


class Types(unittest.TestCase):
    def test_types(self):
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        # Which of its errors have to be ignored differs from one mypy to the next.
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--no-warn-unused-ignores", "--python-version", "3.10", "--cache-dir", "/dev/null", "--config-file", "pyproject.toml", "-p", "fmove"],
            cwd=f"{SOURCE}/client/python",
            env={**environment, "MYPYPATH": "."},
            stdout=subprocess.PIPE,
        )
        self.assertEqual(done.returncode, 0, done.stdout.decode())


if __name__ == "__main__":
    unittest.main()
