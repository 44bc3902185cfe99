"""search_optuna.py BENCH FUNCTION SAMPLER FIRST_SEED SEEDS TRIALS - Optuna beside drover.

Samplers: tpe, mtpe (multivariate), cma-es, random. Prints for each seed the least value after half
of the trials and after all of them, and the milliseconds that a suggestion took. BENCH is
search_bench, which knows the functions; jobs are asked of search_jobs.py.
"""

import os
import subprocess
import sys
import time
import warnings

sys.dont_write_bytecode = True
try:
    import optuna
    import cmaes  # noqa: F401, what CmaEsSampler needs
except ImportError as error:
    print(f"search_optuna: {error}", file=sys.stderr)
    sys.exit(77)

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.CRITICAL)
SAMPLERS = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "mtpe": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True),
    "cma-es": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


class Param:
    """A line of `search_bench space`: INDEX KIND LOW HIGH COUNT STEP PARENT WHEN,..."""

    def __init__(self, line):
        words = line.split()
        self.name = "p" + words[0]
        self.kind = words[1]
        self.low, self.high = float(words[2]), float(words[3])
        self.count, self.step = int(words[4]), float(words[5])
        self.parent = int(words[6])
        self.when = [int(w) for w in words[7].split(",")] if self.parent >= 0 else []

    def suggest(self, trial, indices):
        """The word that search_bench and search_jobs.py take for it, and its index."""
        if self.parent >= 0 and indices[self.parent] not in self.when:
            return "-", None
        if self.kind == "categorical":
            index = trial.suggest_categorical(self.name, list(range(self.count)))
            return str(index), index
        if self.kind == "ordered":
            index = trial.suggest_int(self.name, 0, self.count - 1)
            return str(index), index
        log = self.kind == "log"
        if self.count > 0:
            number = trial.suggest_int(self.name, int(self.low), int(self.high), log=log)
            return str(number), number - int(self.low)
        return repr(trial.suggest_float(self.name, self.low, self.high, log=log)), None


class Worker:
    """A process that answers a line with a number."""

    def __init__(self, command, prefix):
        self.prefix = prefix
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def value(self, words):
        self.process.stdin.write(self.prefix + " " + " ".join(words) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run(space, worker, sampler, seed, trials):
    study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
    values = []
    inside = 0

    def objective(trial):
        nonlocal inside
        words, indices = [], []
        for param in space:
            word, index = param.suggest(trial, indices)
            words.append(word)
            indices.append(index)
        start = time.perf_counter()
        values.append(worker.value(words))
        inside += time.perf_counter() - start
        return values[-1]

    start = time.perf_counter()
    study.optimize(objective, n_trials=trials)
    spent = time.perf_counter() - start - inside
    return min(values[:trials // 2]), min(values), spent / trials * 1000


def main():
    bench, function, sampler = sys.argv[1:4]
    first, seeds, trials = (int(word) for word in sys.argv[4:])
    lines = subprocess.run([bench, "space", function], capture_output=True, text=True, check=True)
    space = [Param(line) for line in lines.stdout.splitlines()]
    here = os.path.dirname(os.path.abspath(__file__))
    for seed in range(first, first + seeds):
        if function in ("digits", "cancer"):
            worker = Worker([sys.executable, os.path.join(here, "search_jobs.py")], function)
        else:
            worker = Worker([bench, "eval"], f"{function} {seed}")
        half, whole, ms = run(space, worker, sampler, seed, trials)
        worker.close()
        print(function, sampler, seed, repr(half), repr(whole), f"{ms:.3f}", flush=True)


if __name__ == "__main__":
    main()
