#include "base/detmath.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 300000 };

static uint64_t bits_of(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* How far `got` is from the long double `want`, in units of the double's last place. */
static double error_ulp(double got, long double want)
{
    double size = fabs((double)want);
    double ulp = size < DBL_MIN ? 0x1p-1074 : nextafter(size, INFINITY) - size;
    return (double)(fabsl((long double)got - want) / (long double)ulp);
}

static void test_exp_is_within_an_ulp_of_libm(void **state)
{
    (void)state;
    struct rng rng = {.state = 11};
    double worst = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double span = i % 3 == 0 ? 1 : i % 3 == 1 ? 40 : 745;
        double x = (rng_unit(&rng) * 2 - 1) * span;
        if (x < 709.78) {
            worst = fmax(worst, error_ulp(det_exp(x), expl((long double)x)));
        }
    }
    print_message("exp: at most %.3f ulp\n", worst);
    assert_true(worst < 1);
}

static void test_log_is_within_an_ulp_of_libm(void **state)
{
    (void)state;
    struct rng rng = {.state = 12};
    double worst = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bits = rng_next(&rng) >> 1;
        double x = 0;
        memcpy(&x, &bits, sizeof x);
        x = i % 2 ? 0.5 + rng_unit(&rng) : x;
        if (x > 0 && isfinite(x)) {
            worst = fmax(worst, error_ulp(det_log(x), logl((long double)x)));
        }
    }
    print_message("log: at most %.3f ulp\n", worst);
    assert_true(worst < 1);
}

static void test_edges_of_exp_and_log(void **state)
{
    (void)state;
    assert_true(det_exp(0) == 1 && det_exp(-0.0) == 1);
    assert_true(det_exp(INFINITY) == INFINITY && det_exp(-INFINITY) == 0);
    assert_true(isnan(det_exp(NAN)) && isnan(det_log(NAN)) && isnan(det_log(-1)));
    assert_true(det_exp(709.79) == INFINITY && det_exp(-746) == 0);
    assert_true(isfinite(det_exp(709.782712893384)));
    assert_true(det_exp(-745.13) == 0x1p-1074);
    assert_true(det_exp(-1e308) == 0 && det_exp(1e308) == INFINITY);
    assert_true(det_exp(0x1p-1074) == 1);
    assert_true(det_log(0) == -INFINITY && det_log(-0.0) == -INFINITY && det_log(1) == 0);
    assert_true(det_log(INFINITY) == INFINITY);
    assert_true(error_ulp(det_log(0x1p-1074), logl(0x1p-1074L)) < 1);
    assert_true(error_ulp(det_log(DBL_MAX), logl((long double)DBL_MAX)) < 1);
}

static long double cdf_reference(double x)
{
    return erfcl(-(long double)x / sqrtl(2)) / 2;
}

static void test_the_normal_cdf_keeps_its_relative_precision(void **state)
{
    (void)state;
    double worst = 0;
    for (double x = -37; x < 12; x += 0.0037) {
        long double want = cdf_reference(x);
        worst = fmax(worst, (double)(fabsl((long double)det_normal_cdf(x) - want) / want));
    }
    print_message("normal cdf: at most %.2e relative\n", worst);
    assert_true(worst < 1e-14);
    assert_true(det_normal_cdf(-50) == 0 && det_normal_cdf(INFINITY) == 1);
    assert_true(det_normal_cdf(0) == 0.5 && isnan(det_normal_cdf(NAN)));
}

/* Judged by how far the cdf of the answer is from p, divided by the slope. */
static void test_the_normal_quantile_inverts_the_cdf(void **state)
{
    (void)state;
    struct rng rng = {.state = 13};
    double worst = 0;
    for (int i = 0; i < ROUNDS / 10; i++) {
        double p = i % 2 ? rng_open_unit_of(rng_next(&rng)) : pow(10, -300 * rng_unit(&rng));
        double x = det_normal_quantile(p);
        /* Above one half, p itself is coarse: judge by the distance of 1 - p, exact there. */
        long double off =
            p < 0.5 ? cdf_reference(x) - (long double)p : (1 - (long double)p) - cdf_reference(-x);
        long double slope = expl(-(long double)x * x / 2) / sqrtl(2 * 3.14159265358979323846264L);
        worst = fmax(worst, (double)(fabsl(off / slope / x)));
    }
    print_message("normal quantile: at most %.2e relative\n", worst);
    assert_true(worst < 2e-15);
    assert_true(det_normal_quantile(0.5) == 0);
    assert_true(det_normal_quantile(0) == -INFINITY && det_normal_quantile(1) == INFINITY);
    assert_true(isnan(det_normal_quantile(-0.1)) && isnan(det_normal_quantile(1.1)));
    assert_true(isnan(det_normal_quantile(NAN)));
}

/* Any machine, compiler or optimisation level must give exactly these. */
static void test_results_are_pinned_bit_for_bit(void **state)
{
    (void)state;
    struct rng rng = {.state = 14};
    uint64_t digest = 0;
    for (int i = 0; i < 20000; i++) {
        double u = rng_open_unit_of(rng_next(&rng));
        digest = rng_mix(digest, bits_of(det_exp(u * 1400 - 700)), 1);
        digest = rng_mix(digest, bits_of(det_log(u)), 2);
        digest = rng_mix(digest, bits_of(det_normal_quantile(u)), 3);
        digest = rng_mix(digest, bits_of(det_normal_cdf(u * 20 - 10)), 4);
    }
    assert_int_equal(digest, 0x82fef88786582ef3u);
    assert_int_equal(bits_of(det_exp(1)), bits_of(0x1.5bf0a8b14576ap+1));
    assert_int_equal(bits_of(det_log(10)), bits_of(0x1.26bb1bbb55516p+1));
    assert_int_equal(bits_of(det_normal_quantile(0.975)), bits_of(0x1.f5c0331eeff82p+0));
    assert_int_equal(bits_of(det_normal_cdf(-2)), bits_of(0x1.74bcf82c9d85fp-6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_within_an_ulp_of_libm),
        cmocka_unit_test(test_log_is_within_an_ulp_of_libm),
        cmocka_unit_test(test_edges_of_exp_and_log),
        cmocka_unit_test(test_the_normal_cdf_keeps_its_relative_precision),
        cmocka_unit_test(test_the_normal_quantile_inverts_the_cdf),
        cmocka_unit_test(test_results_are_pinned_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
