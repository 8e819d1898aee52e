# SPDX-License-Identifier: MIT
# Calls libfmove.
# Goal:   what client/python/README.md shows works as it stands, and it names every file of the package.
# Method: run its blocks one after the other, in a directory with a file train.log and a directory run7.
import os
import re
import unittest

try:
    import fsspec
    from fmove.filesystem import FmoveFileSystem

    fsspec.register_implementation("fmove", FmoveFileSystem, clobber=True)  # as its installation does
except ImportError:
    pass

try:
    import old_torch  # noqa: F401  so that a torch of Debian 12 can be used
except ImportError:
    pass

from nodes import SOURCE, Case


class Readme(Case):
    def test_blocks(self):
        with open(f"{SOURCE}/client/python/README.md") as file:
            text = file.read()
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        self.assertGreater(len(blocks), 3)
        self.local("train.log", b"step 1\n")
        os.mkdir(self.local("run7"))
        before = os.getcwd()
        os.chdir(self.here)
        try:
            known = {"__name__": "readme"}
            for block in blocks:
                needs = re.findall(r"^(?:import|from) ((?:torch|fsspec|transformers)[\w.]*)", block, re.M)
                try:
                    for module in needs:
                        __import__(module)
                except ImportError:
                    continue
                exec(compile(block, "README.md", "exec"), known)
        finally:
            os.chdir(before)

    def test_files(self):
        with open(f"{SOURCE}/client/python/README.md") as file:
            text = file.read()
        for name in os.listdir(f"{SOURCE}/client/python/fmove"):
            if name.endswith(".py") and name != "__init__.py":
                self.assertIn(f"`{name[:-3]}`", text)


if __name__ == "__main__":
    unittest.main()
