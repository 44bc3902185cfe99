/* The SVG drawing. Colours come from one style sheet with a dark variant; text and axes are
 * currentColor. Series differ by colour, dash and shape, so that a print without colour reads. */
#include "base/json.h"
#include "cli/plot.h"
#include "cli/plot_boxes.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 800,
    PLOT_HEIGHT = 420,
    FONT = 13,
    LINE_HEIGHT = 18,
    TOP = 44,
    RIGHT = 24,
    AXIS_BELOW = 52,
    LEGEND_GAP = 22,
    LEGEND_SAMPLE = 26,
    DOT = 5,
    RING = 9,
    MARK_ROWS = 16,
};

/* The space that keeps two texts apart. */
static const double text_gap = 6;

/* Plain rules only (no variables), so that other tools than browsers understand them too: a series'
 * class sets `color`, and everything is stroked or filled in currentColor. */
#define LIGHT_COLOURS                                                                              \
    ".c0{color:#0060a8}.c1{color:#c04a00}.c2{color:#007a55}.c3{color:#a03c7c}\n"                   \
    ".c4{color:#8a6a00}.c5{color:#2b7fb8}.c6{color:#555}.c7{color:#b00020}\n"
#define DARK_COLOURS                                                                               \
    ".c0{color:#6db6f2}.c1{color:#ff9a57}.c2{color:#4fd1a5}.c3{color:#e79ac6}\n"                   \
    ".c4{color:#e5c35a}.c5{color:#9ad0f5}.c6{color:#b5b5b5}.c7{color:#ff7a85}"
static const char style_sheet[] =
    "<style>\n"
    "svg{color:#1c1c1c;font:13px sans-serif}.paper{fill:#fff}.halo{stroke:#fff}\n"
    ".t{fill:currentColor}.h{font-weight:bold}\n"
    ".halo{stroke-width:3px;stroke-linejoin:round;paint-order:stroke}\n"
    ".axis{stroke:currentColor;fill:none}.grid{stroke:currentColor;stroke-opacity:.14}\n"
    ".lead{stroke:currentColor;stroke-opacity:.5}\n"
    ".l,.m,.d{stroke:currentColor}.l{fill:none;stroke-width:2;stroke-linejoin:round}\n"
    ".f{stroke-width:1;stroke-opacity:.45}.m{stroke-width:1.5;stroke-dasharray:5 3}\n"
    ".d{fill:currentColor;stroke-width:1.5}.o{fill:none}\n" LIGHT_COLOURS
    "@media (prefers-color-scheme:dark){\n"
    "svg{color:#e6e6e6}.paper{fill:#15171a}.halo{stroke:#15171a}\n" DARK_COLOURS "}\n"
    "@media print{svg{color:#000}.paper{fill:#fff}.halo{stroke:#fff}\n" LIGHT_COLOURS "}\n"
    "</style>\n";

static const char *const dashes[PLOT_STYLES] = {"",    "8 3", "2 3",          "10 3 2 3",
                                                "5 5", "1 4", "12 3 2 3 2 3", "4 2"};

struct canvas {
    struct str *out;
    const struct plot *plot;
    struct plot_scale x;
    struct plot_scale y;
    struct plot_box frame; /* of the drawing, in pixels */
    struct plot_boxes boxes;
    size_t left_out; /* labels without room */
};

/* Text for XML: always well-formed, whatever bytes come in. */
static void add_escaped(struct str *out, const char *text)
{
    for (size_t size = strlen(text); size > 0;) {
        size_t length = json_utf8_length(text, size);
        unsigned char c = (unsigned char)*text;
        if (length == 0 || c < 0x20 || c == 0x7f) {
            str_add(out, "\xef\xbf\xbd"); /* U+FFFD */
            length = 1;
        } else if (c == '&' || c == '<' || c == '>' || c == '"') {
            str_addf(out, "&#%d;", c);
        } else if (length == 3 && c == 0xef && (unsigned char)text[1] == 0xbf &&
                   (unsigned char)text[2] >= 0xbe) {
            str_add(out, "\xef\xbf\xbd"); /* U+FFFE and U+FFFF are not XML */
        } else {
            str_add_bytes(out, text, length);
        }
        text += length;
        size -= length;
    }
}

/* As a share of the font's size: what the widest of the usual sans-serif fonts needs. */
static double char_width(unsigned char c)
{
    if (strchr("iljtfr.,:;'|!()[]{} -", c)) {
        return 0.42;
    }
    return strchr("mwMW@%", c) || c >= 0xc0 ? 1.0 : 0.66;
}

static double text_width(const char *text)
{
    double width = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        width += (c & 0xc0) == 0x80 ? 0 : char_width(c); /* not the rest of a UTF-8 character */
    }
    return width * FONT + text_gap;
}

static double px(const struct canvas *canvas, double x)
{
    return canvas->frame.x + canvas->frame.w * plot_scale_place(&canvas->x, x);
}

static double py(const struct canvas *canvas, double y)
{
    return canvas->frame.y + canvas->frame.h * (1 - plot_scale_place(&canvas->y, y));
}

static void add_text(struct canvas *canvas, double x, double y, const char *anchor,
                     const char *class, const char *text)
{
    str_addf(canvas->out, "<text class=\"t %s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class,
             x, y, anchor);
    add_escaped(canvas->out, text);
    str_add(canvas->out, "</text>\n");
}

static void draw_axes(struct canvas *canvas)
{
    const struct plot_box *frame = &canvas->frame;
    struct str *out = canvas->out;
    double bottom = frame->y + frame->h;
    for (size_t i = 0; i < canvas->x.tick_count; i++) {
        double x = px(canvas, canvas->x.ticks[i].value);
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, frame->y, bottom);
        add_text(canvas, x, bottom + LINE_HEIGHT, "middle", "", canvas->x.ticks[i].text);
    }
    for (size_t i = 0; i < canvas->y.tick_count; i++) {
        double y = py(canvas, canvas->y.ticks[i].value);
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", frame->x, y,
                 frame->x + frame->w);
        add_text(canvas, frame->x - 7, y + 4.5, "end", "", canvas->y.ticks[i].text);
    }
    str_addf(out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", frame->x, frame->y, bottom,
             frame->x + frame->w);
    add_text(canvas, frame->x + frame->w / 2, bottom + 2.3 * LINE_HEIGHT, "middle", "",
             canvas->plot->x_label);
    str_addf(out,
             "<text class=\"t\" transform=\"translate(17 %.1f) rotate(-90)\" "
             "text-anchor=\"middle\">",
             frame->y + frame->h / 2);
    add_escaped(out, canvas->plot->y_label);
    str_add(out, "</text>\n");
}

/* Of many points in one column of pixels only the lowest and the highest can be seen. */
static void draw_line(struct canvas *canvas, const struct plot_series *series)
{
    struct str *out = canvas->out;
    unsigned style = series->style % PLOT_STYLES;
    str_addf(out, "<path class=\"l c%u%s\"", style, series->faint ? " f" : "");
    if (dashes[style][0] && !series->faint) {
        str_addf(out, " stroke-dasharray=\"%s\"", dashes[style]);
    }
    str_add(out, " d=\"");
    for (size_t i = 0; i < series->count;) {
        double x = px(canvas, series->points[i].x);
        double column = floor(x);
        double first = py(canvas, series->points[i].y);
        double low = first;
        double high = first;
        double last = first;
        size_t at = i;
        while (i < series->count && floor(px(canvas, series->points[i].x)) == column) {
            last = py(canvas, series->points[i].y);
            low = fmin(low, last);
            high = fmax(high, last);
            i++;
        }
        str_addf(out, "%c%.1f %.1f", at == 0 ? 'M' : 'L', x, first);
        if (i - at > 2) {
            str_addf(out, "V%.1fV%.1f", low, high);
        }
        if (i - at > 1) {
            str_addf(out, "L%.1f %.1f", px(canvas, series->points[i - 1].x), last);
        }
    }
    str_add(out, "\"/>\n");
}

/* Eight shapes, so that they can be told apart without colour. */
static void draw_dot(struct canvas *canvas, const struct plot_series *series, double x, double y)
{
    static const char *const shapes[PLOT_STYLES] = {
        NULL, /* circle */
        "m-5 -5h10v10h-10z",
        "m0 -6l6 10h-12z",
        "m0 -6l6 6l-6 6l-6 -6z",
        "m0 6l6 -10h-12z",
        "m-5 -5l10 10m0 -10l-10 10",
        "m-6 0h12m-6 -6v12",
        "m-6 -3h12v6h-12z",
    };
    unsigned style = series->style % PLOT_STYLES;
    const char *hollow = series->hollow ? " o" : "";
    if (shapes[style]) {
        str_addf(canvas->out, "<path class=\"d c%u%s\" d=\"M%.1f %.1f%s\"/>\n", style, hollow, x, y,
                 shapes[style]);
    } else {
        str_addf(canvas->out, "<circle class=\"d c%u%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>\n",
                 style, hollow, x, y, DOT);
    }
}

static void draw_ring(struct canvas *canvas, const struct plot_series *series, double x, double y)
{
    str_addf(canvas->out, "<circle class=\"d o c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>\n",
             series->style % PLOT_STYLES, x, y, RING);
}

static void draw_dots(struct canvas *canvas, const struct plot_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        double x = px(canvas, series->points[i].x);
        double y = py(canvas, series->points[i].y);
        double reach = series->rings ? RING : DOT;
        (series->rings ? draw_ring : draw_dot)(canvas, series, x, y);
        plot_boxes_take(&canvas->boxes,
                        (struct plot_box){x - reach, y - reach, 2 * reach, 2 * reach});
    }
}

/* A text beside (x, y) ends there if it is on the left; one that had to go farther away gets a line
 * that leads to it. */
static void draw_label(struct canvas *canvas, const struct plot_box *box, double x, double y,
                       const char *text)
{
    bool left = box->x + box->w <= x;
    double near_x = left ? box->x + box->w : box->x > x ? box->x : box->x + box->w / 2;
    double near_y = box->y > y ? box->y : box->y + box->h < y ? box->y + box->h : y;
    if (hypot(near_x - x, near_y - y) > RING + 4) {
        str_addf(canvas->out, "<path class=\"lead\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x, y, near_x,
                 near_y);
    }
    add_text(canvas, left ? box->x + box->w - text_gap / 2 : box->x + text_gap / 2, box->y + 12.5,
             left ? "end" : "start", "halo", text);
}

static void draw_labels(struct canvas *canvas, const struct plot_series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        const struct plot_point *point = &series->points[i];
        if (!point->label) {
            continue;
        }
        double x = px(canvas, point->x);
        double y = py(canvas, point->y);
        struct plot_box box = {.w = text_width(point->label), .h = LINE_HEIGHT - 2};
        if (plot_boxes_place(&canvas->boxes, x, y, RING + 1, &box)) {
            draw_label(canvas, &box, x, y, point->label);
        } else {
            canvas->left_out++;
        }
    }
}

static void draw_mark(struct canvas *canvas, const struct plot_mark *mark)
{
    double x = px(canvas, mark->x);
    const struct plot_box *frame = &canvas->frame;
    str_addf(canvas->out, "<path class=\"m c%u\" d=\"M%.1f %.1fV%.1f\"/>\n",
             mark->style % PLOT_STYLES, x, frame->y, frame->y + frame->h);
    plot_boxes_take(&canvas->boxes, (struct plot_box){x - 1, frame->y, 2, frame->h});
}

/* Beside its line, as far up as there is room. */
static void label_mark(struct canvas *canvas, const struct plot_mark *mark)
{
    double x = px(canvas, mark->x);
    for (int row = 0; row < MARK_ROWS; row++) {
        struct plot_box box = {.w = text_width(mark->label), .h = LINE_HEIGHT - 2};
        double y = canvas->frame.y + (row + 0.6) * LINE_HEIGHT;
        if (plot_boxes_place(&canvas->boxes, x, y, 5, &box)) {
            draw_label(canvas, &box, x, box.y + box.h / 2, mark->label);
            return;
        }
    }
    canvas->left_out++;
}

static void draw_legend_entry(struct canvas *canvas, const struct plot_series *series, double x,
                              double y)
{
    unsigned style = series->style % PLOT_STYLES;
    if (series->line) {
        str_addf(canvas->out, "<path class=\"l c%u\"", style);
        if (dashes[style][0]) {
            str_addf(canvas->out, " stroke-dasharray=\"%s\"", dashes[style]);
        }
        str_addf(canvas->out, " d=\"M%.1f %.1fh%d\"/>\n", x, y - 4, LEGEND_SAMPLE - 6);
    }
    if (series->dots || series->rings) {
        (series->rings ? draw_ring : draw_dot)(canvas, series, x + LEGEND_SAMPLE / 2.0 - 3, y - 4);
    }
    add_text(canvas, x + LEGEND_SAMPLE, y, "start", "", series->name);
}

/* Rows below the axes; returns where the last one ended. Without `draw` it only measures. */
static double lay_legend(struct canvas *canvas, double top, bool draw)
{
    double x = canvas->frame.x;
    double y = top;
    for (size_t s = 0; s < canvas->plot->series_count; s++) {
        const struct plot_series *series = &canvas->plot->series[s];
        if (!series->name) {
            continue;
        }
        double width = LEGEND_SAMPLE + text_width(series->name) + LEGEND_GAP;
        if (x > canvas->frame.x && x + width > WIDTH) {
            x = canvas->frame.x;
            y += LINE_HEIGHT;
        }
        if (draw) {
            draw_legend_entry(canvas, series, x, y);
        }
        x += width;
    }
    return y;
}

static void draw_all_series(struct canvas *canvas)
{
    const struct plot *plot = canvas->plot;
    for (int front = 0; front < 2; front++) {
        for (size_t s = 0; s < plot->series_count; s++) {
            if (plot->series[s].line && plot->series[s].faint == (front == 0)) {
                draw_line(canvas, &plot->series[s]);
            }
        }
    }
    for (size_t s = 0; s < plot->series_count; s++) {
        if (plot->series[s].dots || plot->series[s].rings) {
            draw_dots(canvas, &plot->series[s]);
        }
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        draw_mark(canvas, &plot->marks[m]);
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        label_mark(canvas, &plot->marks[m]);
    }
    for (size_t s = 0; s < plot->series_count; s++) {
        draw_labels(canvas, &plot->series[s]);
    }
}

void plot_svg(const struct plot *plot, struct str *out)
{
    struct canvas canvas = {.out = out, .plot = plot};
    plot_scales(plot, 8, 7, &canvas.x, &canvas.y);
    double widest = 0;
    for (size_t i = 0; i < canvas.y.tick_count; i++) {
        widest = fmax(widest, text_width(canvas.y.ticks[i].text));
    }
    double left = 34 + widest;
    canvas.frame = (struct plot_box){left, TOP, WIDTH - RIGHT - left, PLOT_HEIGHT - TOP};
    canvas.boxes.frame = canvas.frame;
    double legend_top = PLOT_HEIGHT + AXIS_BELOW + 8;
    double height = lay_legend(&canvas, legend_top, false) + LINE_HEIGHT;
    str_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
             "height=\"%.0f\" role=\"img\">\n<title>",
             WIDTH, height, WIDTH, height);
    add_escaped(out, plot->title);
    str_add(out, "</title>\n");
    str_add(out, style_sheet);
    str_addf(out, "<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, height);
    add_text(&canvas, canvas.frame.x, 26, "start", "h", plot->title);
    draw_axes(&canvas);
    draw_all_series(&canvas);
    lay_legend(&canvas, legend_top, true);
    if (canvas.left_out > 0) {
        str_addf(out, "<!-- %zu labels had no room -->\n", canvas.left_out);
    }
    str_add(out, "</svg>\n");
    plot_boxes_release(&canvas.boxes);
}
