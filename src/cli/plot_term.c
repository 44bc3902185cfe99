/* The terminal drawing: braille dots where UTF-8 is understood, one character a series elsewhere.
 * Points with labels are letters, explained below the plot, so that labels cannot collide. */
#include "base/mem.h"
#include "cli/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MIN = 40, WIDTH_MAX = 400, HEIGHT_MIN = 8, HEIGHT_MAX = 200, DOTS_X = 2, DOTS_Y = 4 };

static const char ascii_marks[] = "*+ox#@%&";
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const int colours[PLOT_STYLES] = {34, 33, 32, 35, 36, 94, 90, 31};

struct cell {
    unsigned char dots; /* of a braille character */
    char letter;        /* drawn instead, if not 0 */
    unsigned char style;
    bool mark; /* part of a vertical mark */
};

struct grid {
    const struct plot_terminal *terminal;
    struct str *out;
    struct plot_scale x;
    struct plot_scale y;
    int columns;
    int rows;
    struct cell *cells;
    int margin; /* columns left of the drawing */
};

static char mark_of(unsigned style)
{
    return ascii_marks[style % PLOT_STYLES];
}

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static struct cell *cell_at(struct grid *grid, int column, int row)
{
    return &grid->cells[row * grid->columns + column];
}

/* Places in dots, from the top left. */
static int dot_x(const struct grid *grid, double x)
{
    int last = grid->columns * DOTS_X - 1;
    return clamp((int)lround(plot_scale_place(&grid->x, x) * last), 0, last);
}

static int dot_y(const struct grid *grid, double y)
{
    int last = grid->rows * DOTS_Y - 1;
    return clamp((int)lround((1 - plot_scale_place(&grid->y, y)) * last), 0, last);
}

static void set_dot(struct grid *grid, int x, int y, unsigned style)
{
    static const unsigned char bits[DOTS_Y][DOTS_X] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    struct cell *cell = cell_at(grid, x / DOTS_X, y / DOTS_Y);
    cell->dots |= bits[y % DOTS_Y][x % DOTS_X];
    cell->style = (unsigned char)(style % PLOT_STYLES);
}

static void draw_segment(struct grid *grid, const struct plot_point *a, const struct plot_point *b,
                         unsigned style)
{
    int x = dot_x(grid, a->x);
    int y = dot_y(grid, a->y);
    int dx = dot_x(grid, b->x) - x;
    int dy = dot_y(grid, b->y) - y;
    int steps = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
    for (int i = 0; i <= steps; i++) {
        int along_x = steps > 0 ? (int)lround((double)dx * i / steps) : 0;
        int along_y = steps > 0 ? (int)lround((double)dy * i / steps) : 0;
        set_dot(grid, x + along_x, y + along_y, style);
    }
}

static void draw_series(struct grid *grid, const struct plot_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        const struct plot_point *point = &series->points[i];
        if (series->line) {
            draw_segment(grid, i > 0 ? point - 1 : point, point, series->style);
        }
        if (series->dots && !point->label) {
            struct cell *cell =
                cell_at(grid, dot_x(grid, point->x) / DOTS_X, dot_y(grid, point->y) / DOTS_Y);
            cell->letter = mark_of(series->style);
            cell->style = (unsigned char)(series->style % PLOT_STYLES);
        }
    }
}

static void draw_mark(struct grid *grid, const struct plot_mark *mark)
{
    int column = dot_x(grid, mark->x) / DOTS_X;
    for (int row = 0; row < grid->rows; row++) {
        struct cell *cell = cell_at(grid, column, row);
        cell->mark = true;
        if (cell->dots == 0) {
            cell->style = (unsigned char)(mark->style % PLOT_STYLES);
        }
    }
}

/* The next letter for the n-th label, 0 when they have run out. */
static char letter_of(size_t n)
{
    return n < sizeof letters - 1 ? letters[n] : 0;
}

/* A letter goes to its cell or, where another is, to the nearest free one beside it. */
static void put_letter(struct grid *grid, const struct plot_point *point, char letter,
                       unsigned style)
{
    int column = dot_x(grid, point->x) / DOTS_X;
    int row = dot_y(grid, point->y) / DOTS_Y;
    for (int away = 0; away < grid->columns; away++) {
        for (int side = -1; side <= 1; side += 2) {
            int at = column + side * away;
            if (at >= 0 && at < grid->columns && !cell_at(grid, at, row)->letter) {
                cell_at(grid, at, row)->letter = letter;
                cell_at(grid, at, row)->style = (unsigned char)(style % PLOT_STYLES);
                return;
            }
        }
    }
}

static void put_letters(struct grid *grid, const struct plot *plot)
{
    size_t n = 0;
    for (size_t s = 0; s < plot->series_count; s++) {
        for (size_t i = 0; i < plot->series[s].count; i++) {
            const struct plot_point *point = &plot->series[s].points[i];
            if (point->label && letter_of(n)) {
                put_letter(grid, point, letter_of(n++), plot->series[s].style);
            }
        }
    }
}

static void add_cell(struct grid *grid, const struct cell *cell)
{
    struct str *out = grid->out;
    bool empty = !cell->letter && !cell->dots && !cell->mark;
    if (empty) {
        str_add_char(out, ' ');
        return;
    }
    if (grid->terminal->colour) {
        str_addf(out, "\033[%dm", colours[cell->style]);
    }
    if (cell->letter) {
        str_add_char(out, cell->letter);
    } else if (cell->dots && grid->terminal->utf8) {
        unsigned code = 0x2800u + cell->dots;
        char utf8[] = {(char)(0xe0 | (code >> 12)), (char)(0x80 | ((code >> 6) & 0x3f)),
                       (char)(0x80 | (code & 0x3f))};
        str_add_bytes(out, utf8, sizeof utf8);
    } else if (cell->dots) {
        str_add_char(out, ascii_marks[cell->style]);
    } else {
        str_add(out, grid->terminal->utf8 ? "┊" : ":");
    }
    if (grid->terminal->colour) {
        str_add(out, "\033[0m");
    }
}

static const char *tick_of_row(const struct grid *grid, int row)
{
    for (size_t i = 0; i < grid->y.tick_count; i++) {
        if (dot_y(grid, grid->y.ticks[i].value) / DOTS_Y == row) {
            return grid->y.ticks[i].text;
        }
    }
    return "";
}

static void add_rows(struct grid *grid)
{
    bool utf8 = grid->terminal->utf8;
    for (int row = 0; row < grid->rows; row++) {
        const char *tick = tick_of_row(grid, row);
        str_addf(grid->out, "%*s %s", grid->margin - 2, tick,
                 tick[0] ? (utf8 ? "┤" : "+") : (utf8 ? "│" : "|"));
        for (int column = 0; column < grid->columns; column++) {
            add_cell(grid, cell_at(grid, column, row));
        }
        while (grid->out->size > 0 && grid->out->text[grid->out->size - 1] == ' ') {
            grid->out->text[--grid->out->size] = '\0';
        }
        str_add_char(grid->out, '\n');
    }
}

/* The axis below, and under it the numbers that fit beside one another. */
static void add_x_axis(struct grid *grid)
{
    bool utf8 = grid->terminal->utf8;
    char *line = mem_alloc((size_t)(grid->columns + grid->margin + 1));
    memset(line, ' ', (size_t)(grid->columns + grid->margin));
    str_add_repeat(grid->out, " ", (size_t)(grid->margin - 1));
    str_add(grid->out, utf8 ? "└" : "+");
    int free_from = 0;
    bool *ticked = mem_array((size_t)grid->columns, sizeof *ticked);
    for (size_t i = 0; i < grid->x.tick_count; i++) {
        const char *text = grid->x.ticks[i].text;
        int length = (int)strlen(text);
        int column = dot_x(grid, grid->x.ticks[i].value) / DOTS_X;
        int start = grid->margin + column - length / 2;
        start = clamp(start, 0, grid->columns + grid->margin - length);
        if (start >= free_from) {
            memcpy(line + start, text, (size_t)length);
            free_from = start + length + 1;
            ticked[column] = true;
        }
    }
    for (int column = 0; column < grid->columns; column++) {
        str_add(grid->out, ticked[column] ? (utf8 ? "┬" : "+") : (utf8 ? "─" : "-"));
    }
    size_t end = strlen(line);
    while (end > 0 && line[end - 1] == ' ') {
        line[--end] = '\0';
    }
    str_addf(grid->out, "\n%s\n", line);
    free(ticked);
    free(line);
}

static void add_sample(struct grid *grid, const struct plot_series *series)
{
    unsigned style = series->style;
    bool colour = grid->terminal->colour;
    if (colour) {
        str_addf(grid->out, "\033[%dm", colours[style % PLOT_STYLES]);
    }
    if (grid->terminal->utf8 && series->line) {
        str_add(grid->out, colour ? "━━" : "⠒⠒");
    } else {
        str_add_char(grid->out, mark_of(style));
    }
    str_add(grid->out, colour ? "\033[0m " : " ");
}

/* Names may hold anything: control characters must not reach the terminal. */
static void add_name(struct str *out, const char *name)
{
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        str_add_char(out, c < 0x20 || c == 0x7f ? '?' : (char)c);
    }
}

static void add_keys(struct grid *grid, const struct plot *plot)
{
    size_t n = 0;
    for (size_t s = 0; s < plot->series_count; s++) {
        const struct plot_series *series = &plot->series[s];
        if (series->name) {
            str_add(grid->out, "  ");
            add_sample(grid, series);
            add_name(grid->out, series->name);
            str_add_char(grid->out, '\n');
        }
        for (size_t i = 0; i < series->count; i++) {
            if (series->points[i].label && letter_of(n)) {
                str_addf(grid->out, "    %c  ", letter_of(n++));
                add_name(grid->out, series->points[i].label);
                str_add_char(grid->out, '\n');
            }
        }
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        str_add(grid->out, m > 0 ? ", " : grid->terminal->utf8 ? "  ┊ " : "  : ");
        add_name(grid->out, plot->marks[m].label);
    }
    str_add(grid->out, plot->mark_count > 0 ? "\n" : "");
}

void plot_term(const struct plot *plot, const struct plot_terminal *terminal, struct str *out)
{
    struct grid grid = {.terminal = terminal, .out = out};
    int width = clamp(terminal->width, WIDTH_MIN, WIDTH_MAX);
    grid.rows = clamp(terminal->height, HEIGHT_MIN, HEIGHT_MAX);
    plot_scales(plot, (size_t)width / 12, (size_t)grid.rows / 3, &grid.x, &grid.y);
    grid.margin = 3;
    for (size_t i = 0; i < grid.y.tick_count; i++) {
        int needed = (int)strlen(grid.y.ticks[i].text) + 2;
        grid.margin = needed > grid.margin ? needed : grid.margin;
    }
    grid.columns = width - grid.margin;
    grid.cells = mem_array((size_t)(grid.columns * grid.rows), sizeof *grid.cells);
    for (size_t m = 0; m < plot->mark_count; m++) {
        draw_mark(&grid, &plot->marks[m]);
    }
    for (size_t s = 0; s < plot->series_count; s++) {
        draw_series(&grid, &plot->series[s]);
    }
    put_letters(&grid, plot);
    add_name(out, plot->title);
    str_add(out, "\n");
    add_name(out, plot->y_label);
    str_add(out, "\n");
    add_rows(&grid);
    add_x_axis(&grid);
    str_add_repeat(out, " ", (size_t)grid.margin);
    add_name(out, plot->x_label);
    str_add(out, "\n");
    add_keys(&grid, plot);
    free(grid.cells);
}
