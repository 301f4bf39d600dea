"""Holds what `make scale` has printed against what its model was asked: nothing lost, nothing done twice.

check.py COUNT LOG MOST OUT...: COUNT inputs, the model's log, how many may have been asked twice, the results.
"""
import collections
import json
import sys

count, log, most = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
results = [json.loads(line) for path in sys.argv[4:] for line in open(path)]
results.sort(key=lambda result: result["index"])
assert [result["index"] for result in results] == list(range(count)), "not each input has one result"
for result in results:
    assert result["exit_code"] == 0 and result["response"] == f"of {result['index']}", result
asked = collections.Counter(line.split()[1] for line in open(log) if line.startswith("asked"))
assert len(asked) == count, f"{len(asked)} inputs were asked about"
twice = sorted((number for number, times in asked.items() if times > 1), key=int)
assert max(asked.values()) <= 2 and len(twice) <= most, f"asked twice: {twice}"
lost = f"; {len(twice)} were under way when the node was killed, and asked about again" if most else ""
print(f"{count} inputs, {count} results{lost}")
