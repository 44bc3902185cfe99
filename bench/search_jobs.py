"""search_jobs.py - two real jobs to tune: gradient boosting on digits and on breast cancer.

Each line of the input is JOB and the values of the parameters in the order of NAMES ("-": absent);
the answer is the log loss on data not trained with. Trained with XGBoost on a third of the data, on
one thread, always with the same seed: the same line gives the same answer.
"""

import sys

sys.dont_write_bytecode = True
import numpy
import xgboost
from sklearn import datasets

NAMES = ["eta", "max_depth", "rounds", "min_child_weight", "lambda", "subsample",
         "colsample_bytree", "grow_policy", "max_leaves"]
LOADERS = {"digits": datasets.load_digits, "cancer": datasets.load_breast_cancer}
FOLDS = {"digits": 1, "cancer": 3}


class Job:
    def __init__(self, name):
        rows, labels = LOADERS[name](return_X_y=True)
        order = numpy.random.RandomState(0).permutation(len(labels))
        self.classes = len(set(labels))
        self.folds = []
        for fold in range(FOLDS[name]):
            train, test = order[fold::3], numpy.delete(order, numpy.s_[fold::3])
            self.folds.append((xgboost.DMatrix(rows[train], labels[train]),
                               xgboost.DMatrix(rows[test]), labels[test].astype(int)))

    def loss(self, params):
        options = {"nthread": 1, "verbosity": 0, "seed": 1, "tree_method": "hist", "max_bin": 32}
        if self.classes > 2:
            options.update(objective="multi:softprob", num_class=self.classes)
        else:
            options.update(objective="binary:logistic")
        options.update(params)
        rounds = options.pop("rounds")
        total = 0
        for train, test, labels in self.folds:
            guess = xgboost.train(options, train, rounds).predict(test)
            if self.classes > 2:
                guess = guess[numpy.arange(len(labels)), labels]
            else:
                guess = numpy.where(labels == 1, guess, 1 - guess)
            total -= numpy.log(numpy.maximum(guess, 1e-9)).mean()
        return total / len(self.folds)


def params_of(words):
    params = {name: float(word) for name, word in zip(NAMES, words) if word != "-"}
    for name in ("max_depth", "rounds"):
        params[name] = int(params[name])
    params["grow_policy"] = ["depthwise", "lossguide"][int(params["grow_policy"])]
    if "max_leaves" in params:
        params["max_leaves"] = int(params["max_leaves"])
    return params


def main():
    jobs = {}
    for line in sys.stdin:
        name, *words = line.split()
        if name not in jobs:
            jobs[name] = Job(name)
        print(repr(float(jobs[name].loss(params_of(words)))), flush=True)


if __name__ == "__main__":
    main()
