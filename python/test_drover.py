"""Tests of the Python module: python3 -m unittest discover -s python (tests/python_module.sh)."""

import contextlib
import io
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import drover  # noqa: E402


def write_many(path, first):
    os.environ["DROVER_REPORT"] = path
    for i in range(200):
        drover.report(step=first + i, text_that_makes_the_line_longer=i, other=1.5)


class Scalar:
    """As numpy and torch have them: an object that float() takes."""

    def __float__(self):
        return 0.25


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DROVER_")}
        patcher = mock.patch.dict(os.environ, clean, clear=True)
        patcher.start()
        self.addCleanup(patcher.stop)
        drover._signal_name = None

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def printed(self, *args, **kwargs):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            drover.report(*args, **kwargs)
        return out.getvalue()

    def said(self, *args, **kwargs):
        line = self.printed(*args, **kwargs)
        self.assertTrue(line.startswith("drover: {") and line.endswith("}\n"), line)
        return json.loads(line[len("drover: "):])


class Report(Case):
    def test_a_line_is_printed_without_drover(self):
        said = self.said(step=3, accuracy=0.97)
        self.assertGreater(said.pop("time"), 1e9)
        self.assertEqual(said, {"step": 3, "accuracy": 0.97})

    def test_names_that_are_no_identifiers_come_in_a_dict(self):
        said = self.said({"val/loss": 0.5, "caf\u00e9": 1}, epoch=2)
        del said["time"]
        self.assertEqual(said, {"val/loss": 0.5, "caf\u00e9": 1, "epoch": 2})

    def test_the_step_may_stand_in_the_dict(self):
        self.assertEqual(self.said({"step": 4, "a": 1})["step"], 4)

    def test_numbers_of_every_kind_are_taken(self):
        said = self.said(a=Scalar(), b=1e-5, c=10**400, d=-10**400, e=math.nan, f=2**60)
        self.assertEqual(said["a"], 0.25)
        self.assertEqual(said["b"], 1e-5)
        self.assertEqual(said["c"], math.inf)
        self.assertEqual(said["d"], -math.inf)
        self.assertTrue(math.isnan(said["e"]))
        self.assertEqual(said["f"], float(2**60))

    def test_mistakes_are_told(self):
        for wrong in ("0.5", b"1", None, True, [1], {}, object()):
            with self.assertRaises(TypeError, msg=repr(wrong)):
                self.printed(a=wrong)
        for wrong in ("", " a", "a\n", "x" * 101, "\x7f", "\ud800", "\x85"):
            with self.assertRaises(ValueError, msg=repr(wrong)):
                self.printed({wrong: 1})
        with self.assertRaises(TypeError):
            self.printed({1: 1})
        for step in (math.nan, math.inf):
            with self.assertRaises(ValueError):
                self.printed(step=step, a=1)
        with self.assertRaises(ValueError):
            self.printed(step=1)
        with self.assertRaises(ValueError):
            self.printed({"step": 1, "a": 1}, step=2)
        with self.assertRaises(ValueError):
            self.printed({"m%d" % i: i for i in range(65)})

    def test_lines_are_appended_to_the_file(self):
        os.environ["DROVER_REPORT"] = self.path("report")
        self.assertEqual(self.printed(step=1, a=1), "")
        self.assertEqual(self.printed(step=2, a=2), "")
        with open(self.path("report"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines], [1, 2])

    def test_a_file_that_cannot_be_written_does_no_harm(self):
        os.environ["DROVER_REPORT"] = self.path("no/such/folder/report")
        self.assertIn('"a":1', self.printed(a=1))
        os.environ["DROVER_REPORT"] = self.folder.name
        self.assertIn('"a":1', self.printed(a=1))

    def test_a_closed_output_does_no_harm(self):
        out = io.StringIO()
        out.close()
        with mock.patch.object(sys, "stdout", out):
            drover.report(a=1)
        with mock.patch.object(sys, "stdout", None):
            drover.report(a=1)

    def test_a_terminal_that_is_not_utf8_gets_escapes(self):
        raw = io.BytesIO()
        with mock.patch.object(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii")):
            drover.report({"caf\u00e9": 1})
            self.assertIn(b'"caf\\u00e9":1', raw.getvalue())

    def test_processes_do_not_mix_their_lines(self):
        context = multiprocessing.get_context("fork")
        path = self.path("report")
        processes = [context.Process(target=write_many, args=(path, i * 1000)) for i in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            self.assertEqual(process.exitcode, 0)
        with open(path, encoding="utf-8") as file:
            steps = sorted(json.loads(line)["step"] for line in file)
        self.assertEqual(steps, [i * 1000 + k for i in range(4) for k in range(200)])


class Surroundings(Case):
    def test_params_come_from_drover_and_then_from_the_defaults(self):
        self.assertEqual(drover.params(), {})
        self.assertEqual(drover.params(lr=0.1), {"lr": 0.1})
        os.environ["DROVER_PARAMS"] = '{"lr": 0.2, "name": "a b"}'
        self.assertEqual(drover.params(lr=0.1, batch=64), {"lr": 0.2, "batch": 64, "name": "a b"})
        for wrong in ("{", "[1]"):
            os.environ["DROVER_PARAMS"] = wrong
            with self.assertRaises(ValueError):
                drover.params()

    def test_folders(self):
        self.assertEqual(drover.output(), ".")
        self.assertEqual(drover.output("m.pt", default="out"), os.path.join("out", "m.pt"))
        self.assertIsNone(drover.checkpoint())
        self.assertIsNone(drover.checkpoint("m.pt"))
        self.assertEqual(drover.checkpoint("m.pt", default="c"), os.path.join("c", "m.pt"))
        self.assertIsNone(drover.task())
        os.environ.update(DROVER_OUTPUT="/o", DROVER_CHECKPOINT="/c", DROVER_TASK="w/e/1")
        self.assertEqual(drover.output("a", "b"), "/o/a/b")
        self.assertEqual(drover.checkpoint(), "/c")
        self.assertEqual(drover.task(), "w/e/1")

    def test_a_file_asks_to_stop(self):
        self.assertFalse(drover.should_stop())
        os.environ["DROVER_CONTROL"] = self.folder.name
        self.assertFalse(drover.should_stop())
        with open(self.path("stop"), "w", encoding="utf-8") as file:
            file.write("rung 2: 40 of 81 were better\n")
        self.assertTrue(drover.should_stop())
        self.assertEqual(drover.stop_reason(), "rung 2: 40 of 81 were better")
        with open(self.path("stop"), "wb") as file:
            file.write(b"")
        self.assertEqual(drover.stop_reason(), "asked to stop")

    def test_a_signal_asks_to_stop_if_it_is_caught(self):
        before = signal.getsignal(signal.SIGUSR1)
        try:
            drover.catch_signals(signal.SIGUSR1)
            self.assertFalse(drover.should_stop())
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertTrue(drover.should_stop())
            self.assertEqual(drover.stop_reason(), "signal SIGUSR1")
        finally:
            signal.signal(signal.SIGUSR1, before)


if __name__ == "__main__":
    unittest.main()
