#include "base/detmath.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Excess precision (x87) would change results. */
_Static_assert(FLT_EVAL_METHOD == 0, "doubles must be rounded after each operation");

/* ln 2 in two parts; the first has 32 bits, so that k * LN2_HIGH is exact for every exponent k. */
static const double LN2_HIGH = 0x1.62e42feep-1;
static const double LN2_LOW = 0x1.a39ef35793c76p-33;

static uint64_t bits_of(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^k for k in [-1022, 1023]. */
static double power_of_two(int k)
{
    return double_of((uint64_t)(k + 1023) << 52);
}

/* y * 2^k, rounded once; y is near 1. */
static double scale(double y, int k)
{
    if (k > 1023) {
        return y * 2 * power_of_two(k - 1);
    }
    if (k < -1021) {
        return y * power_of_two(k + 64) * 0x1p-64;
    }
    return y * power_of_two(k);
}

/* (exp(r) - 1 - r) / r^2 by its Taylor series; for |r| <= ln(2)/2 what is left out is under 1e-19.
 */
static double exp_tail(double r)
{
    static const double inverse_factorials[] = {
        1.0 / 2,         1.0 / 6,          1.0 / 24,          1.0 / 120,     1.0 / 720,
        1.0 / 5040,      1.0 / 40320,      1.0 / 362880,      1.0 / 3628800, 1.0 / 39916800,
        1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200,
    };
    double sum = 0;
    for (int i = sizeof inverse_factorials / sizeof inverse_factorials[0] - 1; i >= 0; i--) {
        sum = sum * r + inverse_factorials[i];
    }
    return sum;
}

double det_exp(double x)
{
    if (x != x) {
        return x;
    }
    if (x > 0x1.62e42fefa39efp+9) { /* ln of the largest double */
        return INFINITY;
    }
    if (x < -745.2) {
        return 0;
    }
    int k = (int)(x * 0x1.71547652b82fep+0 + (x < 0 ? -0.5 : 0.5)); /* nearest multiple of ln 2 */
    double high = x - k * LN2_HIGH;
    double low = k * LN2_LOW;
    double r = high - low;
    double lost = (high - r) - low; /* what rounding took from r */
    return scale(1 + (r + (r * r * exp_tail(r) + lost)), k);
}

/* With s = f / (2 + f): ln(1 + f) = 2s + s*R, R = 2/3 s^2 + 2/5 s^4 + ... */
static double log_series(double s_squared)
{
    double sum = 0;
    for (int i = 25; i >= 3; i -= 2) {
        sum = sum * s_squared + 2.0 / i;
    }
    return sum * s_squared;
}

double det_log(double x)
{
    if (x != x || x == INFINITY) {
        return x;
    }
    if (x < 0) {
        return NAN;
    }
    if (x == 0) {
        return -INFINITY;
    }
    int k = 0;
    if (x < DBL_MIN) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = bits_of(x);
    k += (int)(bits >> 52) - 1023;
    double m = double_of((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt 2: keep f small on both sides */
        m *= 0.5;
        k++;
    }
    double f = m - 1;
    double s = f / (2 + f);
    double half_square = 0.5 * f * f;
    /* 2s = f - s*f = f - f^2/2 + s*f^2/2: the leading term f is exact. */
    double rest = s * (half_square + log_series(s * s)) + k * LN2_LOW;
    return k * LN2_HIGH - ((half_square - rest) - f);
}

/* exp(-x^2/2): the square is split so that its rounding is not magnified by exp. */
static double gauss(double x)
{
    double head = double_of(bits_of(x) & 0xfffffffff8000000u); /* 26 bits: head^2 is exact */
    return det_exp(-0.5 * head * head) * det_exp(-0.5 * (x - head) * (x + head));
}

static const double SQRT_2PI = 0x1.40d931ff62706p+1;

/* P(X > x) for x >= 1.5 by the continued fraction of Mills' ratio, 1/(x + 1/(x + 2/(x + ...))). */
static double upper_tail(double x)
{
    double fraction = x;
    for (int i = 250; i > 0; i--) {
        fraction = x + i / fraction;
    }
    return gauss(x) / SQRT_2PI / fraction;
}

/* P(0 < X < x) for 0 <= x < 1.5: density times x + x^3/3 + x^5/15 + ... */
static double middle(double x)
{
    double term = x;
    double sum = x;
    for (int i = 3; i < 60; i += 2) {
        term *= x * x / i;
        sum += term;
    }
    return sum * gauss(x) / SQRT_2PI;
}

double det_normal_cdf(double x)
{
    if (x != x) {
        return x;
    }
    if (x < -40) {
        return 0;
    }
    if (x > 40) {
        return 1;
    }
    if (x <= -1.5) {
        return upper_tail(-x);
    }
    if (x >= 1.5) {
        return 1 - upper_tail(x);
    }
    return x < 0 ? 0.5 - middle(-x) : 0.5 + middle(x);
}

/* Rational functions of Wichura, "Algorithm AS 241: the percentage points of the normal
 * distribution", Applied Statistics 37 (1988): numerator and denominator, lowest power first. */
struct rational {
    double top[8];
    double bottom[8];
};

static const struct rational CENTRE = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
     1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
     3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
     5.2264952788528545610e+3},
};

static const struct rational NEAR_TAIL = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9},
};

static const struct rational FAR_TAIL = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15},
};

static double rational_at(const struct rational *rational, double x)
{
    double top = 0;
    double bottom = 0;
    for (int i = 7; i >= 0; i--) {
        top = top * x + rational->top[i];
        bottom = bottom * x + rational->bottom[i];
    }
    return top / bottom;
}

double det_normal_quantile(double p)
{
    if (!(p >= 0 && p <= 1)) {
        return NAN;
    }
    if (p == 0 || p == 1) {
        return p == 0 ? -INFINITY : INFINITY;
    }
    double from_centre = p - 0.5;
    if (fabs(from_centre) <= 0.425) {
        return from_centre * rational_at(&CENTRE, 0.180625 - from_centre * from_centre);
    }
    double r = sqrt(-det_log(from_centre < 0 ? p : 1 - p));
    double x = r <= 5 ? rational_at(&NEAR_TAIL, r - 1.6) : rational_at(&FAR_TAIL, r - 5);
    return from_centre < 0 ? -x : x;
}
