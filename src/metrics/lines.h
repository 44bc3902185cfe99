/* lines.h - metrics recognised in what a task prints, as it prints it.
 *
 * By itself it understands what training programs commonly print, for example
 *
 *     epoch 3: loss=0.12 accuracy=0.97            step 100 | loss 0.3 | acc: 91.2%
 *     Epoch 3/10                                  (Keras: then the progress bar, rewritten in
 * place) 1875/1875 [====] - 3s 1ms/step - loss: 0.29 - val_loss: 0.5
 *     {'loss': 0.5, 'epoch': 1.0}                 {"step": 3, "loss": 0.5}
 *     [12]  train-rmse:0.51                       Test set: Average loss: 0.02, Accuracy: 97/100
 *
 * and is careful with ordinary text: linescan.h and words.h say what counts. With patterns
 * (linepat.h) only they count, unless lines_use_defaults says otherwise. A line that holds
 * "drover: {...}", as `drover report` and the Python module print it, counts in any case.
 *
 * Progress bars: what is overwritten (carriage return, backspaces, or a bar "12/1875" that is not
 * full) counts only if the next text that holds metrics is of another step, or nothing follows.
 * Metrics without a step have the one of the last counter: Keras' "Epoch 3/10", or the last line
 * that had both.
 *
 * Colours and other escape sequences are taken out. Of a line longer than LINES_LINE_MAX the rest
 * is not looked at. However the bytes are cut into pieces, the result is the same (but for the
 * times, which are those of the pieces). Memory is bounded, time is linear. Pure; one thread.
 */
#ifndef METRICS_LINES_H
#define METRICS_LINES_H

#include "base/err.h"
#include "metrics/metrics.h"

enum { LINES_LINE_MAX = 8192, LINES_PATTERNS_MAX = 32 };

struct lines;

struct lines *lines_create(void);
void lines_destroy(struct lines *lines); /* NULL does nothing */

/* The user asked for this metric (the recipe's `metric:`): its name is as good as a known one.
 * At most 16 are remembered; a name that is not valid is not. */
void lines_want(struct lines *lines, const char *name);

/* A pattern as in linepat.h, and from now on no defaults. ERR_INVALID, also for one too many. */
MUST_USE enum err_code lines_add_pattern(struct lines *lines, const char *name, const char *pattern,
                                         struct err *err);
void lines_use_defaults(struct lines *lines, bool use);

/* The next bytes of the log. */
void lines_feed(struct lines *lines, const void *bytes, size_t size, int64_t at_ms,
                const struct metric_sink *sink);
/* Nothing more will come: a last line without its end is taken as it is. */
void lines_end(struct lines *lines, int64_t at_ms, const struct metric_sink *sink);

#endif
