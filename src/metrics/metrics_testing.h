/* metrics_testing.h - a sink for the tests: points become text that is easy to compare. */
#ifndef METRICS_METRICS_TESTING_H
#define METRICS_METRICS_TESTING_H

#include "base/str.h"
#include "metrics/metrics.h"

/* Appends "NAME@STEP=VALUE" for each point, with blanks between; without a step "NAME=VALUE". */
struct metric_sink testing_sink(struct str *out);

/* The same with "~TIME" behind each. */
struct metric_sink testing_timed_sink(struct str *out);

/* A new empty folder in TMPDIR or /tmp, into out; the test removes it (io_remove_tree). */
void testing_folder(struct str *out);

#endif
