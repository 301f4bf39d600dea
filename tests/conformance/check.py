"""Holds nagent's requests against the types of the providers' own SDKs, where those are installed.

    python3 tests/conformance/check.py TARGET/debug/nagent-llm-text [--record]

openai, anthropic and groq have TypedDicts, google-genai, mistralai and ollama pydantic models; unknown keys are errors at every depth. Nothing is sent: the
requests are those of --show-request, texts by nagent-llm-text, pictures and documents by nagent beside it. With --record the bodies are written beside this file, and a test of the project compares
them in any case (tests/it/models.rs). Run by hand: the tests need no package from a registry."""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import typing

try:
    import typing_extensions as extensions
except ImportError:
    extensions = typing

HERE = pathlib.Path(__file__).parent
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
KEYS = {name: "k" for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY")}
OPTIONS = {
    "plain": [],
    "reasoning-off": ["--reasoning", "off"],
    "reasoning-max": ["--reasoning", "max", "--verbose"],
    "reasoning-number": ["--reasoning", "5000"],
    "sampling": ["--temperature", "0.5", "--seed", "7"],
    "schema": ["--schema", "schema.json"],
}
MODELS = {
    "openai": ["gpt-5.5", "gpt-6.2-sol"],
    "anthropic": ["claude-sonnet-5-5", "claude-sonnet-4-6", "claude-haiku-4-5"],
    "google": ["gemini-3.8-flash", "gemini-2.5-flash"],
    "ollama": ["qwen3:8b"],
    "mistral": ["mistral-small-latest"],
    "groq": ["openai/gpt-oss-120b"],
}
# Models that see, and a picture of one pixel.
SEEING = {
    "openai": ["gpt-5.5"],
    "anthropic": ["claude-sonnet-5-5"],
    "google": ["gemini-3.8-flash"],
    "ollama": ["gemma3:4b"],
    "mistral": ["mistral-small-latest"],
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def bodies(program):
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "q.txt").write_text("What is 2+2?")
        (work / "schema.json").write_text(json.dumps(SCHEMA))
        env = {"PATH": os.environ["PATH"], "HOME": folder, **KEYS}
        for provider, models in MODELS.items():
            for model in models:
                for name, flags in OPTIONS.items():
                    flags = ["--provider", provider, "-m", model, *flags]
                    words = [program, *flags, "--show-request", "q.txt"]
                    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=True)
                    yield provider, f"{provider} {model} {name}", flags, json.loads(done.stdout)


def pictures(program):
    """Requests with a picture and, where the API takes one, a document. They hold paths of this machine, so they are not recorded."""
    nagent = os.path.join(os.path.dirname(program), "nagent")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "a.png").write_bytes(base64.b64decode(PNG))
        (work / "a.pdf").write_bytes(b"%PDF-1.4\n1 0 obj\n<</Type /Page>>\nendobj\n%%EOF\n")
        env = {"PATH": os.environ["PATH"], "HOME": folder, **KEYS}
        for provider, models in SEEING.items():
            for model in models:
                files = ["-f", "a.png"] if provider in ("ollama", "mistral") else ["-f", "a.png", "-f", "a.pdf"]
                words = [nagent, "--provider", provider, "-m", model, *files, "--show-request", "-n", "What?"]
                done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
                body = json.loads(done.stdout)
                if PNG[:40] not in done.stdout:
                    sys.exit(f"{provider} {model}: the picture is not in the request")
                yield provider, f"{provider} {model} pictures", body


def fits(value, kind, path=""):
    """All places where a value is not of a type; unknown keys of a TypedDict are one."""
    origin = typing.get_origin(kind)
    wrappers = (typing.Annotated, typing.Required, typing.NotRequired, extensions.Required, extensions.NotRequired)
    if origin in wrappers:
        return fits(value, typing.get_args(kind)[0], path)
    if kind in (typing.Any, object):
        return []
    if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return fits(value, kind.__value__, path)
    if origin in (typing.Union, types.UnionType):
        tries = [fits(value, part, path) for part in typing.get_args(kind)]
        return min(tries, key=len) if all(tries) else []
    if origin is typing.Literal:
        return [] if value in typing.get_args(kind) else [f"{path}: {value!r} is not of {kind}"]
    if hasattr(kind, "__required_keys__"):
        if not isinstance(value, dict):
            return [f"{path}: not an object"]
        hints = extensions.get_type_hints(kind, include_extras=False)
        wrong = [f"{path}/{key}: unknown" for key in value if key not in hints]
        wrong += [f"{path}/{key}: missing" for key in kind.__required_keys__ if key not in value]
        for key in value.keys() & hints.keys():
            wrong += fits(value[key], hints[key], f"{path}/{key}")
        return wrong
    if origin in (dict,) or kind is dict:
        return [] if isinstance(value, dict) else [f"{path}: not an object"]
    if origin is not None and isinstance(value, list):
        part = (typing.get_args(kind) or (typing.Any,))[0]
        return [error for index, item in enumerate(value) for error in fits(item, part, f"{path}/{index}")]
    if kind is float:
        return [] if isinstance(value, (int, float)) else [f"{path}: not a number"]
    if isinstance(kind, type):
        return [] if isinstance(value, kind) else [f"{path}: {value!r} is not {kind.__name__}"]
    return []


def checkers():
    """What checks the requests of a provider, for the SDKs that are there."""
    found = {}
    try:
        from openai.types import responses
        found["openai"] = lambda body: fits(body, responses.response_create_params.ResponseCreateParamsStreaming)
    except ImportError:
        pass
    try:
        from anthropic.types import message_create_params
        # The SDK speaks version 2026-10-21, which has no temperature any more; nagent sends 2023-06-01, which older models know.
        found["anthropic"] = lambda body: fits(
            {key: value for key, value in body.items() if key != "temperature"},
            message_create_params.MessageCreateParamsStreaming,
        )
    except ImportError:
        pass
    try:
        from google.genai import types as genai
        def gemini(body):
            config = dict(body.get("generationConfig", {}), systemInstruction=body.get("systemInstruction"),
                          serviceTier=body.get("serviceTier"))
            known = {"contents", "generationConfig", "systemInstruction", "serviceTier"}
            wrong = [f"/{key}: unknown" for key in body if key not in known]
            try:
                genai.GenerateContentConfig.model_validate({key: value for key, value in config.items() if value is not None})
                [genai.Content.model_validate(content) for content in body["contents"]]
            except ValueError as error:
                wrong.append(str(error))
            return wrong
        found["google"] = gemini
    except ImportError:
        pass
    try:
        from groq.types.chat import completion_create_params as groq
        found["groq"] = lambda body: fits(body, groq.CompletionCreateParams)
    except ImportError:
        pass
    try:
        from mistralai.client.models import ChatCompletionStreamRequest
        found["mistral"] = lambda body: validates(body, ChatCompletionStreamRequest)
    except ImportError:
        pass
    try:
        from ollama._types import ChatRequest, Options
        # `truncate` and `shift` are in the server's own type (api/types.go), and not yet in the SDK's.
        found["ollama"] = lambda body: validates(
            {key: value for key, value in body.items() if key not in ("truncate", "shift")}, ChatRequest
        ) + validates(body.get("options", {}), Options)
    except ImportError:
        pass
    return found


def validates(body, model):
    """What a pydantic model refuses, and the keys that it does not know."""
    wrong = [f"/{key}: unknown" for key in body if key not in model.model_fields]
    try:
        model.model_validate(body)
    except ValueError as error:
        wrong.append(str(error))
    return wrong


def main():
    program, record = os.path.abspath(sys.argv[1]), "--record" in sys.argv
    known, wrong, counts = checkers(), 0, {}
    now = {}
    for provider, name, flags, body in bodies(program):
        now[name] = {"flags": flags, "body": body}
        for error in known.get(provider, lambda _: [])(body):
            wrong += 1
            print(f"{name}: {error}")
        counts[provider] = counts.get(provider, 0) + 1
    for provider, name, body in pictures(program):
        for error in known.get(provider, lambda _: [])(body):
            wrong += 1
            print(f"{name}: {error}")
        counts[provider] += 1
    recorded = HERE / "requests.json"
    if record:
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in now.items())
        recorded.write_text("{" + rows + "}\n")
    elif json.loads(recorded.read_text()) != now:
        wrong += 1
        print("the requests are not the recorded ones; --record writes them again, and its diff shows the change")
    for provider, count in counts.items():
        print(f"{provider}: {count} requests, {'held against its SDK' if provider in known else 'compared with the recorded ones only'}")
    return wrong > 0


sys.exit(main())
