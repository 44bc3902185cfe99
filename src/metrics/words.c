#include "metrics/words.h"

#include <string.h>
#include <strings.h>

struct word {
    const char *word;
    unsigned flags;
};

enum {
    SURE = WORD_METRIC | WORD_PLAIN | WORD_WHOLE,
    PLAIN = WORD_METRIC | WORD_PLAIN,
    EVERYDAY = WORD_METRIC | WORD_EVERYDAY,
};

static const struct word metric_words[] = {
    {"loss", SURE},
    {"acc", SURE | WORD_RATIO},
    {"accuracy", SURE | WORD_RATIO},
    {"acc1", SURE | WORD_RATIO},
    {"acc5", SURE | WORD_RATIO},
    {"auc", PLAIN},
    {"auroc", PLAIN},
    {"auprc", PLAIN},
    {"f1", EVERYDAY},
    {"rmse", PLAIN},
    {"mse", PLAIN},
    {"mae", PLAIN},
    {"mape", PLAIN},
    {"rmsle", PLAIN},
    {"logloss", PLAIN},
    {"mlogloss", PLAIN},
    {"merror", PLAIN},
    {"nll", PLAIN},
    {"ppl", PLAIN},
    {"perplexity", PLAIN},
    {"bleu", PLAIN},
    {"rouge", PLAIN},
    {"rouge1", PLAIN},
    {"rouge2", PLAIN},
    {"rougel", PLAIN},
    {"meteor", WORD_METRIC},
    {"wer", PLAIN},
    {"cer", PLAIN},
    {"iou", PLAIN},
    {"miou", PLAIN},
    {"psnr", PLAIN},
    {"ssim", PLAIN},
    {"ndcg", PLAIN},
    {"mrr", PLAIN},
    {"map50", PLAIN},
    {"elbo", PLAIN},
    {"bpc", PLAIN},
    {"bpb", PLAIN},
    {"mcc", PLAIN},
    {"top1", PLAIN},
    {"top5", PLAIN},
    {"precision", EVERYDAY},
    {"recall", EVERYDAY},
    {"error", EVERYDAY},
    {"err", EVERYDAY},
    {"score", EVERYDAY},
    {"reward", EVERYDAY},
    {"return", EVERYDAY},
    {"r2", EVERYDAY},
    {"map", EVERYDAY},
    {"ap", EVERYDAY},
    {"fid", EVERYDAY},
    {"dice", EVERYDAY},
    {"kl", EVERYDAY},
    {"kappa", EVERYDAY},
    {"entropy", EVERYDAY},
    {"likelihood", EVERYDAY},
    {"regret", EVERYDAY},
};

/* As any part of a name that has no metric's word in it. */
static const char *const housekeeping[] = {
    "time",    "elapsed", "eta",      "took",       "duration", "remaining", "seconds", "secs",
    "sec",     "pid",     "port",     "rank",       "seed",     "num",       "version", "ver",
    "epochs",  "steps",   "batch",    "size",       "workers",  "worker",    "gpu",     "gpus",
    "cpu",     "cpus",    "cuda",     "device",     "id",       "line",      "lineno",  "exit",
    "code",    "status",  "ts",       "date",       "year",     "thread",    "threads", "timestamp",
    "node",    "job",     "retry",    "attempt",    "total",    "count",     "param",   "params",
    "version", "level",   "patience", "checkpoint", "saved",    "uid",       "gid",     "args",
    "data",
};

/* As the last part of any name: what is said about a metric, not what it is. */
static const char *const settings[] = {
    "weight",   "weights",   "coef",      "coeff",     "scale", "fn",    "func",
    "type",     "smoothing", "target",    "threshold", "decay", "alpha", "every",
    "interval", "freq",      "frequency", "lambda",    "limit", "bits",  "name",
    "mode",     "function",  "patience",  "version",   "code",
};

static const char *const wishes[] = {"target",   "required", "expected", "minimum",
                                     "desired",  "baseline", "goal",     "wanted",
                                     "requires", "want",     "threshold"};

static const char *const units[] = {
    "s",      "sec",     "secs", "second", "seconds", "ms",   "us",    "ns",  "mins",
    "minute", "minutes", "h",    "hr",     "hrs",     "hour", "hours", "day", "days",
    "kb",     "mb",      "gb",   "tb",     "kib",     "mib",  "gib",   "tib", "bytes",
    "byte",   "hz",      "mhz",  "ghz",    "times",   "mbps", "gbps",
};

static bool equals(const char *word, size_t size, const char *known)
{
    return strlen(known) == size && strncasecmp(word, known, size) == 0;
}

static bool is_among(const char *word, size_t size, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (equals(word, size, list[i])) {
            return true;
        }
    }
    return false;
}

#define IS_AMONG(word, size, list) is_among((word), (size), (list), sizeof(list) / sizeof(list)[0])

static unsigned flags_of_part(const char *part, size_t size)
{
    for (size_t i = 0; i < sizeof metric_words / sizeof metric_words[0]; i++) {
        if (equals(part, size, metric_words[i].word)) {
            return metric_words[i].flags;
        }
    }
    return IS_AMONG(part, size, housekeeping) ? WORD_NEVER : 0;
}

/* Of several metric words the last counts: logloss_auc is an auc. */
static unsigned merged(unsigned before, unsigned part)
{
    return part & WORD_METRIC ? part : before & WORD_METRIC ? before : before | part;
}

unsigned words_of_name(const char *name, size_t size)
{
    unsigned flags = 0;
    size_t parts = 0;
    size_t start = 0;
    size_t last = 0; /* where the last part begins */
    for (size_t at = 0; at <= size; at++) {
        if (at < size && !(name[at] && strchr("_-/.@ ", name[at]))) {
            continue;
        }
        if (at > start) {
            flags = merged(flags, flags_of_part(name + start, at - start));
            last = start;
            parts++;
        }
        start = at + 1;
    }
    size_t end = size;
    while (end > last && strchr("_-/.@ ", name[end - 1])) {
        end--;
    }
    if (IS_AMONG(name + last, end - last, settings)) {
        return WORD_NEVER;
    }
    /* Compound names are not ordinary text: val_error, mean_reward. */
    if (parts > 1) {
        flags &= ~(unsigned)WORD_EVERYDAY;
    }
    return flags;
}

const char *words_counter(const char *word, size_t size)
{
    static const char *const steps[] = {"step", "global_step", "iteration", "iter"};
    if (equals(word, size, "epoch")) {
        return "epoch";
    }
    return IS_AMONG(word, size, steps) ? "step" : NULL;
}

const char *words_part(const char *word, size_t size)
{
    static const struct {
        const char *word;
        const char *meaning;
    } parts[] = {
        {"train", "train"},     {"training", "train"}, {"val", "val"},      {"valid", "val"},
        {"validation", "val"},  {"test", "test"},      {"testing", "test"}, {"eval", "eval"},
        {"evaluation", "eval"}, {"dev", "dev"},        {"best", "best"},    {"avg", ""},
        {"average", ""},        {"mean", ""},          {"final", ""},       {"running", ""},
        {"overall", ""},        {"current", ""},       {"set", ""},         {"epoch", ""},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (equals(word, size, parts[i].word)) {
            return parts[i].meaning;
        }
    }
    return NULL;
}

bool words_is_wish(const char *word, size_t size)
{
    return IS_AMONG(word, size, wishes);
}

bool words_is_unit(const char *word, size_t size)
{
    return IS_AMONG(word, size, units);
}
