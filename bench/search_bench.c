/* search_bench - drover's search on functions with a known least value, and its speed.
 *
 *   search_bench list [named|held|job]          names of functions
 *   search_bench space FUNCTION                 its parameters, for search_optuna.py
 *   search_bench least FUNCTION                 its least value; nothing for a job
 *   search_bench eval                           lines "FUNCTION SEED VALUE..." in, values out
 *   search_bench run FUNCTION ALGORITHM FIRST_SEED SEEDS TRIALS [JOBS]
 *        for each seed: the least value after half of the trials and after all, and the ms a
 *        suggestion took. JOBS: the command that computes jobs.
 *   search_bench time                           ms of a suggestion with 12 mixed parameters
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/search_functions.h"

#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const KINDS[] = {"uniform", "log", "normal", "categorical", "ordered", "fixed"};
static const char *const GROUPS[] = {"named", "held", "job"};

static int list(const char *group)
{
    for (size_t i = 0; i < function_count(); i++) {
        const struct function *function = function_at(i);
        if (!group || strcmp(group, GROUPS[function->group]) == 0) {
            puts(function->name);
        }
    }
    return 0;
}

static int space(const struct function *function)
{
    for (size_t i = 0; i < function->param_count; i++) {
        const struct search_param *param = &function->params[i];
        printf("%zu %s %.17g %.17g %llu %.17g %d ", i, KINDS[param->kind], param->low, param->high,
               (unsigned long long)param->count, param->step,
               param->conditional ? (int)param->parent : -1);
        for (size_t k = 0; k < param->when_count; k++) {
            printf("%s%llu", k ? "," : "", (unsigned long long)param->when[k]);
        }
        puts(param->conditional ? "" : "-");
    }
    return 0;
}

static int least(const struct function *function)
{
    if (function->value) {
        printf("%.17g\n", function->least);
    }
    return 0;
}

/* A word is a number, an index for categories, or "-" for absent. */
static struct search_value read_value(const struct search_param *param, const char *word)
{
    struct search_value value = {.present = strcmp(word, "-") != 0};
    if (value.present) {
        value.number = strtod(word, NULL);
        bool choice = param->kind == SEARCH_CATEGORICAL || param->kind == SEARCH_ORDERED;
        double index = choice ? value.number : (value.number - param->low) / param->step;
        value.index = param->count > 0 ? (uint64_t)(index + 0.5) : 0;
    }
    return value;
}

static int eval(void)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL;
        const char *name = strtok_r(line, " \n", &rest);
        const struct function *function = name ? function_find(name) : NULL;
        const char *seed = strtok_r(NULL, " \n", &rest);
        if (!function || !function->value || !seed) {
            return 2;
        }
        struct search_value values[FUNCTION_PARAMS_MAX];
        for (size_t i = 0; i < function->param_count; i++) {
            const char *word = strtok_r(NULL, " \n", &rest);
            if (!word) {
                return 2;
            }
            values[i] = read_value(&function->params[i], word);
        }
        printf("%.17g\n", function->value(function, strtoull(seed, NULL, 10), values));
        (void)fflush(stdout);
    }
    return 0;
}

/* The process that computes jobs, started when first needed. */
struct worker {
    pid_t pid;
    FILE *in;
    FILE *out;
};

static void worker_start(struct worker *worker, const char *command)
{
    int to[2];
    int from[2];
    CHECK(pipe(to) == 0);
    CHECK(pipe(from) == 0);
    worker->pid = fork();
    CHECK(worker->pid >= 0);
    if (worker->pid == 0) {
        (void)dup2(to[0], STDIN_FILENO);
        (void)dup2(from[1], STDOUT_FILENO);
        (void)close(to[1]);
        (void)close(from[0]);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    worker->in = fdopen(to[1], "w");
    worker->out = fdopen(from[0], "r");
    CHECK(worker->in);
    CHECK(worker->out);
}

static void worker_stop(struct worker *worker)
{
    if (worker->pid > 0) {
        (void)fclose(worker->in);
        (void)fclose(worker->out);
        (void)waitpid(worker->pid, NULL, 0);
    }
}

static double worker_value(struct worker *worker, const struct function *function,
                           const struct search_value *values)
{
    (void)fprintf(worker->in, "%s", function->name);
    for (size_t i = 0; i < function->param_count; i++) {
        if (values[i].present) {
            (void)fprintf(worker->in, " %.17g", values[i].number);
        } else {
            (void)fprintf(worker->in, " -");
        }
    }
    (void)fprintf(worker->in, "\n");
    (void)fflush(worker->in);
    char line[64];
    if (!fgets(line, sizeof line, worker->out)) {
        (void)fprintf(stderr, "search_bench: the jobs program ended\n");
        exit(1);
    }
    return strtod(line, NULL);
}

struct course {
    const struct function *function;
    enum search_algorithm algorithm;
    uint64_t trials;
    struct worker worker;
};

static void run_seed(struct course *course, uint64_t seed)
{
    const struct function *function = course->function;
    const enum search_goal goal = SEARCH_MINIMIZE;
    struct search_options options = {.params = function->params,
                                     .param_count = function->param_count,
                                     .goals = &goal,
                                     .goal_count = 1,
                                     .algorithm = course->algorithm,
                                     .seed = seed,
                                     .trials = course->trials};
    struct search *search = search_create(&options, NULL);
    CHECK(search);
    struct search_value values[FUNCTION_PARAMS_MAX];
    struct search_trial trial = {.values = values};
    double best = INFINITY;
    double half = INFINITY;
    int64_t spent_us = 0;
    for (uint64_t i = 0; i < course->trials; i++) {
        int64_t start_us = clock_mono_us();
        if (search_ask(search, &trial, NULL) != ERR_OK) {
            break; /* everything was tried */
        }
        spent_us += clock_mono_us() - start_us;
        double value = function->value ? function->value(function, seed, values)
                                       : worker_value(&course->worker, function, values);
        best = value < best ? value : best;
        half = i < course->trials / 2 ? best : half;
        start_us = clock_mono_us();
        CHECK(search_tell(search, trial.number, SEARCH_FINISHED, &value, NULL) == ERR_OK);
        spent_us += clock_mono_us() - start_us;
    }
    printf("%s %s %llu %.17g %.17g %.3f\n", function->name,
           search_algorithm_name(course->algorithm), (unsigned long long)seed, half, best,
           (double)spent_us / 1000 / (double)course->trials);
    (void)fflush(stdout);
    search_destroy(search);
}

static int run(char **words, const char *jobs)
{
    struct course course = {.function = function_find(words[0])};
    if (!course.function || !search_algorithm_find(words[1], &course.algorithm)) {
        (void)fprintf(stderr, "search_bench: no such function or algorithm\n");
        return 2;
    }
    uint64_t first = strtoull(words[2], NULL, 10);
    uint64_t seeds = strtoull(words[3], NULL, 10);
    course.trials = strtoull(words[4], NULL, 10);
    if (!course.function->value) {
        CHECK(jobs);
        worker_start(&course.worker, jobs);
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run_seed(&course, seed);
    }
    worker_stop(&course.worker);
    return 0;
}

enum { TIMED_PARAMS = 12 };

static void fill_params(struct search_param *params)
{
    static const uint64_t first_two[] = {0, 1};
    for (size_t i = 0; i < TIMED_PARAMS; i++) {
        params[i] = (struct search_param){.kind = SEARCH_UNIFORM, .low = 0, .high = 1};
        if (i % 4 == 1) {
            params[i] = (struct search_param){.kind = SEARCH_LOG, .low = 1e-5, .high = 1};
        } else if (i % 4 == 2) {
            params[i] = (struct search_param){.kind = SEARCH_UNIFORM, .step = 1, .count = 64};
        } else if (i % 4 == 3) {
            params[i] = (struct search_param){.kind = SEARCH_CATEGORICAL, .count = 5};
        }
    }
    params[8].conditional = true;
    params[8].parent = 3;
    params[8].when = first_two;
    params[8].when_count = 2;
}

static double timed_value(const struct search_value *values)
{
    double sum = 0;
    for (size_t i = 0; i < TIMED_PARAMS; i++) {
        double x = values[i].present ? values[i].number : 0.5;
        sum += (x - 0.3) * (x - 0.3) / (1 + fabs(x));
    }
    return sum;
}

/* A search that was told `count` random trials. */
static struct search *prepare(enum search_algorithm algorithm, uint64_t count)
{
    struct search_param params[TIMED_PARAMS];
    const enum search_goal goal = SEARCH_MINIMIZE;
    fill_params(params);
    struct search_options options = {.params = params,
                                     .param_count = TIMED_PARAMS,
                                     .goals = &goal,
                                     .goal_count = 1,
                                     .algorithm = SEARCH_RANDOM,
                                     .parallel = 16};
    struct search *source = search_create(&options, NULL);
    options.algorithm = algorithm;
    struct search *search = search_create(&options, NULL);
    CHECK(source);
    CHECK(search);
    struct search_value values[TIMED_PARAMS];
    struct search_trial trial = {.values = values};
    for (uint64_t i = 0; i < count; i++) {
        CHECK(search_ask(source, &trial, NULL) == ERR_OK);
        CHECK(search_suggested(search, &trial, NULL) == ERR_OK);
        double value = timed_value(values);
        CHECK(search_tell(search, i, SEARCH_FINISHED, &value, NULL) == ERR_OK);
    }
    search_destroy(source);
    return search;
}

/* Asks and tells with 16 running: the mean and the longest of a pair of them. */
static void time_at(enum search_algorithm algorithm, uint64_t count)
{
    enum { ROUNDS = 100, RUNNING = 16 };
    struct search *search = prepare(algorithm, count);
    double waiting[RUNNING];
    int64_t sum_us = 0;
    int64_t longest_us = 0;
    for (uint64_t i = 0; i < ROUNDS + RUNNING; i++) {
        struct search_value values[TIMED_PARAMS];
        struct search_trial trial = {.values = values};
        int64_t start_us = clock_mono_us();
        CHECK(search_ask(search, &trial, NULL) == ERR_OK);
        if (i >= RUNNING) {
            CHECK(search_tell(search, trial.number - RUNNING, SEARCH_FINISHED,
                              &waiting[i % RUNNING], NULL) == ERR_OK);
        }
        int64_t spent_us = clock_mono_us() - start_us;
        waiting[i % RUNNING] = timed_value(values);
        sum_us += spent_us;
        longest_us = spent_us > longest_us ? spent_us : longest_us;
    }
    printf("%s %llu %.3f %.3f\n", search_algorithm_name(algorithm), (unsigned long long)count,
           (double)sum_us / 1000 / (ROUNDS + RUNNING), (double)longest_us / 1000);
    (void)fflush(stdout);
    search_destroy(search);
}

static int time_all(void)
{
    static const uint64_t counts[] = {50, 100, 200, 500, 1000, 5000, 20000, 100000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        time_at(SEARCH_TPE, counts[i]);
        time_at(SEARCH_AUTO, counts[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "list") == 0) {
        return list(argc > 2 ? argv[2] : NULL);
    }
    if (strcmp(verb, "space") == 0 && argc == 3 && function_find(argv[2])) {
        return space(function_find(argv[2]));
    }
    if (strcmp(verb, "least") == 0 && argc == 3 && function_find(argv[2])) {
        return least(function_find(argv[2]));
    }
    if (strcmp(verb, "eval") == 0) {
        return eval();
    }
    if (strcmp(verb, "run") == 0 && argc >= 7) {
        return run(argv + 2, argc > 7 ? argv[7] : NULL);
    }
    if (strcmp(verb, "time") == 0) {
        return time_all();
    }
    (void)fprintf(stderr, "usage: see the head of search_bench.c\n");
    return 2;
}
