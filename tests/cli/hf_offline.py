#!/usr/bin/env python3
# Goal:   the real huggingface_hub finds what fmove staged, offline.
# Method: hf_offline.py HF_HOME "TYPE ORG/NAME REVISION COMMIT FILE"...: it is asked for the snapshot, for one file, and for a scan.
#         77: it is not installed.
import os
import sys

home = sys.argv[1]
os.environ["HF_HOME"] = home
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.pop("HF_HUB_CACHE", None)
os.environ.pop("HUGGINGFACE_HUB_CACHE", None)
try:
    import huggingface_hub
    from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
except ImportError as why:
    print("huggingface_hub cannot be imported:", why)
    sys.exit(77)

print("huggingface_hub", huggingface_hub.__version__)
wanted = set()
for text in sys.argv[2:]:
    kind, name, revision, commit, file = text.split(" ")
    wanted.add((kind, name, commit))
    for asked in (revision, commit):
        path = snapshot_download(name, repo_type=kind, revision=asked, local_files_only=True)
        assert os.path.basename(path) == commit, path
        found = hf_hub_download(name, file, repo_type=kind, revision=asked)
        assert found == os.path.join(path, file), found
        with open(found, "rb") as f:
            assert len(f.read()) == os.path.getsize(found) > 0, found
found = scan_cache_dir(os.path.join(home, "hub"))
assert not found.warnings, found.warnings
there = {(r.repo_type, r.repo_id, v.commit_hash) for r in found.repos for v in r.revisions}
assert wanted <= there, (wanted, there)
print("found", len(wanted), "of", len(there), "revisions")
