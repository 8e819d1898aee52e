# SPDX-License-Identifier: MIT
"""What put_load.c does, by the package for Python: puts of FILE, one after the other.

    put_load.py SOCKET NODE STORE PATH COUNT FILE
"""

import os
import sys
import time

import fmove

socket, node, store, path, count, file = sys.argv[1:]
fm = fmove.connect(socket)
fd = os.open(file, os.O_RDONLY)
fm.put(fd, f"{node}:{store}/{path}.0", force=True)
start = time.perf_counter()
for i in range(int(count)):
    fm.put(fd, f"{node}:{store}/{path}.{i}", force=True)
seconds = time.perf_counter() - start
print(f"{seconds:.6f} {int(count) / seconds:.1f}")
