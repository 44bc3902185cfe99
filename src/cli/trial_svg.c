#include "cli/trial_svg.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 2 }; /* pixels within which dots are one */

/* Plain rules only, so that other tools than browsers understand them too. v0 .. v6 go from faint
 * to strong on either paper, so that a print without colour reads. */
#define LIGHT                                                                                      \
    "svg{color:#1c1c1c}.paper{fill:#fff}.k{stroke:#fff}\n"                                         \
    ".c0{color:#0060a8}.c1{color:#c04a00}.c6{color:#555}.c7{color:#b00020}\n"                      \
    ".v0{color:#d5dde6}.v1{color:#b4c7dc}.v2{color:#8db0d2}.v3{color:#5f94c4}\n"                   \
    ".v4{color:#3475ad}.v5{color:#124f87}.v6{color:#062a52}\n"
#define DARK                                                                                       \
    "svg{color:#e6e6e6}.paper{fill:#15171a}.k{stroke:#15171a}\n"                                   \
    ".c0{color:#6db6f2}.c1{color:#ff9a57}.c6{color:#b5b5b5}.c7{color:#ff7a85}\n"                   \
    ".v0{color:#2b333d}.v1{color:#324a63}.v2{color:#3a648c}.v3{color:#4681b4}\n"                   \
    ".v4{color:#62a3d8}.v5{color:#94c8f2}.v6{color:#dcefff}\n"
static const char style_sheet[] =
    "<style>\n"
    "svg{font:13px sans-serif}.t{fill:currentColor}.h{font-weight:bold}.s{font-size:11px}\n"
    ".q{fill-opacity:.75}.k{stroke-width:3px;stroke-linejoin:round;paint-order:stroke}\n"
    ".axis{stroke:currentColor;fill:none}.grid{stroke:currentColor;stroke-opacity:.14}\n"
    ".lead{stroke:currentColor;stroke-opacity:.5}\n"
    ".l,.p,.b,.x{stroke:currentColor;fill:none}.l{stroke-width:2;stroke-linejoin:round}\n"
    ".n{stroke-width:1}.w{stroke-width:3}.dash{stroke-dasharray:3 3}\n"
    ".p{stroke-width:6;stroke-linecap:round;stroke-opacity:.7}.i{stroke-width:4}\n"
    ".big{stroke-width:9;stroke-opacity:1}.x{stroke-width:1.5}\n"
    ".f{fill:currentColor}.e{fill:currentColor;fill-opacity:.18;stroke:currentColor}\n" LIGHT
    "@media (prefers-color-scheme:dark){\n" DARK "}\n"
    "@media print{\n" LIGHT "svg{color:#000}}\n"
    "</style>\n";

/* Text for XML: always well-formed, whatever bytes come in. */
static void add_escaped(struct str *out, const char *text, size_t size)
{
    while (size > 0) {
        size_t length = json_utf8_length(text, size);
        unsigned char c = (unsigned char)*text;
        bool not_xml = length == 3 && memcmp(text, "\xef\xbf\xbe", 2) == 0 &&
                       (unsigned char)text[2] >= 0xbe; /* U+FFFE and U+FFFF */
        if (length == 0 || c < 0x20 || c == 0x7f || not_xml) {
            str_add(out, "\xef\xbf\xbd"); /* U+FFFD */
            length = length == 0 ? 1 : length;
        } else if (c == '&' || c == '<' || c == '>' || c == '"') {
            str_addf(out, "&#%d;", c);
        } else {
            str_add_bytes(out, text, length);
        }
        text += length;
        size -= length;
    }
}

static double char_width(unsigned char c)
{
    if ((c & 0xc0) == 0x80) {
        return 0; /* not the first byte of a character */
    }
    if (strchr("iljtfr.,:;'|!()[]{} -", c)) {
        return 0.42;
    }
    return strchr("mwMW@%", c) || c >= 0xc0 ? 1.0 : 0.66;
}

double trial_svg_text_width(const char *text, int font)
{
    double width = 0;
    for (; *text; text++) {
        width += char_width((unsigned char)*text);
    }
    return width * font;
}

/* Bytes of text that fit into room, a whole number of characters, beside an ellipsis. */
static size_t fitting(const char *text, int font, double room)
{
    double width = font;
    size_t size = 0;
    for (size_t i = 0; text[i]; i++) {
        width += char_width((unsigned char)text[i]) * font;
        if (width > room) {
            break;
        }
        if (((unsigned char)text[i + 1] & 0xc0) != 0x80) {
            size = i + 1;
        }
    }
    return size;
}

void trial_svg_text(struct str *out, const struct trial_text *where, const char *text)
{
    int font = strchr(where->class, 's') ? TRIAL_SVG_SMALL : TRIAL_SVG_FONT;
    str_addf(out, "<text class=\"t%s%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
             where->class[0] ? " " : "", where->class, where->x, where->y, where->anchor);
    if (where->room > 0 && trial_svg_text_width(text, font) > where->room) {
        add_escaped(out, text, fitting(text, font, where->room));
        str_add(out, "\xe2\x80\xa6");
    } else {
        add_escaped(out, text, strlen(text));
    }
    str_add(out, "</text>\n");
}

void trial_svg_begin(struct str *out, double width, double height, const char *title,
                     const char *subtitle)
{
    str_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\" role=\"img\">\n<title>",
             width, height, width, height);
    add_escaped(out, title, strlen(title));
    str_add(out, "</title>\n");
    str_add(out, style_sheet);
    str_addf(out, "<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n", width, height);
    struct trial_text where = {TRIAL_SVG_MARGIN, 26, "start", "h", width - 2 * TRIAL_SVG_MARGIN};
    trial_svg_text(out, &where, title);
    where.y = 45;
    where.class = "q";
    trial_svg_text(out, &where, subtitle);
}

void trial_svg_end(struct str *out)
{
    str_add(out, "</svg>\n");
}

double trial_panel_x(const struct trial_panel *panel, double value)
{
    return panel->frame.x + panel->frame.w * plot_scale_place(&panel->x, value);
}

double trial_panel_y(const struct trial_panel *panel, double value)
{
    double place = plot_scale_place(&panel->y, value);
    return panel->frame.y + panel->frame.h * (1 - fmin(fmax(place, 0), 1));
}

static const char *size_class(const struct trial_panel *panel)
{
    return panel->small ? "s" : "";
}

static int font_of(const struct trial_panel *panel)
{
    return panel->small ? TRIAL_SVG_SMALL : TRIAL_SVG_FONT;
}

static void draw_number_ticks(struct str *out, const struct trial_panel *panel)
{
    double bottom = panel->frame.y + panel->frame.h;
    double free_from = -1e9;
    for (size_t i = 0; i < panel->x.tick_count; i++) {
        const struct plot_tick *tick = &panel->x.ticks[i];
        double x = trial_panel_x(panel, tick->value);
        double half = trial_svg_text_width(tick->text, font_of(panel)) / 2;
        if (x - half < free_from) {
            continue;
        }
        free_from = x + half + 4;
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, panel->frame.y, bottom);
        trial_svg_text(
            out,
            &(struct trial_text){x, bottom + font_of(panel) + 4, "middle", size_class(panel), 0},
            tick->text);
    }
}

/* Where the names of an axis go: every `skip`th is shown, in one row or by turns in two. */
struct name_rows {
    size_t skip;
    double slot; /* between two that are shown */
    bool two;
};

static struct name_rows place_names(const struct trial_panel *panel)
{
    struct name_rows rows = {.skip = 1};
    double slot = panel->frame.w / (double)panel->x_name_count;
    while (slot * (double)rows.skip < 2.5 * font_of(panel)) {
        rows.skip++;
    }
    rows.slot = slot * (double)rows.skip;
    for (size_t i = 0; i < panel->x_name_count; i += rows.skip) {
        double width = trial_svg_text_width(panel->x_names[i], font_of(panel));
        rows.two = rows.two || width > rows.slot - 4;
    }
    rows.two = rows.two && panel->x_name_count > rows.skip;
    return rows;
}

/* As many names as have room; of more, every second, third ... is shown. */
static void draw_name_ticks(struct str *out, const struct trial_panel *panel,
                            const struct name_rows *rows)
{
    double bottom = panel->frame.y + panel->frame.h;
    double right = panel->frame.x + panel->frame.w + rows->slot / 2;
    for (size_t i = 0; i < panel->x_name_count; i += rows->skip) {
        double x = trial_panel_x(panel, (double)i);
        double room = (rows->two ? 2 : 1) * rows->slot - 4;
        /* those at the ends have the frame's edge beside them, and half a slot of air */
        room = fmin(room, 2 * fmin(x - panel->frame.x + rows->slot / 2, right - x));
        double y = bottom + font_of(panel) + 4;
        y += rows->two && i / rows->skip % 2 == 1 ? font_of(panel) + 1 : 0;
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, panel->frame.y, bottom);
        trial_svg_text(out, &(struct trial_text){x, y, "middle", size_class(panel), room},
                       panel->x_names[i]);
    }
}

static void draw_y_ticks(struct str *out, const struct trial_panel *panel)
{
    for (size_t i = 0; i < panel->y.tick_count; i++) {
        double y = trial_panel_y(panel, panel->y.ticks[i].value);
        str_addf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", panel->frame.x, y,
                 panel->frame.x + panel->frame.w);
        if (panel->y_label) {
            trial_svg_text(
                out, &(struct trial_text){panel->frame.x - 6, y + 4, "end", size_class(panel), 0},
                panel->y.ticks[i].text);
        }
    }
}

/* The label stands left of the widest number. */
static void draw_y_label(struct str *out, const struct trial_panel *panel)
{
    double widest = 0;
    for (size_t i = 0; i < panel->y.tick_count; i++) {
        widest = fmax(widest, trial_svg_text_width(panel->y.ticks[i].text, font_of(panel)));
    }
    const struct plot_box *frame = &panel->frame;
    str_addf(out, "<g transform=\"translate(%.1f %.1f) rotate(-90)\">\n", frame->x - widest - 14,
             frame->y + frame->h / 2);
    trial_svg_text(out, &(struct trial_text){0, 0, "middle", size_class(panel), frame->h + 40},
                   panel->y_label);
    str_add(out, "</g>\n");
}

void trial_panel_draw(struct str *out, const struct trial_panel *panel)
{
    const struct plot_box *frame = &panel->frame;
    double bottom = frame->y + frame->h;
    double label_y = bottom + 2.4 * font_of(panel) + 5;
    if (panel->x_names) {
        struct name_rows rows = place_names(panel);
        draw_name_ticks(out, panel, &rows);
        label_y += rows.two ? font_of(panel) : 0;
    } else {
        draw_number_ticks(out, panel);
    }
    draw_y_ticks(out, panel);
    str_addf(out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", frame->x, frame->y, bottom,
             frame->x + frame->w);
    trial_svg_text(out,
                   &(struct trial_text){frame->x + frame->w / 2, label_y, "middle",
                                        size_class(panel), frame->w},
                   panel->x_label);
    if (panel->y_label) {
        draw_y_label(out, panel);
    }
}

void trial_dots_init(struct trial_dots *dots, const struct plot_box *frame)
{
    *dots = (struct trial_dots){.frame = *frame,
                                .columns = (size_t)(frame->w / CELL) + 2,
                                .rows = (size_t)(frame->h / CELL) + 2};
    dots->seen = mem_array(dots->columns * dots->rows, 1);
}

void trial_dots_add(struct trial_dots *dots, double x, double y)
{
    double column = (x - dots->frame.x) / CELL + 0.5;
    double row = (y - dots->frame.y) / CELL + 0.5;
    if (!(column >= 0 && row >= 0 && column < (double)dots->columns && row < (double)dots->rows)) {
        return;
    }
    uint8_t *seen = &dots->seen[(size_t)row * dots->columns + (size_t)column];
    if (!*seen) {
        *seen = 1;
        str_addf(&dots->path, "M%.1f %.1fh0", x, y);
    }
}

void trial_dots_finish(struct trial_dots *dots, struct str *out, const char *class)
{
    if (dots->path.size > 0) {
        str_addf(out, "<path class=\"%s\" d=\"%s\"/>\n", class, str_text(&dots->path));
    }
    str_release(&dots->path);
    free(dots->seen);
    *dots = (struct trial_dots){0};
}

void trial_svg_mark(struct str *out, const char *shape, const char *class, double x, double y)
{
    static const struct {
        const char *name;
        const char *path;
    } shapes[] = {{"cross", "m-3.5 -3.5l7 7m0 -7l-7 7"},
                  {"up", "m0 -5l4.5 8h-9z"},
                  {"down", "m0 5l4.5 -8h-9z"},
                  {"ring", "m-7 0a7 7 0 1 0 14 0a7 7 0 1 0 -14 0"}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strcmp(shapes[i].name, shape) == 0) {
            str_addf(out, "<path class=\"x %s\" d=\"M%.1f %.1f%s\"/>\n", class, x, y,
                     shapes[i].path);
        }
    }
}

void trial_svg_legend(struct str *out, const struct trial_key *keys, size_t count, double x,
                      double y)
{
    for (size_t i = 0; i < count; i++) {
        const struct trial_key *key = &keys[i];
        if (!key->text) {
            continue;
        }
        if (strcmp(key->shape, "dot") == 0) {
            str_addf(out, "<path class=\"%s\" d=\"M%.1f %.1fh0\"/>\n", key->class, x + 8, y - 4);
        } else if (strcmp(key->shape, "box") == 0) {
            str_addf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"11\"/>\n",
                     key->class, x, y - 10);
        } else if (strcmp(key->shape, "line") == 0) {
            str_addf(out, "<path class=\"%s\" d=\"M%.1f %.1fh18\"/>\n", key->class, x - 1, y - 4);
        } else {
            trial_svg_mark(out, key->shape, key->class, x + 8, y - 4);
        }
        trial_svg_text(out, &(struct trial_text){x + 22, y, "start", "", 0}, key->text);
        x += 22 + trial_svg_text_width(key->text, TRIAL_SVG_FONT) + 20;
    }
}
