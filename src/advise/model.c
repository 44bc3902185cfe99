#include "advise/model.h"

#include "advise/dense.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* What is believed before any run. */
static const double prior_sd = .8;    /* of a type's speed as a whole */
static const double bend_sd = .25;    /* of the law's error from one cluster size to another */
static const double bend_reach = 1.5; /* in log workers */
static const double drift_sd = .15;   /* of its error per log worker */
static const double batch_sd = .25;   /* per log batch */
static const double run_sd = .05;     /* of a repeated run */
static const double full_at = 8;      /* workers that fill the server, where nothing is known */

/* One setting with the mean of its runs. */
struct point {
    double workers;
    double servers;
    double width; /* server bandwidth as a multiple of the model's */
    double batch;
    double time; /* seconds a gradient of the cluster */
    double mbit;
    double count;
};

static double gradient_time(const struct profile_run *run, enum profile_mode mode)
{
    if (run->examples_per_s > 0 && run->batch > 0) {
        return run->batch / run->examples_per_s;
    }
    if (run->steps_per_s > 0) {
        return 1 / (run->steps_per_s * (mode == PROFILE_ASYNC ? 1 : run->workers));
    }
    return run->examples_per_s > 0 ? 1 / run->examples_per_s : 0;
}

static bool belongs(const struct profile_run *run, const char *type, enum profile_mode mode)
{
    return strcmp(run->type, type) == 0 &&
           (run->mode == mode || run->mode == PROFILE_MODE_UNKNOWN) && gradient_time(run, mode) > 0;
}

static double run_width(const struct profile_run *run, double server_mbps)
{
    return run->server_mbps > 0 && server_mbps > 0 ? run->server_mbps / server_mbps : 1;
}

/* Adds the run to the point of its setting. Returns false if there is no room. */
static bool add_point(struct point *points, size_t *count, const struct profile_run *run,
                      enum profile_mode mode, double server_mbps)
{
    double time = gradient_time(run, mode);
    double mbit = run->bandwidth_mbps * time * run->workers;
    double width = run_width(run, server_mbps);
    for (size_t i = 0; i < *count; i++) {
        struct point *point = &points[i];
        if (point->workers == run->workers && point->servers == run->servers &&
            point->batch == run->batch && point->width == width) {
            point->time += (time - point->time) / (point->count + 1);
            point->mbit = mbit > 0 ? mbit : point->mbit;
            point->count++;
            return true;
        }
    }
    if (*count == MODEL_RUNS_MAX) {
        return false;
    }
    points[(*count)++] = (struct point){.workers = run->workers,
                                        .servers = run->servers,
                                        .width = width,
                                        .batch = run->batch,
                                        .time = time,
                                        .mbit = mbit,
                                        .count = 1};
    return true;
}

/* What multiplies s: the exchange of one gradient of the cluster. */
static double exchange(double workers, double servers, double width)
{
    if (servers > 0) {
        return 1 / (servers * width);
    }
    return (workers - 1) / (workers * workers);
}

static void add_row(double *rows, double *y, size_t *count, const double terms[MODEL_TERMS],
                    double square)
{
    for (size_t i = 0; i < MODEL_TERMS; i++) {
        rows[*count * MODEL_TERMS + i] = terms[i] / square;
    }
    y[(*count)++] = 1;
}

/* Rows that stand for what is known of s besides the speeds. */
static void add_server_row(const struct model *model, const struct point *points, size_t count,
                           double *rows, double *y, size_t *row_count)
{
    bool sizes = false;
    double slowest = 0;
    for (size_t i = 0; i < count; i++) {
        sizes = sizes || points[i].workers != points[0].workers;
        double compute = points[i].time * points[i].workers;
        slowest = compute > slowest ? compute : slowest;
    }
    double square = 0;
    double weight = 0;
    if (model->mbit > 0 && model->server_mbps > 0) {
        square = model->mbit / model->server_mbps * (model->mbit / model->server_mbps);
        weight = .5;
    } else if (!sizes) {
        square = slowest / full_at * (slowest / full_at);
        weight = .2;
    }
    if (weight > 0) {
        const double terms[MODEL_TERMS] = {0, 0, 0, weight};
        add_row(rows, y, row_count, terms, square);
        y[*row_count - 1] = weight;
    }
}

static double law(const struct model *model, double workers, double batch, double exchanged)
{
    const double *q = model->terms;
    double compute = q[0] + q[1] * batch + q[2] * batch * batch;
    return compute / (workers * workers) + q[3] * exchanged * exchanged;
}

static void fit_law(struct model *model, const struct point *points, size_t count)
{
    double rows[(MODEL_RUNS_MAX + 1) * MODEL_TERMS];
    double y[MODEL_RUNS_MAX + 1];
    size_t row_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct point *p = &points[i];
        double shared = 1 / (p->workers * p->workers);
        double across = exchange(p->workers, p->servers, p->width);
        double b = model->batch > 0 ? 0 : p->batch; /* one batch size tells nothing of others */
        const double terms[MODEL_TERMS] = {shared, shared * b, shared * b * b, across * across};
        add_row(rows, y, &row_count, terms, p->time * p->time);
    }
    add_server_row(model, points, count, rows, y, &row_count);
    dense_nnls(rows, y, row_count, MODEL_TERMS, model->terms);
}

/* Half of the work of another batch size is taken to grow with it, where only one was measured. */
static double batch_factor(const struct model *model, double batch)
{
    return model->batch > 0 && batch > 0 ? .3 + .7 * batch / model->batch : 1;
}

static double likeness(double workers_a, double batch_a, double workers_b, double batch_b)
{
    double r = sqrt(5) * fabs(workers_a - workers_b) / bend_reach;
    double bend = bend_sd * bend_sd * (1 + r + r * r / 3) * det_exp(-r);
    return prior_sd * prior_sd + bend + drift_sd * drift_sd * workers_a * workers_b +
           batch_sd * batch_sd * batch_a * batch_b;
}

static double batch_log(double batch)
{
    return batch > 0 ? det_log(batch) : 0;
}

static void fit_residuals(struct model *model, const struct point *points, size_t count)
{
    model->count = count;
    for (size_t i = 0; i < count; i++) {
        const struct point *p = &points[i];
        double b = model->batch > 0 ? 0 : p->batch;
        double square = law(model, p->workers, b, exchange(p->workers, p->servers, p->width));
        model->log_workers[i] = det_log(p->workers);
        model->log_batch[i] = batch_log(p->batch);
        model->residual[i] = square > 0 ? det_log(p->time) - det_log(square) / 2 : 0;
        for (size_t j = 0; j <= i; j++) {
            model->factor[i * count + j] = likeness(model->log_workers[i], model->log_batch[i],
                                                    model->log_workers[j], model->log_batch[j]);
        }
        model->factor[i * count + i] += run_sd * run_sd / p->count;
    }
    bool factored = dense_cholesky(model->factor, count);
    CHECK(factored); /* a kernel with noise on the diagonal */
    dense_solve(model->factor, count, model->residual);
}

enum err_code model_fit(const struct profile *profile, const char *type, enum profile_mode mode,
                        double server_mbps, struct model *model, struct err *err)
{
    struct point points[MODEL_RUNS_MAX];
    size_t count = 0;
    *model = (struct model){.mode = mode, .server_mbps = server_mbps};
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_run *run = &profile->runs[i];
        if (!belongs(run, type, mode)) {
            continue;
        }
        if (model->server_mbps <= 0) {
            model->server_mbps = run->server_mbps;
        }
        if (!add_point(points, &count, run, mode, model->server_mbps)) {
            return err_set(err, ERR_INVALID, "%s: more than %d settings were measured", type,
                           MODEL_RUNS_MAX);
        }
    }
    if (count == 0) {
        return err_set(err, ERR_NOT_FOUND, "%s: no run says how fast it was", type);
    }
    double fewest = (double)INFINITY;
    bool one_batch = true;
    for (size_t i = 0; i < count; i++) {
        one_batch = one_batch && points[i].batch == points[0].batch;
        if (points[i].mbit > 0 && points[i].workers < fewest) {
            fewest = points[i].workers;
            model->mbit = points[i].mbit;
        }
    }
    model->batch = one_batch ? points[0].batch : 0;
    fit_law(model, points, count);
    fit_residuals(model, points, count);
    return ERR_OK;
}

/* Mean of the residual there, and its variance. */
static double residual_at(const struct model *model, double log_workers, double log_batch,
                          double *variance)
{
    double like[MODEL_RUNS_MAX];
    for (size_t i = 0; i < model->count; i++) {
        like[i] = likeness(log_workers, log_batch, model->log_workers[i], model->log_batch[i]);
    }
    double mean = dense_dot(like, model->residual, model->count);
    dense_solve_lower(model->factor, model->count, like);
    double left = likeness(log_workers, log_batch, log_workers, log_batch) -
                  dense_dot(like, like, model->count);
    *variance = (left > 0 ? left : 0) + run_sd * run_sd;
    return mean;
}

static double setting_batch(const struct model *model, const struct model_setting *setting)
{
    return setting->batch > 0 ? setting->batch : model->batch;
}

double model_law_s(const struct model *model, const struct model_setting *setting)
{
    double workers = setting->workers;
    double width = setting->server_mbps > 0 && model->server_mbps > 0
                       ? setting->server_mbps / model->server_mbps
                       : 1;
    double batch = model->batch > 0 ? 0 : setting->batch;
    double across = exchange(workers, setting->servers, width);
    double compute = model->terms[0] + model->terms[1] * batch + model->terms[2] * batch * batch;
    double slower = batch_factor(model, setting->batch) / (setting->scale > 0 ? setting->scale : 1);
    double square =
        compute * slower * slower / (workers * workers) + model->terms[3] * across * across;
    return sqrt(square > 0 ? square : 1e-300);
}

double model_factor(const struct model *model, const struct model_setting *setting, double *log_sd)
{
    double variance = 0;
    double residual = residual_at(model, det_log(setting->workers),
                                  batch_log(setting_batch(model, setting)), &variance);
    *log_sd = sqrt(variance + setting->scale_sd * setting->scale_sd);
    return det_exp(residual);
}

struct model_speed model_predict(const struct model *model, const struct model_setting *setting)
{
    struct model_speed speed = {0};
    double batch = setting_batch(model, setting);
    double time_s = model_law_s(model, setting) * model_factor(model, setting, &speed.log_sd);
    speed.examples_per_s = (batch > 0 ? batch : 1) / time_s;
    speed.steps_per_s = 1 / time_s / (model->mode == PROFILE_ASYNC ? 1 : setting->workers);
    return speed;
}

double model_sd_after(const struct model *model, const struct model_setting *extra,
                      const struct model_setting *setting)
{
    double like[MODEL_RUNS_MAX];
    double variance = 0;
    double workers = det_log(setting->workers);
    double batch = batch_log(setting_batch(model, setting));
    double extra_workers = det_log(extra->workers);
    double extra_batch = batch_log(setting_batch(model, extra));
    (void)residual_at(model, workers, batch, &variance);
    /* What the new run and the setting have in common beyond what the old runs tell of both. */
    double other[MODEL_RUNS_MAX];
    for (size_t i = 0; i < model->count; i++) {
        like[i] = likeness(workers, batch, model->log_workers[i], model->log_batch[i]);
        other[i] = likeness(extra_workers, extra_batch, model->log_workers[i], model->log_batch[i]);
    }
    dense_solve_lower(model->factor, model->count, like);
    dense_solve_lower(model->factor, model->count, other);
    double common =
        likeness(workers, batch, extra_workers, extra_batch) - dense_dot(like, other, model->count);
    double spread = likeness(extra_workers, extra_batch, extra_workers, extra_batch) -
                    dense_dot(other, other, model->count) + run_sd * run_sd;
    double left = variance - common * common / spread;
    return sqrt((left > 0 ? left : 0) + setting->scale_sd * setting->scale_sd);
}
