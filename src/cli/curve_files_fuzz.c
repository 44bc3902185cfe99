/* Any bytes may be read as curves. What is accepted is judged and drawn: every number that comes
 * out is finite, every point found is one of the curve's. */
#include "cli/curve_files.h"

#include "advise/stabilise.h"
#include "base/mem.h"
#include "cli/draw.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct curve_set *set)
{
    struct stabilise_group *groups = mem_array(set->count, sizeof *groups);
    struct stabilise_options options = {.goal = STABILISE_MINIMIZE, .resamples = 20};
    size_t group_count = 0;
    for (size_t first = 0; first < set->count;) {
        size_t end = curve_set_group_end(set, first);
        struct stabilise_result *results = mem_array(end - first, sizeof *results);
        for (size_t i = first; i < end; i++) {
            const struct curve *run = &set->runs[i];
            stabilise_whole(run->points, run->count, &options, &results[i - first]);
            CHECK(results[i - first].index < run->count);
            CHECK(isfinite(results[i - first].level));
            CHECK(stabilise_replay(run->points, run->count, &options) <= run->count);
        }
        stabilise_repeats(set->runs + first, results, end - first, &options,
                          &groups[group_count++]);
        free(results);
        first = end;
    }
    AUTO_STR struct str svg = {0};
    AUTO_STR struct str text = {0};
    struct draw_target target = {
        .svg = &svg, .text = &text, .terminal = {.width = 60, .height = 9}};
    draw_curves(&target, set, groups, "metric");
    free(groups);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct curve_columns columns = {0};
    if (size > 0) {
        columns.skip_bad = data[0] & 1;
        columns.wide = data[0] & 2 ? "v" : NULL;
        data++;
        size--;
    }
    AUTO_FREE char *text = mem_alloc(size + 1); /* what parses text may rely on an end */
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)data[i];
    }
    struct curve_set set = {0};
    struct curve_counts counts = {0};
    struct err err;
    struct curve_text input = {.file = "fuzz", .text = text, .size = size};
    if (curve_files_parse(&input, &columns, &set, &counts, &err) == ERR_OK) {
        curve_set_finish(&set);
        judge(&set);
    }
    curve_set_release(&set);
    return 0;
}
