"""The scripted model of `make scale`: answers each request about `input N` with `of N` after a while.

Prints its port. Writes `asked N` when a request has come and `answered N` when its reply was taken, into the file that is named.
"""
import http.server
import json
import re
import sys
import time

LOG, SECONDS = open(sys.argv[1], "a", buffering=1), float(sys.argv[2])


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number = re.findall(r"Sum up: input (\d+)", json.dumps(body["messages"]))[-1]
        LOG.write(f"asked {number}\n")
        time.sleep(SECONDS)
        text = f"<nagent-response>of {number}</nagent-response>"
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
        reply = "".join(f"data: {json.dumps(part)}\n\n" for part in [chunk, usage]) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(reply)))
        try:
            self.end_headers()
            self.wfile.write(reply.encode())
        except OSError:
            return  # Who asked was on the node that was killed.
        LOG.write(f"answered {number}\n")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_port, flush=True)
server.serve_forever()
