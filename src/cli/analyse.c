#include "cli/analyse.h"

#include "base/csv.h"
#include "base/io.h"
#include "base/mem.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PLOT_ROWS = 18, PLOT_COLUMNS = 78, PLOT_COLUMNS_MAX = 110 };

static int read_files(const struct analyse *analyse, struct curve_set *set,
                      struct curve_counts *counts)
{
    for (size_t i = 0; i < analyse->file_count; i++) {
        struct err err;
        if (curve_files_read(analyse->files[i], &analyse->columns, set, counts, &err) != ERR_OK) {
            return cli_error(EXIT_USAGE, "%s", err.text);
        }
    }
    if (set->count == 0) {
        return cli_error(EXIT_USAGE, "%s: no points", analyse->files[0]);
    }
    curve_set_finish(set);
    size_t repeated = 0;
    for (size_t i = 0; i < set->count; i++) {
        repeated += set->runs[i].repeated;
    }
    if (counts->skipped > 0) {
        fprintf(stderr, "drover: %zu points without a usable metric were passed over\n",
                counts->skipped);
    }
    if (repeated > 0) {
        fprintf(stderr, "drover: %zu points repeat a step; of each the last was taken\n", repeated);
    }
    return EXIT_DONE;
}

static void judge(const struct analyse *analyse, struct analysed *out)
{
    const struct curve_set *set = &out->set;
    out->results = mem_array(set->count, sizeof *out->results);
    out->groups = mem_array(set->count, sizeof *out->groups);
    for (size_t i = 0; i < set->count; i++) {
        stabilise_whole(set->runs[i].points, set->runs[i].count, &analyse->stabilise,
                        &out->results[i]);
    }
    for (size_t first = 0; first < set->count;) {
        size_t end = curve_set_group_end(set, first);
        stabilise_repeats(set->runs + first, out->results + first, end - first, &analyse->stabilise,
                          &out->groups[out->group_count++]);
        first = end;
    }
}

int analyse_read(const struct analyse *analyse, struct analysed *out)
{
    *out = (struct analysed){0};
    int code = read_files(analyse, &out->set, &out->counts);
    if (code == EXIT_DONE) {
        judge(analyse, out);
    }
    return code;
}

void analysed_release(struct analysed *analysed)
{
    curve_set_release(&analysed->set);
    free(analysed->results);
    free(analysed->groups);
}

int analyse_read_table(const struct analyse *analyse, struct csv **out)
{
    const char *path = analyse->files[0];
    AUTO_STR struct str text = {0};
    struct err err;
    if (analyse->file_count != 1) {
        return cli_usage_error(&cmd_analyse, "one table, please");
    }
    if (io_read_file(path, CURVE_FILE_BYTES_MAX, &text, &err) != ERR_OK ||
        csv_parse(path, str_text(&text), text.size, out, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    return EXIT_DONE;
}

int analyse_table_error(const struct analyse *analyse, const struct err *err)
{
    const char *path = analyse->files[0];
    if (strncmp(err->text, path, strlen(path)) == 0) {
        return cli_error(EXIT_USAGE, "%s", err->text); /* csv_number has named it */
    }
    return cli_error(EXIT_USAGE, "%s: %s", path, err->text);
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col < PLOT_COLUMNS_MAX ? size.ws_col : PLOT_COLUMNS_MAX;
    }
    return PLOT_COLUMNS;
}

struct plot_terminal analyse_terminal(void)
{
    setlocale(LC_CTYPE, "");
    return (struct plot_terminal){.width = terminal_columns(),
                                  .height = PLOT_ROWS,
                                  .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
                                  .colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR")};
}

struct draw_target analyse_target(const struct analyse *analyse, struct str *svg, struct str *text)
{
    return (struct draw_target){
        .svg = analyse->svg ? svg : NULL,
        .text = analyse->plot && !analyse->as_json ? text : NULL,
        .terminal = analyse_terminal(),
    };
}

int analyse_write_svg(const struct analyse *analyse, const struct str *svg)
{
    struct err err;
    if (analyse->svg &&
        io_replace_file(analyse->svg, str_text(svg), svg->size, 0666, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return EXIT_DONE;
}

void analyse_add_number(struct str *out, int width, double number)
{
    if (isnan(number)) {
        str_addf(out, "%*s", width, "-");
    } else if (fabs(number) >= 1e15 || (number != 0 && fabs(number) < 1e-4)) {
        str_addf(out, "%*.3e", width, number);
    } else if (number == floor(number)) {
        str_addf(out, "%*.0f", width, number);
    } else {
        str_addf(out, "%*.5g", width, number);
    }
}
