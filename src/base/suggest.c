#include "base/suggest.h"

#include <string.h>
#include <strings.h>

enum { WORD_MAX = 40 };

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance; words longer than WORD_MAX are never near. */
static int distance(const char *a, const char *b)
{
    int rows[3][WORD_MAX + 1];
    int a_size = (int)strlen(a);
    int b_size = (int)strlen(b);
    for (int j = 0; j <= b_size; j++) {
        rows[0][j] = j;
    }
    for (int i = 1; i <= a_size; i++) {
        int *now = rows[i % 3];
        const int *last = rows[(i + 2) % 3];
        const int *before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= b_size; j++) {
            int cost = a[i - 1] == b[j - 1] ? 0 : 1;
            now[j] = min_of(min_of(last[j] + 1, now[j - 1] + 1), last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = min_of(now[j], before[j - 2] + 1);
            }
        }
    }
    return rows[a_size % 3][b_size];
}

const char *suggest_nearest(const char *word, const char *const *words, size_t count)
{
    const char *best = NULL;
    int best_distance = WORD_MAX;
    size_t word_size = strlen(word);
    if (word_size > WORD_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) > WORD_MAX) {
            continue;
        }
        int d = strcasecmp(word, words[i]) == 0 ? 0 : distance(word, words[i]);
        int limit = 1 + (int)strlen(words[i]) / 3;
        if (d <= limit && d < best_distance && d < (int)strlen(words[i])) {
            best = words[i];
            best_distance = d;
        }
    }
    return best;
}
