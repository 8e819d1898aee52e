# SPDX-License-Identifier: MIT
"""Prints, from a prefix on, where this python3 looks for packages below it, or would by custom."""

import sys

prefix = sys.argv[1].rstrip("/")
found = [p for p in sys.path if p.startswith(f"{prefix}/lib/") and p.endswith("-packages")]
custom = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
print(found[0][len(prefix) + 1 :] if found else custom)
