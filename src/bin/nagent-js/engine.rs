//! The worker: gives up all rights, reads a script, runs it in QuickJS, and passes its calls on.
//!
//! The parent enforces the time limit by killing this process: native loops of the engine cannot be interrupted.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::ExitCode;
use std::rc::Rc;

use conversation::limits;
use rquickjs::context::EvalOptions;
use rquickjs::function::Func;
use rquickjs::promise::PromiseState;
use rquickjs::{
    Array, Coerced, Context, Ctx, Error, FromJs, Function, Object, Promise, Runtime, Value,
};
use sandbox::script::js::api;
use sandbox::script::js::wire::{End, Start, WorkerMessage, replace_lone_surrogates};
use sandbox::script::js_worker::{leave_at_once, rights};

/// The file name of our own glue code in stack traces: these frames are not the script's.
const GLUE: &str = "<api>";

/// Runs a script that the parent sends. Nobody reads the exit code: the parent reads lines.
pub(crate) fn run_worker(memory: Option<OsString>) -> ExitCode {
    let memory = memory.and_then(|word| word.to_str()?.parse().ok()).unwrap_or(limits::JS_MEMORY);
    // The default hook would ask the system for the name of its thread.
    std::panic::set_hook(Box::new(|_| ()));
    let Ok((runtime, context)) = make_engine() else { return ExitCode::from(125) };
    match rights::give_up_rights(memory) {
        Ok(landlock) => write_line(&WorkerMessage::Ready(landlock).to_line()),
        Err(why) => {
            write_line(&WorkerMessage::Failed(why).to_line());
            return ExitCode::from(126);
        }
    }
    let start = read_line().and_then(|line| serde_json::from_slice::<Start>(&line).ok());
    let Some(start) = start else { return ExitCode::from(2) };
    runtime.set_memory_limit(usize::try_from(start.memory).unwrap_or(usize::MAX));
    let rejections = track_rejections(&runtime);
    let end = context.with(|ctx| run_script(&ctx, &start, &rejections));
    write_line(&end.to_line());
    leave_at_once()
}

/// The engine, before there is a byte of a script. The first date reads the time zone's file, which cannot be read later.
fn make_engine() -> Result<(Runtime, Context), Error> {
    let runtime = Runtime::new()?;
    runtime.set_max_stack_size(limits::JS_STACK);
    let context = Context::full(&runtime)?;
    context.with(|ctx| {
        ctx.eval::<(), _>("new Date().getTimezoneOffset(); new Date(2020, 6).toString()")
    })?;
    Ok((runtime, context))
}

/// Rejected promises that nobody has handled yet, and the last one's message.
#[derive(Default)]
struct Rejections {
    unhandled: usize,
    message: String,
}

/// Notes which promises are rejected.
fn track_rejections(runtime: &Runtime) -> Rc<RefCell<Rejections>> {
    let rejections = Rc::new(RefCell::new(Rejections::default()));
    let noted = Rc::clone(&rejections);
    runtime.set_host_promise_rejection_tracker(Some(Box::new(
        move |ctx, _, reason, is_handled| {
            let mut noted = noted.borrow_mut();
            if is_handled {
                noted.unhandled = noted.unhandled.saturating_sub(1);
            } else {
                noted.unhandled += 1;
                noted.message = describe_value(&ctx, &reason).0;
            }
        },
    )));
    rejections
}

fn run_script(ctx: &Ctx<'_>, start: &Start, rejections: &RefCell<Rejections>) -> WorkerMessage {
    WorkerMessage::End(match evaluate(ctx, start) {
        Ok(_) if rejections.borrow().unhandled > 0 => {
            End::Threw { message: rejections.borrow().message.clone(), line: None }
        }
        Ok(value) => End::Value(value),
        Err(Error::Exception) => return describe_exception(ctx, &start.file),
        Err(error) => End::Threw { message: error.to_string(), line: None },
    })
}

/// The value of the script's last statement, as text.
fn evaluate<'js>(ctx: &Ctx<'js>, start: &Start) -> Result<Option<String>, Error> {
    let mut options = EvalOptions::default();
    options.filename = Some(GLUE.to_owned());
    let make: Function<'_> = ctx.eval_with_options(include_str!("glue.js"), options)?;
    let own = Object::new(ctx.clone())?;
    own.set("cwd", &start.cwd)?;
    own.set("args", &start.args)?;
    own.set("base", &start.base)?;
    own.set("most", limits::JS_VALUE)?;
    let names: Vec<&str> = api::functions().map(|function| function.name).collect();
    let show: Function<'_> =
        make.call((Func::from(call_parent), Func::from(compile), names, own))?;
    let mut options = EvalOptions::default();
    options.strict = false;
    options.promise = true;
    options.filename = Some(start.file.clone());
    let promise: Promise<'js> = ctx.eval_with_options(start.code.as_str(), options)?;
    let result: Object<'js> = finish(ctx, &promise)?;
    let mut value: Value<'js> = result.get("value")?;
    if let Some(promise) = value.as_promise() {
        value = finish(ctx, &promise.clone())?;
    }
    // Finish the promises that nobody waits for.
    while ctx.execute_pending_job() {}
    let shown: Option<Value<'js>> = show.call((value,))?;
    shown.map(|shown| convert_text(ctx, &shown)).transpose()
}

/// Runs jobs until a promise is settled, and returns its value.
fn finish<'js, T: FromJs<'js>>(ctx: &Ctx<'js>, promise: &Promise<'js>) -> Result<T, Error> {
    while promise.state() == PromiseState::Pending && ctx.execute_pending_job() {}
    promise.result().unwrap_or_else(|| {
        let message =
            "the script waits for a promise that nothing will ever fulfil; there are no timers";
        Err(rquickjs::Exception::throw_message(ctx, message))
    })
}

/// Compiles the function around a module.
fn compile(ctx: Ctx<'_>, code: String, file: String) -> Result<Value<'_>, Error> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(file);
    ctx.eval_with_options(code, options)
}

/// Passes a call on. Two elements: the second is its value; one: it is the message of an error.
fn call_parent(ctx: Ctx<'_>, name: String, args: String) -> Result<Array<'_>, Error> {
    let args = replace_lone_surrogates(args);
    let first = || serde_json::from_str::<Vec<serde_json::Value>>(&args).ok()?.into_iter().next();
    let end = match name.as_str() {
        "agent.resume" => {
            let context = first().and_then(|value| value.as_str().map(str::to_owned));
            Some(End::Resumed(context))
        }
        "process.exit" => {
            // A value that is not a whole number counts as a failure.
            let code = first().and_then(|value| value.as_i64()).unwrap_or(1);
            Some(End::Exit(i32::try_from(code).unwrap_or(1)))
        }
        _ => None,
    };
    if let Some(end) = end {
        write_line(&WorkerMessage::End(end).to_line());
        // No more of the script runs after this, not even `finally`.
        leave_at_once();
    }
    let answer = Array::new(ctx.clone())?;
    if args.len() + 1024 > limits::JS_LINE {
        answer.set(0, format!("{name}: {} bytes are too many for one call", args.len()))?;
        return Ok(answer);
    }
    let name = serde_json::Value::from(name);
    write_line(&format!("{{\"call\":{{\"name\":{name},\"args\":{args}}}}}"));
    drop(args);
    let Some(line) = read_line() else { leave_at_once() };
    let value = match serde_json::from_slice(&line) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            answer.set::<String>(0, error)?;
            return Ok(answer);
        }
        Err(_) => leave_at_once(),
    };
    drop(line);
    answer.set(0, ())?;
    match value {
        serde_json::Value::String(text) => answer.set(1, text)?,
        serde_json::Value::Null => answer.set(1, ())?,
        value => answer.set(1, ctx.json_parse(value.to_string())?)?,
    }
    Ok(answer)
}

/// Describes an uncaught exception, which ends the script.
fn describe_exception(ctx: &Ctx<'_>, file: &str) -> WorkerMessage {
    let (message, stack) = describe_value(ctx, &ctx.catch());
    if message == "InternalError: out of memory" {
        return WorkerMessage::Memory;
    }
    let line = stack.and_then(|stack| find_line(&stack, file));
    let message = match message.as_str() {
        "null" => {
            "null, which the engine also throws when no memory is left for an error".to_owned()
        }
        _ => message,
    };
    WorkerMessage::End(End::Threw { message, line })
}

/// A value as text, as `String(value)` gives it.
fn convert_text<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<String, Error> {
    let text = Coerced::<rquickjs::String<'js>>::from_js(ctx, value.clone())?.0;
    text.to_string().or_else(|_| {
        let json =
            ctx.json_stringify(text)?.map_or(Err(Error::Unknown), |json| json.to_string())?;
        serde_json::from_str(&replace_lone_surrogates(json)).map_err(|_| Error::Unknown)
    })
}

/// A thrown value as text, and its stack. Any of it may throw in turn.
fn describe_value<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> (String, Option<String>) {
    let text = convert_text(ctx, value);
    // This text says nothing about the content of the object.
    let text = text
        .and_then(|text| if text == "[object Object]" { Err(Error::Unknown) } else { Ok(text) });
    let text = text.or_else(|_| {
        ctx.catch();
        let json = ctx.json_stringify(value.clone())?;
        json.map_or(Err(Error::Unknown), |json| json.to_string()).map(replace_lone_surrogates)
    });
    let text = text.unwrap_or_else(|_| {
        ctx.catch();
        "the script threw something that has no text".to_owned()
    });
    let stack = value.as_object().and_then(|object| object.get::<_, String>("stack").ok());
    ctx.catch();
    (text, stack)
}

/// The line of the topmost frame that is in this file: `at name (FILE:LINE:COLUMN)`.
fn find_line(stack: &str, file: &str) -> Option<u64> {
    let prefix = format!("{file}:");
    stack.lines().find_map(|frame| {
        let (_, place) = frame.rsplit_once(&prefix)?;
        place.split([':', ')']).next()?.parse().ok()
    })
}

fn write_line(line: &str) {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n"));
    if written.and_then(|()| stdout.flush()).is_err() {
        leave_at_once();
    }
}

/// The next line from the parent, without its line feed.
fn read_line() -> Option<Vec<u8>> {
    thread_local! {
        static STDIN: RefCell<BufReader<io::Stdin>> = RefCell::new(BufReader::with_capacity(1 << 16, io::stdin()));
    }
    let mut line = Vec::new();
    STDIN.with_borrow_mut(|stdin| stdin.read_until(b'\n', &mut line)).ok()?;
    (line.pop() == Some(b'\n')).then_some(line)
}
