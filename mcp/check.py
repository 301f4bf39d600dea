"""Holds nagent-mcp against real servers: `check.py BIN SITE WORK BROWSER`. Prints a line for each check; exit 1 if one fails."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

binaries, site, work, browser = sys.argv[1:5]
root, tree = pathlib.Path(work, "root"), pathlib.Path(work, "tree")
root.mkdir(mode=0o700)
tree.mkdir()
environment = {**os.environ, "NAGENT_ROOT": str(root), "PATH": binaries + ":" + os.environ["PATH"], "TMPDIR": work}
failed = []


def mcp(*words):
    return subprocess.run(["nagent-mcp", *words], cwd=tree, env=environment, capture_output=True, text=True, timeout=120)


def check(what, run, code=0, out=(), err=()):
    is_good = run.returncode == code and all(part in run.stdout for part in out) and all(part in run.stderr for part in err)
    print("ok  " if is_good else "FAIL", what, flush=True)
    if not is_good:
        failed.append(what)
        print("    exit", run.returncode, "\n   ", run.stdout[-600:], "\n   ", run.stderr[-600:])


def files(run):
    return json.loads(run.stdout)["files"]


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
node, python = site + "/node_modules/.bin/", site + "/py/bin/"
servers = {
    "everything": {"command": node + "mcp-server-everything"},
    "files": {"command": node + "mcp-server-filesystem", "args": ["."]},
    "git": {"command": python + "mcp-server-git"},
    "http": {"type": "http", "url": "http://127.0.0.1:%d/mcp" % port},
}
if browser:
    arguments = ["--headless", "--isolated", "--no-sandbox", "--executable-path", browser]
    servers["web"] = {"command": node + "playwright-mcp", "args": arguments}
(root / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
subprocess.run("git init -q . && echo first > a.txt && git add . && git -c user.name=a -c user.email=a@b commit -qm 'First words'", shell=True, cwd=tree, check=True)
http = subprocess.Popen([python + "python", str(pathlib.Path(__file__).with_name("http_server.py")), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    for _ in range(100):
        if socket.socket().connect_ex(("127.0.0.1", port)) == 0:
            break
        time.sleep(0.1)
    check("all are listed", mcp("list"), out=[name + ": " for name in servers])

    def everything(*words):
        return mcp("call", "everything", *words)

    check("text", everything("echo", "message=hello"), out=["Echo: hello\n"])
    check("numbers", everything("get-sum", "a=2", "b=3.5"), out=["5.5"])
    check("a wrong type is not sent", everything("get-sum", "a=two", "b=3"), 2, err=["/a: \"two\" is not of type"])
    image = mcp("--json", "call", "everything", "get-tiny-image")
    check("a picture becomes a file", image, out=["image/png"])
    check("of its type", subprocess.run(["file", "-b", *files(image)], capture_output=True, text=True), out=["PNG image"])
    check("structured content", mcp("--json", "call", "everything", "get-structured-content", "location=Chicago"), out=['"temperature"'])
    check("links", everything("get-resource-links", "count=3"), out=["[link demo://"])
    check("an embedded text", everything("get-resource-reference", "resourceType=Text", "resourceId=1"), out=["[resource demo://"])
    check("an embedded blob", everything("get-resource-reference", "resourceType=Blob", "resourceId=2"), out=["[text/plain, ", ".plain]"])
    check("annotations", everything("get-annotated-message", "messageType=error", "includeImage=true"), out=["Error: ", ".png]"])
    check("progress", everything("trigger-long-running-operation", "duration=1", "steps=4"), out=["completed"], err=["progress 4/4"])
    check("a time limit", everything("trigger-long-running-operation", "duration=30", "--timeout", "1"), 1, err=["did not answer within 1 s"])
    began = time.time()
    slow = subprocess.Popen(["nagent-mcp", "call", "everything", "trigger-long-running-operation", "duration=30"], cwd=tree, env=environment, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    slow.send_signal(signal.SIGINT)
    check("cancel", subprocess.CompletedProcess([], slow.wait(), "", slow.stderr.read() + "%.0f" % (time.time() - began)), 130, err=["SIGINT"])

    check("a file is read", mcp("call", "files", "read_text_file", "path=a.txt"), out=["first"])
    check("a file is written", mcp("call", "files", "write_file", "path=b.txt", "content=x=1\n"), out=["b.txt"])
    check("edits in JSON", mcp("call", "files", "edit_file", "path=b.txt", 'edits=[{"oldText": "x=1", "newText": "x=2"}]'), out=["+x=2"])
    check("several names", mcp("call", "files", "read_multiple_files", 'paths=["a.txt", "b.txt"]'), out=["first", "x=2"])
    check("outside is refused", mcp("call", "files", "read_text_file", "path=/etc/passwd"), 1, err=["Access denied"])

    check("git's log", mcp("call", "git", "git_log", "repo_path=.", "max_count=1"), out=["First words"])
    check("git's error", mcp("call", "git", "git_show", "repo_path=.", "revision=nothing"), 1, err=["nothing"])

    check("over HTTP", mcp("--json", "call", "http", "add", "a=1", "b=2", "note=null"), out=['sum', '3.0'])
    check("progress over HTTP", mcp("call", "http", "count", "to=5"), out=["counted"], err=["progress 5/5"])
    check("an error over HTTP", mcp("call", "http", "fail"), 1, err=["Error executing tool fail"])

    if browser:
        (tree / "page.html").write_text("<title>A page</title><h1>Hello from a page</h1><button>Press</button>")
        page = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port + 1)], cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        keep = subprocess.Popen(["nagent-mcp", "keep", "web"], cwd=tree, env=environment, stderr=subprocess.PIPE, text=True)
        check("the browser is kept", subprocess.CompletedProcess([], 0, keep.stderr.readline(), ""), out=["kept running"])
        check("a page is opened", mcp("call", "web", "browser_navigate", "url=http://127.0.0.1:%d/page.html" % (port + 1)), out=["A page"])
        check("and is still there", mcp("call", "web", "browser_snapshot"), out=["Hello from a page"])
        shot = mcp("--json", "call", "web", "browser_take_screenshot")
        check("a screenshot", shot, out=["image/png"])
        keep.send_signal(signal.SIGINT)
        check("keep ends", subprocess.CompletedProcess([], keep.wait(), "", ""))
        page.kill()
    else:
        print("not checked: there is no browser")
finally:
    http.kill()
print("%d failed" % len(failed) if failed else "all passed")
sys.exit(bool(failed))
