# SPDX-License-Identifier: MIT
"""Prints where this python3 looks for packages below a prefix, or would by custom."""

import sys

prefix = sys.argv[1].rstrip("/")
found = [p for p in sys.path if p.startswith(f"{prefix}/lib/") and p.endswith("-packages")]
custom = f"{prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
print(found[0] if found else custom)
