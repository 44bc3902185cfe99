/* detmath.h - exp, log and the normal distribution with the same bits on every machine.
 *
 * libm differs between versions and between processors with and without fused multiply-add, so a
 * draw that went through it could not be repeated elsewhere. These use only + - * / and sqrt, each
 * of which IEEE 754 rounds exactly (the build has -ffp-contract=off). Pure; any thread.
 */
#ifndef BASE_DETMATH_H
#define BASE_DETMATH_H

/* Within 1 ulp. Overflow gives infinity, underflow goes through the subnormals to 0; NaN stays. */
double det_exp(double x);

/* Natural logarithm, within 1 ulp. 0 gives -infinity, below 0 (and NaN) gives NaN. */
double det_log(double x);

/* The probability that a standard normal variable is at most x: within 1e-14 relative, in the
 * lower tail too, down to the smallest normal double (x about -37.5). */
double det_normal_cdf(double x);

/* Its inverse: the x with det_normal_cdf(x) = p, within 2e-15 relative (Wichura's AS 241).
 * 0 gives -infinity, 1 gives infinity, anything else outside (0, 1) gives NaN. */
double det_normal_quantile(double p);

#endif
