#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/pages.h"
#include "cli/remote.h"
#include "cli/screen.h"
#include "cli/top_view.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    INTERVAL_MS = 2000,
    INTERVAL_MIN_MS = 200,
    INTERVAL_MAX_MS = 3600 * 1000,
    PAST_PER_LOOK = 20, /* nodes whose history is asked for at a time */
    PAST_STEP_S = 2,
    PLAIN_WIDTH = 120,
};

struct watching {
    const char *state;
    int64_t interval_ms;
    bool has_interval;
    bool once;
    bool as_json;
    struct remote remote;
    struct top top;
    struct top_screen screen;
    int64_t answered_ms; /* when the server last did */
};

/* --- options --------------------------------------------------------------------------------- */

/* "2s", "500ms", "1m"; a number alone is seconds. */
static bool parse_interval(const char *text, int64_t *out_ms)
{
    char *end = NULL;
    double number = strtod(text, &end);
    double unit_ms = strcmp(end, "ms") == 0 ? 1 : strcmp(end, "m") == 0 ? 60000 : 1000;
    bool is_known =
        strcmp(end, "ms") == 0 || strcmp(end, "m") == 0 || strcmp(end, "s") == 0 || *end == '\0';
    if (end == text || !is_known || !(number * unit_ms >= INTERVAL_MIN_MS) ||
        number * unit_ms > INTERVAL_MAX_MS) {
        return false;
    }
    *out_ms = (int64_t)(number * unit_ms);
    return true;
}

static int parse(struct watching *watching, int argc, char **argv)
{
    static const struct option options[] = {
        {"state", required_argument, NULL, 'd'}, {"interval", required_argument, NULL, 'i'},
        {"once", no_argument, NULL, '1'},        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            watching->state = optarg;
            break;
        case 'i':
            if (!parse_interval(optarg, &watching->interval_ms)) {
                return cli_usage_error(&cmd_top, "--interval %s: 200ms to 1h is possible", optarg);
            }
            watching->has_interval = true;
            break;
        case '1':
            watching->once = true;
            break;
        case 'j':
            watching->as_json = true;
            break;
        default:
            return cli_bad_option(&cmd_top, option, argv);
        }
    }
    if (optind < argc) {
        return cli_usage_error(&cmd_top, "'%s' is not an option", argv[optind]);
    }
    return -1;
}

/* --- asking ---------------------------------------------------------------------------------- */

static int read_list(struct watching *watching, const char *path, struct top *top,
                     void (*read)(struct top *top, const struct jnode *items))
{
    struct pages pages = {.path = path};
    const struct jnode *items = NULL;
    int code = EXIT_DONE;
    while ((code = pages_next(&watching->remote, &pages, &items)) == EXIT_DONE && items) {
        read(top, items);
    }
    pages_release(&pages);
    return code;
}

/* The past of nodes that have come onto the screen. A server that has none is not asked again. */
static void read_pasts(struct watching *watching)
{
    struct top *top = &watching->top;
    size_t first = 0;
    size_t count = top_view_nodes(top, &watching->screen, &first);
    int asked = 0;
    for (size_t i = first; i < first + count && asked < PAST_PER_LOOK; i++) {
        struct top_node *node = &top->nodes[i];
        if (node->has_past || !node->has_usage) {
            continue;
        }
        AUTO_STR struct str path = {0};
        AUTO_STR struct str from = {0};
        struct jread answer = {0};
        clock_add_rfc3339(&from, top->now_ms - (int64_t)TOP_HISTORY * PAST_STEP_S * 1000);
        str_add(&path, "/api/v1/usage");
        remote_add_query(&path, "node", node->name);
        remote_add_query(&path, "from", str_text(&from));
        str_addf(&path, "&step=%d", PAST_STEP_S);
        bool is_there = remote_get(&watching->remote, str_text(&path), &answer, NULL) == EXIT_DONE;
        top_read_past(node, is_there ? jread_get(answer.root, "items") : NULL);
        jread_release(&answer);
        asked++;
    }
}

/* Asks for everything; on failure the numbers stay what they were. */
static int look(struct watching *watching)
{
    struct top now = {0};
    struct jread server = {0};
    int code = remote_get(&watching->remote, "/api/v1/server", &server, NULL);
    if (code == EXIT_DONE) {
        top_read_server(&now, server.root, watching->remote.url, clock_unix_ms());
        code = read_list(watching, "/api/v1/nodes?limit=1000", &now, top_read_nodes);
    }
    if (code == EXIT_DONE) {
        code =
            read_list(watching, "/api/v1/workflows?state=running&limit=1000", &now, top_read_flows);
    }
    jread_release(&server);
    if (code != EXIT_DONE) {
        top_release(&now);
        return code;
    }
    top_merge(&now, &watching->top);
    watching->top = now;
    watching->answered_ms = clock_mono_ms();
    top_sort(&watching->top, watching->screen.order);
    return EXIT_DONE;
}

/* --- off a terminal -------------------------------------------------------------------------- */

static void print(const struct watching *watching)
{
    AUTO_STR struct str out = {0};
    if (watching->as_json) {
        top_add_json(&out, &watching->top);
    } else {
        top_view_draw(&out, &watching->top, &watching->screen);
    }
    cli_write(&out);
}

static int watch_plainly(struct watching *watching)
{
    bool once = watching->once || (!watching->as_json && !watching->has_interval);
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    watching->screen.width = width > 0 && width <= 1000 ? (int)width : PLAIN_WIDTH;
    watching->screen.utf8 = screen_is_utf8();
    for (;;) {
        int code = look(watching);
        if (code != EXIT_DONE) {
            return code;
        }
        print(watching);
        if (once) {
            return EXIT_DONE;
        }
        if (!watching->as_json) {
            AUTO_STR struct str blank = {0};
            str_add_char(&blank, '\n');
            cli_write(&blank);
        }
        usleep((useconds_t)(watching->interval_ms * 1000));
    }
}

/* --- on a terminal --------------------------------------------------------------------------- */

static void draw(struct watching *watching)
{
    struct top_screen *screen = &watching->screen;
    int64_t silent_ms = clock_mono_ms() - watching->answered_ms;
    screen_size(&screen->width, &screen->height);
    screen->silent_ms = silent_ms > 2 * watching->interval_ms + 1000 ? silent_ms : 0;
    size_t scroll_max = top_view_scroll_max(&watching->top, screen);
    screen->scroll = screen->scroll < scroll_max ? screen->scroll : scroll_max;
    AUTO_STR struct str out = {0};
    top_view_draw(&out, &watching->top, screen);
    screen_show(&out);
}

static void scroll(struct watching *watching, bool down, size_t rows)
{
    size_t *at = &watching->screen.scroll;
    *at = down ? *at + rows : *at > rows ? *at - rows : 0;
}

static void set_focus(struct watching *watching, enum top_focus focus)
{
    struct top_screen *screen = &watching->screen;
    screen->focus = screen->focus == focus ? TOP_BOTH : focus;
    screen->scroll = 0;
}

/* False: the user wants to leave. */
static bool take_key(struct watching *watching, enum screen_key key)
{
    struct top_screen *screen = &watching->screen;
    size_t page = screen->height > 12 ? (size_t)screen->height - 10 : 2;
    switch ((int)key) {
    case 'q':
    case SCREEN_LEAVE:
        return false;
    case 's':
        screen->order = (enum top_order)((screen->order + 1) % TOP_ORDERS);
        top_sort(&watching->top, screen->order);
        break;
    case 'w':
        set_focus(watching, TOP_FLOWS);
        break;
    case 'n':
        set_focus(watching, TOP_NODES);
        break;
    case 'j':
    case SCREEN_DOWN:
        scroll(watching, true, 1);
        break;
    case 'k':
    case SCREEN_UP:
        scroll(watching, false, 1);
        break;
    case ' ':
    case SCREEN_PAGE_DOWN:
        scroll(watching, true, page);
        break;
    case SCREEN_PAGE_UP:
        scroll(watching, false, page);
        break;
    default:
        break;
    }
    return true;
}

/* Redraws until the next look is due; false: the user wants to leave. */
static bool wait_for_look(struct watching *watching, int64_t until_ms)
{
    for (;;) {
        draw(watching);
        int64_t left_ms = until_ms - clock_mono_ms();
        if (left_ms <= 0) {
            return true;
        }
        if (!take_key(watching, screen_wait(left_ms))) {
            return false;
        }
    }
}

static int watch_live(struct watching *watching)
{
    int code = look(watching); /* before the terminal is taken: what is wrong is printed plainly */
    if (code != EXIT_DONE) {
        return code;
    }
    watching->remote.quiet = true;
    watching->screen.colour = screen_has_colour();
    watching->screen.utf8 = screen_is_utf8();
    screen_open();
    int64_t next_ms = clock_mono_ms();
    do {
        screen_size(&watching->screen.width, &watching->screen.height);
        read_pasts(watching);
        next_ms += watching->interval_ms;
        int64_t now_ms = clock_mono_ms();
        next_ms = next_ms > now_ms ? next_ms : now_ms;
        if (!wait_for_look(watching, next_ms)) {
            break;
        }
        (void)look(watching); /* the screen says how old its numbers are */
    } while (true);
    screen_close();
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct watching watching = {.interval_ms = INTERVAL_MS};
    int code = parse(&watching, argc, argv);
    if (code >= 0) {
        return code;
    }
    bool is_live =
        isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !watching.as_json && !watching.once;
    code = remote_open(watching.state, &watching.remote);
    if (code == EXIT_DONE) {
        code = is_live ? watch_live(&watching) : watch_plainly(&watching);
    }
    remote_close(&watching.remote);
    top_release(&watching.top);
    return code;
}

const struct cli_command cmd_top = {
    .name = "top",
    .arguments = "[--interval TIME] [--once] [--state DIR] [--json]",
    .summary = "watch a server: its workflows, its nodes and what they use",
    .help =
        "  --interval TIME  between looks: 500ms, 2s, 1m (2s)\n"
        "  --once           print it once and leave\n"
        "  --state DIR      the server of this folder\n"
        "  --json           one object a look\n\n"
        "Keys: q leaves, s sorts the nodes by something else, w shows only workflows, n only\n"
        "nodes, the arrows scroll. Off a terminal it prints plain text, once unless --interval\n"
        "is given.\n\n"
        "Examples:\n"
        "  drover top\n"
        "  drover top --once --json\n",
    .run = run,
};
