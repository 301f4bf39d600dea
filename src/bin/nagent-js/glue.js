// Makes the objects of the API from the names of its functions. This code is not a security boundary: the process
// around the engine and its parent are. Everything from the globals is read here before the script can change it.
(function (host, compile, names, start) {
  "use strict";
  const { stringify, parse } = JSON;
  const isArray = Array.isArray;
  const text = String;
  const list = Array;

  function call(name, args) {
    const answer = host(name, stringify(args));
    if (answer.length === 2) return answer[1];
    const error = new Error(answer[0]);
    Object.defineProperty(error, "name", { value: "" });
    throw error;
  }

  // A value as it is shown: text as it is, objects as JSON.
  function show(value) {
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "object" || value instanceof Error) return text(value);
    return stringify(value);
  }

  const roots = Object.create(null);
  for (const name of names) {
    const path = name.split(".");
    const last = path.pop();
    let at = globalThis;
    for (const part of path) at = at[part] ??= {};
    at[last] = { [last]: (...args) => call(name, args) }[last];
  }
  for (const name of ["log", "error"]) {
    console[name] = (...args) => {
      call("console." + name, [list.from(args, (one) => show(one) ?? text(one)).join(" ")]);
    };
  }
  const write = process.stdout.write;
  process.stdout.write = (value) => write(show(value) ?? text(value));
  process.cwd = () => start.cwd;
  process.args = start.args;
  process.exit = (code) => { host("process.exit", stringify([Number(code ?? 0)])); };
  globalThis.agent = {
    resume: (context) => { host("agent.resume", stringify([show(context) ?? null])); },
  };

  const modules = Object.create(null);
  function requireFrom(base) {
    return function require(path) {
      const found = call("require", [base, path]);
      const known = modules[found.path];
      if (known) return known.exports;
      const module = (modules[found.path] = { exports: {}, id: found.path });
      try {
        if (found.path.endsWith(".json")) {
          module.exports = parse(found.source);
        } else {
          const wrapped = "(function (exports, require, module, __filename, __dirname) {" + found.source + "\n})";
          const run = compile(wrapped, found.path);
          run.call(module.exports, module.exports, requireFrom(found.folder), module, found.path, found.folder);
        }
      } catch (error) {
        delete modules[found.path];
        throw error;
      }
      return module.exports;
    };
  }
  globalThis.require = requireFrom(start.base);
  return (value) => {
    const shown = show(value);
    // The value would not fit into this process twice.
    if (shown?.length > start.most) {
      throw new Error(`the value has ${shown.length} characters, over the limit of ${start.most}; write it in pieces, with process.stdout.write`);
    }
    return shown;
  };
})
