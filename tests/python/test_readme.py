# SPDX-License-Identifier: MIT
# Calls libfmove.
# Goal:   what client/python/README.md and client/pages show works as it stands, and the former names every file of the package.
# Method: run the blocks of each one after the other, in a directory with a file train.log and a directory run7.
import glob
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
    def run_blocks(self, path):
        with open(path) as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        before = os.getcwd()
        os.chdir(self.here)
        try:
            known = {"__name__": "readme"}
            for block in blocks:
                needs = re.findall(r"^(?:import|from) ((?:torch|fsspec|transformers|fmove\.torch|fmove\.transformers)[\w.]*)", block, re.M)
                try:
                    for module in needs:
                        __import__(module)
                except ImportError:
                    continue
                exec(compile(block, path, "exec"), known)
        finally:
            os.chdir(before)
        return len(blocks)

    def test_blocks(self):
        self.local("train.log", b"step 1\n")
        os.mkdir(self.local("run7"))
        self.assertGreater(self.run_blocks(f"{SOURCE}/client/python/README.md"), 3)

    def test_pages(self):
        pages = glob.glob(f"{SOURCE}/client/pages/*.md")
        self.assertGreater(sum(self.run_blocks(page) for page in pages), 1)

    def test_files(self):
        with open(f"{SOURCE}/client/python/README.md") as file:
            text = file.read()
        for name in os.listdir(f"{SOURCE}/client/python/fmove"):
            if name.endswith(".py") and name != "__init__.py":
                self.assertIn(f"`{name[:-3]}`", text)


if __name__ == "__main__":
    unittest.main()
