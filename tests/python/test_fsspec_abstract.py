# SPDX-License-Identifier: MIT
# Needs: pytest fsspec.tests.abstract
# Goal:   fsspec's own tests of a file system pass, where the installed version has them.
# Method: run them.
import os
import subprocess
import sys
import unittest


class Abstract(unittest.TestCase):
    def test_all(self):
        tests = os.path.join(os.path.dirname(__file__), "fsspec_abstract.py")
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
        done = subprocess.run(pytest, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout.decode()[-6000:])


if __name__ == "__main__":
    unittest.main()
