# SPDX-License-Identifier: MIT
"""fsspec's own tests of a file system, for test_fsspec_abstract.py."""

import fsspec
import fsspec.tests.abstract as abstract
import pytest

from fmove.filesystem import FmoveFileSystem

fsspec.register_implementation("fmove", FmoveFileSystem, clobber=True)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self):
        return fsspec.filesystem("fmove")

    @pytest.fixture
    def fs_path(self):
        return "n2/s/abstract"


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass
