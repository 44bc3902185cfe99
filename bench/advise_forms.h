/* advise_forms.h - was the form of the throughput law chosen well? Asked of made-up clusters.
 *
 * Workers compute for c seconds and are served in s; how both add up depends on what happens
 * between. Four ways of it, each followed exactly: a queue before one server (mean value analysis),
 * no queue at all, one after the other, and servers that slow down as more workers come. The three
 * smallest clusters are known, with 3 % of noise; the larger ones are foretold. */
#ifndef BENCH_ADVISE_FORMS_H
#define BENCH_ADVISE_FORMS_H

/* Prints the median error of the program's model and of the law alone with other exponents. */
void forms_report(void);

#endif
