/* words.h - what training programs call things: which names are metrics and which are not.
 *
 * Names are judged by their parts, cut at _ - / . @ and blanks, in any case: val_loss and
 * Loss/train both have the part "loss". Pure.
 */
#ifndef METRICS_WORDS_H
#define METRICS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    WORD_METRIC = 1 << 0,  /* a metric where "=" or ":" stands before the number */
    WORD_PLAIN = 1 << 1,   /* also where only a blank does: loss 0.3 */
    WORD_WHOLE = 1 << 2,   /* also if the number has no fraction: loss: 2 */
    WORD_RATIO = 1 << 3,   /* also as a ratio: accuracy: 97/100 */
    WORD_NEVER = 1 << 4,   /* a setting or housekeeping: pid, seed, loss_weight, elapsed */
    WORD_EVERYDAY = 1 << 5 /* a word that ordinary text uses too: error, score */
};

/* The flags of a name; 0: an unknown one. */
unsigned words_of_name(const char *name, size_t size);

/* A counter of progress: epoch, step, global_step, iteration, iter. NULL: not one; otherwise the
 * key for a record, "epoch" or "step". */
const char *words_counter(const char *word, size_t size);

/* Which data a word says that a metric is of: "validation" gives "val", "average" gives "" (says
 * nothing), NULL: none of these words. */
const char *words_part(const char *word, size_t size);

/* target accuracy: 0.9 is not a result. */
bool words_is_wish(const char *word, size_t size);

/* Units that follow a number: s, MB, minutes. */
bool words_is_unit(const char *word, size_t size);

#endif
