#include "bench/search_functions.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static double branin(const struct function *function, uint64_t seed,
                     const struct search_value *values)
{
    (void)function;
    (void)seed;
    double x = values[0].number;
    double y = values[1].number;
    double bend = y - 5.1 / (4 * PI * PI) * x * x + 5 / PI * x - 6;
    return bend * bend + 10 * (1 - 1 / (8 * PI)) * cos(x) + 10;
}

static double hartmann6(const struct function *function, uint64_t seed,
                        const struct search_value *values)
{
    static const double a[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
    static const double p[4][6] = {{.1312, .1696, .5569, .0124, .8283, .5886},
                                   {.2329, .4135, .8307, .3736, .1004, .9991},
                                   {.2348, .1451, .3522, .2883, .3047, .6650},
                                   {.4047, .8828, .8732, .5743, .1091, .0381}};
    static const double alpha[4] = {1, 1.2, 3, 3.2};
    (void)function;
    (void)seed;
    double sum = 0;
    for (size_t i = 0; i < 4; i++) {
        double inner = 0;
        for (size_t j = 0; j < 6; j++) {
            double gap = values[j].number - p[i][j];
            inner += a[i][j] * gap * gap;
        }
        sum -= alpha[i] * exp(-inner);
    }
    return sum;
}

static double ackley_of(const double *x, size_t count)
{
    double squares = 0;
    double waves = 0;
    for (size_t i = 0; i < count; i++) {
        squares += x[i] * x[i];
        waves += cos(2 * PI * x[i]);
    }
    double n = (double)count;
    return -20 * exp(-0.2 * sqrt(squares / n)) - exp(waves / n) + 20 + exp(1);
}

static double rastrigin_of(const double *x, size_t count)
{
    double sum = 10 * (double)count;
    for (size_t i = 0; i < count; i++) {
        sum += x[i] * x[i] - 10 * cos(2 * PI * x[i]);
    }
    return sum;
}

static double rosenbrock_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        double valley = x[i + 1] - x[i] * x[i];
        sum += 100 * valley * valley + (1 - x[i]) * (1 - x[i]);
    }
    return sum;
}

static double levy_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double w = 1 + (x[i] - 1) / 4;
        if (i == 0) {
            sum += sin(PI * w) * sin(PI * w);
        }
        double wave = i + 1 < count ? sin(PI * w + 1) : sin(2 * PI * w);
        sum += (w - 1) * (w - 1) * (1 + (i + 1 < count ? 10 : 1) * wave * wave);
    }
    return sum;
}

static double griewank_of(const double *x, size_t count)
{
    double sum = 1;
    double product = 1;
    for (size_t i = 0; i < count; i++) {
        sum += x[i] * x[i] / 4000;
        product *= cos(x[i] / sqrt((double)(i + 1)));
    }
    return sum - product;
}

static double styblinski_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double square = x[i] * x[i];
        sum += square * square - 16 * square + 5 * x[i];
    }
    return sum / 2 + 39.166165703771412 * (double)count;
}

static double ellipsoid_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += pow(1000, (double)i / (double)(count - 1)) * x[i] * x[i];
    }
    return sum;
}

static double michalewicz_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum -= sin(x[i]) * pow(sin((double)(i + 1) * x[i] * x[i] / PI), 20);
    }
    return sum;
}

static double dixon_of(const double *x, size_t count)
{
    double sum = (x[0] - 1) * (x[0] - 1);
    for (size_t i = 1; i < count; i++) {
        double bend = 2 * x[i] * x[i] - x[i - 1];
        sum += (double)(i + 1) * bend * bend;
    }
    return sum;
}

typedef double plain_fn(const double *x, size_t count);

static double at_plain(plain_fn *plain, const struct function *function,
                       const struct search_value *values)
{
    double x[FUNCTION_PARAMS_MAX] = {0};
    for (size_t i = 0; i < function->param_count; i++) {
        x[i] = values[i].number;
    }
    return plain(x, function->param_count);
}

/* Moved so that the optimum is up to `reach` of the range away from where it was. */
static void move(const struct function *function, uint64_t seed, double reach,
                 const struct search_value *values, double *x)
{
    for (size_t i = 0; i < function->param_count; i++) {
        const struct search_param *param = &function->params[i];
        double shift = rng_unit_of(rng_mix(seed, i, 77)) * 2 - 1;
        x[i] = values[i].number - shift * reach * (param->high - param->low);
    }
}

/* Turned by a random orthogonal matrix: reflections across as many random planes. */
static void turn(size_t count, uint64_t seed, double *x)
{
    struct rng rng = {seed * 31 + 5};
    for (size_t plane = 0; plane < count; plane++) {
        double normal[FUNCTION_PARAMS_MAX];
        double square = 0;
        double along = 0;
        for (size_t i = 0; i < count; i++) {
            double a = rng_unit(&rng);
            double b = rng_unit(&rng);
            normal[i] = sqrt(-2 * log(1 - a)) * cos(2 * PI * b);
            square += normal[i] * normal[i];
            along += normal[i] * x[i];
        }
        for (size_t i = 0; i < count; i++) {
            x[i] -= 2 * along / square * normal[i];
        }
    }
}

#define PLAIN(name)                                                                                \
    static double name(const struct function *function, uint64_t seed,                             \
                       const struct search_value *values)                                          \
    {                                                                                              \
        (void)seed;                                                                                \
        return at_plain(name##_of, function, values);                                              \
    }
PLAIN(ackley)
PLAIN(rastrigin)
PLAIN(rosenbrock)
PLAIN(levy)
PLAIN(styblinski)
PLAIN(michalewicz)
PLAIN(dixon)

#define MOVED(name)                                                                                \
    static double name##_moved(const struct function *function, uint64_t seed,                     \
                               const struct search_value *values)                                  \
    {                                                                                              \
        double x[FUNCTION_PARAMS_MAX];                                                             \
        move(function, seed, 0.3, values, x);                                                      \
        return name##_of(x, function->param_count);                                                \
    }
MOVED(ackley)
MOVED(rastrigin)
MOVED(griewank)

#define TURNED(name)                                                                               \
    static double name##_turned(const struct function *function, uint64_t seed,                    \
                                const struct search_value *values)                                 \
    {                                                                                              \
        double x[FUNCTION_PARAMS_MAX];                                                             \
        move(function, seed, 0.2, values, x);                                                      \
        turn(function->param_count, seed, x);                                                      \
        return name##_of(x, function->param_count);                                                \
    }
TURNED(ellipsoid)
TURNED(rastrigin)

static double square(double x)
{
    return x * x;
}

/* As tuning a network might look: three optimisers with their own best learning rate, one of them
 * with a momentum, one with two decays; width and depth trade off against each other. */
static double mixed(const struct function *function, uint64_t seed,
                    const struct search_value *values)
{
    static const double offset[3] = {0.25, 0, 0.1};
    static const double best_rate[3] = {-1.2, -2.8, -2.2};
    (void)function;
    (void)seed;
    uint64_t kind = values[0].index;
    double rate = log10(values[1].number);
    double width = (double)values[2].index;
    double depth = values[3].number;
    double drop = values[4].number;
    double sum = offset[kind];
    sum += 0.12 * square(rate - best_rate[kind] - 0.12 * (depth - 4));
    sum += 0.02 * square(depth - 4) + 0.05 * square(width - 4 + 0.5 * (depth - 4));
    sum += 0.8 * square(drop - 0.1 * width + 0.1);
    if (kind == 0) {
        sum += 1.5 * square(values[5].number - 0.9);
    }
    if (kind == 1) {
        sum += 0.06 * square(log10(values[6].number) + 1) + 0.5 * square(values[7].number - 0.3);
    }
    return sum;
}

/* Everything discrete: 8 x 6 x 5 x 4 x 4 x (3 or 2 more) = 11,520 and 7,680 combinations. */
static double choices(const struct function *function, uint64_t seed,
                      const struct search_value *values)
{
    static const double effect[5] = {0.4, 0, 0.7, 0.2, 0.5};
    (void)function;
    (void)seed;
    double a = (double)values[0].index;
    double b = (double)values[1].index;
    double sum = 0.03 * square(a - 5) + 0.05 * square(b - 2) + 0.02 * (a - 5) * (b - 2);
    sum += effect[values[2].index];
    sum += values[3].index == values[2].index % 4 ? 0 : 0.3;
    sum += 0.1 * square((double)values[4].index - 1);
    sum += values[5].present ? 0.15 * (double)values[5].index : 0.25;
    return sum;
}

#define RANGE(from, to)                                                                            \
    {                                                                                              \
        .name = "x", .kind = SEARCH_UNIFORM, .low = (from), .high = (to)                           \
    }
#define RANGES2(from, to) RANGE(from, to), RANGE(from, to)
#define RANGES4(from, to) RANGES2(from, to), RANGES2(from, to)
#define RANGES6(from, to) RANGES4(from, to), RANGES2(from, to)
#define RANGES8(from, to) RANGES4(from, to), RANGES4(from, to)
#define RANGES10(from, to) RANGES8(from, to), RANGES2(from, to)

static const uint64_t first[] = {0};
static const uint64_t second[] = {1};
static const uint64_t first_two[] = {0, 1};

/* What search_jobs.py trains: gradient boosting, the same parameters for both data sets. */
#define BOOSTING                                                                                   \
    {                                                                                              \
        {.name = "eta", .kind = SEARCH_LOG, .low = 0.01, .high = 1},                               \
            {.name = "max_depth",                                                                  \
             .kind = SEARCH_UNIFORM,                                                               \
             .low = 1,                                                                             \
             .high = 8,                                                                            \
             .count = 8,                                                                           \
             .step = 1},                                                                           \
            {.name = "rounds", .kind = SEARCH_LOG, .low = 5, .high = 60, .count = 56, .step = 1},  \
            {.name = "min_child_weight", .kind = SEARCH_LOG, .low = 0.05, .high = 20},             \
            {.name = "lambda", .kind = SEARCH_LOG, .low = 0.001, .high = 100},                     \
            {.name = "subsample", .kind = SEARCH_UNIFORM, .low = 0.3, .high = 1},                  \
            {.name = "colsample_bytree", .kind = SEARCH_UNIFORM, .low = 0.1, .high = 1},           \
            {.name = "grow_policy", .kind = SEARCH_CATEGORICAL, .count = 2},                       \
            {.name = "max_leaves",                                                                 \
             .kind = SEARCH_LOG,                                                                   \
             .low = 2,                                                                             \
             .high = 64,                                                                           \
             .count = 63,                                                                          \
             .step = 1,                                                                            \
             .conditional = true,                                                                  \
             .parent = 7,                                                                          \
             .when = second,                                                                       \
             .when_count = 1},                                                                     \
    }

static const struct function functions[] = {
    {"branin", FUNCTION_NAMED, 2, {RANGE(-5, 10), RANGE(0, 15)}, 0.397887357729739, branin},
    {"hartmann6", FUNCTION_NAMED, 6, {RANGES6(0, 1)}, -3.32236801141551, hartmann6},
    {"ackley10", FUNCTION_NAMED, 10, {RANGES10(-32.768, 32.768)}, 0, ackley},
    {"rosenbrock8", FUNCTION_NAMED, 8, {RANGES8(-2.048, 2.048)}, 0, rosenbrock},
    {"rastrigin6", FUNCTION_NAMED, 6, {RANGES6(-5.12, 5.12)}, 0, rastrigin},
    {"levy8", FUNCTION_NAMED, 8, {RANGES8(-10, 10)}, 0, levy},
    {"mixed",
     FUNCTION_NAMED,
     8,
     {{.name = "optimiser", .kind = SEARCH_CATEGORICAL, .count = 3},
      {.name = "rate", .kind = SEARCH_LOG, .low = 1e-5, .high = 1},
      {.name = "width", .kind = SEARCH_ORDERED, .count = 8},
      {.name = "depth", .kind = SEARCH_UNIFORM, .low = 1, .high = 12, .count = 12, .step = 1},
      {.name = "dropout", .kind = SEARCH_UNIFORM, .low = 0, .high = 0.8},
      {.name = "momentum",
       .kind = SEARCH_UNIFORM,
       .low = 0,
       .high = 1,
       .conditional = true,
       .parent = 0,
       .when = first,
       .when_count = 1},
      {.name = "decay",
       .kind = SEARCH_LOG,
       .low = 1e-4,
       .high = 1,
       .conditional = true,
       .parent = 0,
       .when = second,
       .when_count = 1},
      {.name = "beta",
       .kind = SEARCH_UNIFORM,
       .low = 0,
       .high = 1,
       .conditional = true,
       .parent = 0,
       .when = second,
       .when_count = 1}},
     0,
     mixed},
    {"digits", FUNCTION_JOB, 9, BOOSTING, 0, NULL},
    {"cancer", FUNCTION_JOB, 9, BOOSTING, 0, NULL},
    {"ackley10-moved", FUNCTION_HELD, 10, {RANGES10(-32.768, 32.768)}, 0, ackley_moved},
    {"rastrigin6-moved", FUNCTION_HELD, 6, {RANGES6(-5.12, 5.12)}, 0, rastrigin_moved},
    {"rastrigin4-turned", FUNCTION_HELD, 4, {RANGES4(-5.12, 5.12)}, 0, rastrigin_turned},
    {"griewank6-moved", FUNCTION_HELD, 6, {RANGES6(-600, 600)}, 0, griewank_moved},
    {"styblinski6", FUNCTION_HELD, 6, {RANGES6(-5, 5)}, 0, styblinski},
    {"ellipsoid8-turned", FUNCTION_HELD, 8, {RANGES8(-5, 5)}, 0, ellipsoid_turned},
    {"michalewicz4",
     FUNCTION_HELD,
     4,
     {RANGES4(0, 3.14159265358979)},
     -3.69885709846664,
     michalewicz},
    {"dixon6", FUNCTION_HELD, 6, {RANGES6(-10, 10)}, 0, dixon},
    {"choices",
     FUNCTION_HELD,
     6,
     {{.name = "a", .kind = SEARCH_ORDERED, .count = 8},
      {.name = "b", .kind = SEARCH_UNIFORM, .low = 0, .high = 5, .count = 6, .step = 1},
      {.name = "c", .kind = SEARCH_CATEGORICAL, .count = 5},
      {.name = "d", .kind = SEARCH_CATEGORICAL, .count = 4},
      {.name = "e", .kind = SEARCH_ORDERED, .count = 4},
      {.name = "f",
       .kind = SEARCH_CATEGORICAL,
       .count = 3,
       .conditional = true,
       .parent = 4,
       .when = first_two,
       .when_count = 2}},
     0,
     choices},
};

size_t function_count(void)
{
    return sizeof functions / sizeof functions[0];
}

const struct function *function_at(size_t index)
{
    return &functions[index];
}

const struct function *function_find(const char *name)
{
    for (size_t i = 0; i < function_count(); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return &functions[i];
        }
    }
    return NULL;
}
