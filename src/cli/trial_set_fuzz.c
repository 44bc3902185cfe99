/* Whatever a server answers for trials: read, ordered, printed, drawn. What is printed cannot steer
 * a terminal. */
#include "base/check.h"
#include "cli/trial_best.h"
#include "cli/trial_compare.h"
#include "cli/trial_picture.h"
#include "cli/trial_show.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TRIALS_MAX = 64 }; /* forests of more take their time */

static void print(const struct trial_set *set, const struct trial_search *search, struct str *out)
{
    struct importance found;
    struct plot_terminal terminal = {.width = 60, .height = 10};
    trial_show_heading(out, set, search);
    trial_show_table(out, search, SIZE_MAX);
    trial_picture_term(search, search->goal_count - 1, &terminal, out);
    if (search->count > 0) {
        trial_best_text(out, search, &search->trials[0], search->trials[0].node);
    }
    if (search->count <= TRIALS_MAX &&
        trial_picture_importance(search, 0, &found, NULL) == ERR_OK) {
        trial_show_importance(out, search, 0, &found);
    }
}

static void draw(const struct trial_search *search, struct str *out)
{
    for (int i = 0; i < TRIAL_PICTURE_COUNT && search->count <= TRIALS_MAX; i++) {
        (void)!trial_picture_svg(search, (enum trial_picture)i, 0, out, NULL);
    }
    trial_show_csv(out, search, SIZE_MAX);
    trial_show_json(out, search, SIZE_MAX);
    if (search->count > 0) {
        trial_best_json(out, search, &search->trials[0], search->trials[0].node);
    }
}

static void compare(const struct trial_set *set, struct str *text, struct str *svg)
{
    struct trial_entry entries[2];
    const char *workflows[] = {"a", "b"};
    struct plot_series series[2];
    struct trial_comparison comparison;
    for (size_t i = 0; i < 2; i++) {
        entries[i] = (struct trial_entry){.name = "x", .search = &set->searches[i % set->count]};
    }
    trial_compare(entries, 2, &comparison);
    trial_compare_text(text, &comparison);
    trial_compare_json(svg, &comparison, workflows);
    struct plot plot = trial_compare_plot(&comparison, series);
    if (comparison.outcomes[0].line_count > 0) {
        plot_svg(&plot, svg);
    }
    trial_compare_release(&comparison);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jread doc = {0};
    if (jread_parse(&doc, (const char *)data, size, NULL) == ERR_OK) {
        struct trial_set set;
        struct str text = {0};
        struct str other = {0};
        trial_set_read(doc.root, &set);
        for (size_t i = 0; i < set.count; i++) {
            print(&set, &set.searches[i], &text);
            draw(&set.searches[i], &other);
        }
        if (set.count > 0) {
            compare(&set, &text, &other);
        }
        CHECK(!memchr(str_text(&text), '\033', text.size));
        str_release(&text);
        str_release(&other);
        trial_set_release(&set);
    }
    jread_release(&doc);
    return 0;
}
