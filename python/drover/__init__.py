"""Inside a task of drover: its parameters, its folders, and how it says what it measures.

    import drover

    params = drover.params(lr=0.1, epochs=10)       # the values here are for runs without drover
    for epoch in range(params["epochs"]):
        loss, accuracy = train(params["lr"])
        drover.report(step=epoch, loss=loss, accuracy=accuracy)
        if drover.should_stop():
            break

Everything works without drover too: report() then prints a line, should_stop() is False, and
params() returns what it was given. Needs nothing but Python 3.7 or later.

What drover and the module agree on:

DROVER_PARAMS      the parameters, a JSON object
DROVER_OUTPUT      the folder for results
DROVER_CHECKPOINT  the folder that survives attempts, with `checkpoint: true`
DROVER_REPORT      a file; report() appends a JSON object on a line, in one write
DROVER_CONTROL     a folder; the file `stop` in it asks the task to end, its content says why
"""

import json
import math
import os
import signal
import sys
import time

__all__ = [
    "catch_signals", "checkpoint", "output", "params", "report", "should_stop", "stop_reason", "task",
]

NAME_BYTES_MAX = 100
METRICS_MAX = 64
STOP_REASON_BYTES_MAX = 4096

_signal_name = None  # of the signal that asked us to stop, once one has


def params(**defaults):
    """The parameters of this task, a dict; `defaults` for what drover did not set."""
    text = os.environ.get("DROVER_PARAMS", "")
    if text:
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError("DROVER_PARAMS is not JSON: %s" % error) from None
        if not isinstance(given, dict):
            raise ValueError("DROVER_PARAMS is not a JSON object")
        defaults.update(given)
    return defaults


def task():
    """The name of this task, WORKFLOW/EXPERIMENT/INDEX; None without drover."""
    return os.environ.get("DROVER_TASK") or None


def output(*names, default="."):
    """The folder for results, or the path of a file in it: output("model.pt")."""
    return os.path.join(os.environ.get("DROVER_OUTPUT") or default, *names)


def checkpoint(*names, default=None):
    """The folder that survives attempts, or the path of a file in it. Where the task has none:
    `default`, else None."""
    folder = os.environ.get("DROVER_CHECKPOINT") or default
    return os.path.join(folder, *names) if folder is not None else None


def report(*dicts, step=None, **metrics):
    """Reports metrics: report(step=3, accuracy=0.97), or report({"val/loss": 0.5}, step=3).

    Numbers are anything that float() takes but text: ints, floats, numpy's scalars, tensors of one
    number. NaN and infinities are fine. Wrong names and values raise TypeError or ValueError, since
    they are mistakes in the program; a file that cannot be written does not, since it is not.
    """
    given = {}
    for one in dicts + (metrics,):
        given.update(one)
    if "step" in given:
        if step is not None:
            raise ValueError("step is given twice")
        step = given.pop("step")
    if not given:
        raise ValueError("nothing to report")
    if len(given) > METRICS_MAX:
        raise ValueError("more than %d metrics at once" % METRICS_MAX)
    line = {}
    if step is not None:
        line["step"] = _number("step", step)
        if not math.isfinite(line["step"]):
            raise ValueError("step is not a finite number")
    for name, value in given.items():
        line[_name(name)] = _number(name, value)
    line.setdefault("time", round(time.time(), 3))
    _send(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def should_stop():
    """Whether drover has asked this task to end: the trial was stopped early, the node is to be
    emptied. Cheap enough to ask after each step. End soon, with what you have, and exit with 0."""
    return stop_reason() is not None


def stop_reason():
    """Why should_stop() is true, as text; None as long as it is not."""
    if _signal_name is not None:
        return "signal " + _signal_name
    folder = os.environ.get("DROVER_CONTROL")
    if not folder:
        return None
    try:
        with open(os.path.join(folder, "stop"), "rb") as file:
            text = file.read(STOP_REASON_BYTES_MAX)
    except OSError:
        return None
    return text.decode("utf-8", "replace").strip() or "asked to stop"


def catch_signals(*signals):
    """From now on SIGTERM (or the signals given) no longer ends the program: should_stop() becomes
    true. Call it in the main thread. drover kills a task that does not end in time."""

    def catch(number, _frame):
        global _signal_name
        _signal_name = signal.Signals(number).name

    for number in signals or (signal.SIGTERM,):
        signal.signal(number, catch)


def _name(name):
    if not isinstance(name, str):
        raise TypeError("the name of a metric is a str, not %s" % type(name).__name__)
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError("%r is not a name: it is not valid text" % name) from None
    bad = any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in name)
    if not 0 < size <= NAME_BYTES_MAX or bad or name[0] == " " or name[-1] == " ":
        raise ValueError("%r is not a name: 1 to %d bytes, no control characters, no blank at "
                         "either end" % (name, NAME_BYTES_MAX))
    return name


def _number(name, value):
    """An int or a float. A bool is a number to Python, but hardly one that was meant."""
    if isinstance(value, (str, bytes, bytearray, bool)) or value is None:
        raise TypeError("%s: %r is not a number" % (name, value))
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError("%s: %r is not a number" % (name, value)) from None


def _send(text):
    path = os.environ.get("DROVER_REPORT")
    if path and _append(path, text.encode("utf-8") + b"\n"):
        return
    out = sys.stdout
    if out is None:  # a program without a terminal may have none
        return
    try:
        out.flush()
        out.write("drover: " + text + "\n")
        out.flush()
    except UnicodeEncodeError:  # a terminal that is not UTF-8
        out.write("drover: " + json.dumps(json.loads(text), separators=(",", ":")) + "\n")
        out.flush()
    except (OSError, ValueError):  # closed; training goes on
        pass


def _append(path, line):
    """One write that appends, so that processes which report at once do not mix their lines."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return False
    try:
        return os.write(fd, line) == len(line)
    except OSError:
        return False
    finally:
        os.close(fd)
