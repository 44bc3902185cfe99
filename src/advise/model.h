/* model.h - how fast a job trains on n workers of a type, from however few profile runs there are.
 *
 * A gradient takes a worker c seconds to compute, and the servers s seconds to receive and answer.
 * n workers compute n of them at a time, and computing overlaps with sending, so that the slower of
 * the two counts, with a soft corner between. Per gradient of the cluster:
 *     u^2 = (c / n)^2 + (s / k * B / B')^2          k servers of bandwidth B' (measured with B)
 *     u^2 = (c / n)^2 + (s * (n - 1) / n^2)^2       all-reduce, or the servers among the workers
 * with c^2 = q0 + q1 * batch + q2 * batch^2, all of it linear in squares: fitted by non-negative
 * least squares of relative errors. Where a worker's traffic was measured, it tells s at once;
 * where neither it nor a second cluster size was, the server is taken to be full at 8 workers.
 * What the law leaves over is smoothed by a Gaussian process over log n and log batch whose
 * strength is fixed beforehand: so each further run narrows every interval, whatever it says.
 *
 * Synchronous training makes 1 / (n u) steps a second of n batches each, asynchronous 1 / u of one;
 * both see batch / u examples a second. Pure; a model is a value.
 */
#ifndef ADVISE_MODEL_H
#define ADVISE_MODEL_H

#include "advise/profile.h"

#include <stdbool.h>

enum { MODEL_RUNS_MAX = 64, MODEL_TERMS = 4 };

struct model {
    enum profile_mode mode;
    double batch;              /* of the runs, where all have the same; else 0 */
    double server_mbps;        /* B; 0: not known, every server counts the same */
    double terms[MODEL_TERMS]; /* q0, q1, q2, s^2 */
    double mbit;               /* that one gradient sends and receives; 0: not measured */
    size_t count;              /* settings measured */
    double log_workers[MODEL_RUNS_MAX];
    double log_batch[MODEL_RUNS_MAX];
    double residual[MODEL_RUNS_MAX];
    double factor[MODEL_RUNS_MAX * MODEL_RUNS_MAX];
};

struct model_setting {
    uint32_t workers;
    uint32_t servers;   /* 0: all-reduce or servers among the workers */
    double server_mbps; /* of each; 0: as measured */
    double batch;       /* 0: as measured */
    double scale;       /* a worker's speed as a multiple of the measured type's; 0 means 1 */
    double scale_sd;    /* deviation of the logarithm of that multiple */
};

struct model_speed {
    double examples_per_s; /* of the whole cluster; gradients a second where no batch is known */
    double steps_per_s;
    double log_sd; /* deviation of the logarithm of both */
};

/* Fits the runs of one type in one mode (PROFILE_MODE_UNKNOWN runs count as `mode`).
 * server_mbps: what runs that do not say had as servers, 0 if not known.
 * ERR_NOT_FOUND: no run of this type says how fast it was. ERR_INVALID: more than MODEL_RUNS_MAX
 * settings. */
MUST_USE enum err_code model_fit(const struct profile *profile, const char *type,
                                 enum profile_mode mode, double server_mbps, struct model *model,
                                 struct err *err);

struct model_speed model_predict(const struct model *model, const struct model_setting *setting);

/* The two parts of it, for those who ask very often: seconds a gradient by the law alone, and what
 * the runs say of the law at so many workers (which no server changes): a factor on the time, and
 * the deviation of its logarithm. */
double model_law_s(const struct model *model, const struct model_setting *setting);
double model_factor(const struct model *model, const struct model_setting *setting, double *log_sd);

/* The deviation at `setting` had there been one more run at `extra`. */
double model_sd_after(const struct model *model, const struct model_setting *extra,
                      const struct model_setting *setting);

#endif
