#!/usr/bin/env python3
"""panels.py PAGE DASHBOARD RULES: each label by which the dashboard or a rule chooses, groups or names a line is one that the
metrics of that expression have on PAGE, as a daemon serves it. What PAGE has no line of (of volumes) is left to who serves it."""

import json
import re
import sys

NOT_OURS = {"instance", "job", "le", "quantile"}  # Prometheus adds them


def served(page):
    labels = {}
    for line in open(page):
        found = re.match(r"([a-z_]+)(?:\{(.*)\})? ", line)
        if found and line[0] != "#":
            labels.setdefault(found[1], set()).update(re.findall(r'(\w+)="', found[2] or ""))
    return labels


def asked(dashboard, rules):
    for panel in json.load(open(dashboard))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target.get("legendFormat", "")
    for line in open(rules):
        found = re.match(r"\s*expr: (.*)", line)
        if found:
            yield "a rule", found[1], ""


labels, looked, wrong = served(sys.argv[1]), 0, []
for title, expr, legend in asked(*sys.argv[2:]):
    metrics = [m for m in re.findall(r"\b(?:fmove|process)_[a-z_]+", expr) if m in labels]
    if not metrics:
        continue
    has = set().union(*(labels[m] for m in metrics)) | NOT_OURS
    used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expr) + re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)
    for group in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expr):
        used += re.findall(r"\w+", group)
    looked += len(used)
    wrong += [f"{title}: {label} is no label of {metrics[0]}" for label in used if label not in has]
print("\n".join(wrong))
sys.exit(bool(wrong) or looked < 20)
