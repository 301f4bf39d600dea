"""The exchanges of make local, each with what must be true of it. Usage: exchanges.py BIN ADDRESS WORK"""
import json
import os
import pathlib
import subprocess
import sys
import time

bin_, address, work = sys.argv[1], sys.argv[2].rstrip("/"), pathlib.Path(sys.argv[3])
home = work / "home"
home.mkdir()
env = {"PATH": os.environ["PATH"], "HOME": str(home), "LLAMA_BASE_URL": address + "/v1", "TMPDIR": str(work)}
failed = 0
began = time.monotonic()


def run(*words, stdin=""):
    done = subprocess.run([f"{bin_}/{words[0]}", *words[1:]], input=stdin, capture_output=True, text=True, env=env, cwd=work)
    return done.returncode, done.stdout, done.stderr


def check(name, is_true, what):
    global failed
    failed += not is_true
    at = f"{time.monotonic() - began:5.1f} s"
    print(f"{at}  {'ok  ' if is_true else 'FAIL'}  {name}" + ("" if is_true else f": {what}"), flush=True)


def document(*words, stdin=""):
    code, out, err = run(*words, "--json", stdin=stdin)
    return code, json.loads(out), err


ASK = ["--provider", "llama.cpp"]
(work / "q.txt").write_text("Write one short sentence about the sea.")
code, first, err = document("nagent-llm-text", *ASK, "q.txt")
# A model of this size may not find its end: then the server cuts it off, which is exit 5.
check("text", code in (0, 5) and first["response"].strip(), err)
check("counts", not first["estimated"] and first["input_tokens"] > 5 and first["output_tokens"] > 0, first)
code, second, err = document("nagent-llm-text", *ASK, "q.txt")
check("cache", second["cache_read_tokens"] > 0, second)

(work / "long.txt").write_text("word " * 20_000)
code, out, err = run("nagent-llm-text", *ASK, "long.txt", "--patience", "1")
check("too long", code == 3 and ("context" in err or "exceed" in err), f"{code} {err}")

schema = {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}, "required": ["colour"],
          "additionalProperties": False}
(work / "schema.json").write_text(json.dumps(schema))
code, reply, err = document("nagent-llm-text", *ASK, "--schema", "schema.json", "-", stdin="What colour is the sea?")
check("schema", code == 0 and reply["data"]["colour"] in ("red", "blue"), f"{code} {reply} {err}")

code, out, err = run("nagent-decide", *ASK, "Is it about the sea?", "yes", "no", stdin="Waves and salt.")
# It may repeat its decision until it is cut off: then nothing is decided, which is exit 4.
is_decided = code == 0 and out.strip() in ("yes", "no")
check("decide", is_decided or code == 4 and "not decided" in err, f"{code} {out} {err}")

# The answer as it streams: without a grammar the model answers in no tags, so the loop is held to one tag.
words = ["-n", "--grammar", "--tags", "response", "--max-turns", "1", "--max-seconds", "120", "--lines"]
code, out, err = run("nagent", *ASK, *words, "Say hello.")
pieces = [event for event in map(json.loads, out.splitlines()) if event.get("event") == "text"]
check("streaming", len(pieces) > 1, f"{code} {out} {err}")

words = ["-n", "--grammar", "--max-turns", "1", "--max-seconds", "120", "--record", "loop.jsonl", "--tags", "read,list"]
code, loop, err = document("nagent", *ASK, *words, "Say hello.")
recorded = [json.loads(line)["reply"] for line in (work / "loop.jsonl").read_text().splitlines()]
check("the loop under the grammar", recorded and recorded[0].lstrip().startswith("<nagent-"), f"{code} {recorded} {err}")

code, out, err = run("nagent", *ASK, "--list-models")
check("list of models", code == 0 and "tokens" in out, out + err)
code, out, err = run("nagent-llm-text", *ASK, "--header", "x-test: 1", "q.txt")
check("headers", code in (0, 5) and out.strip(), err)
print(f"{failed} failed" if failed else "all exchanges are as they should be")
sys.exit(failed > 0)
