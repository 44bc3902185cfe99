#include "cli/screen.h"

#include "base/io.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char enter[] = "\033[?1049h\033[?25l\033[2J";
static const char leave[] = "\033[?25h\033[?1049l";

static struct termios before;
static bool is_open;
static sigset_t mask_before;
static volatile sig_atomic_t shall_leave;
static char typed[64]; /* and not yet taken */
static size_t typed_size;

static void on_signal(int number)
{
    if (number != SIGWINCH) {
        shall_leave = 1;
    }
}

/* Signals come only while screen_wait waits, so that none is missed between looking and waiting. */
static void take_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t mask;
    sigemptyset(&mask);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &action, NULL);
        sigaddset(&mask, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, &mask_before);
}

static void write_text(const char *text, size_t size)
{
    if (io_write_all(STDOUT_FILENO, text, size, NULL) != ERR_OK) {
        shall_leave = 1; /* nobody sees it any more */
    }
}

void screen_open(void)
{
    struct termios now;
    take_signals();
    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        is_open = true;
        now = before;
        now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        now.c_cc[VMIN] = 0;
        now.c_cc[VTIME] = 0;
        now.c_cc[VSUSP] = _POSIX_VDISABLE; /* stopped, it would leave the terminal like this */
        tcsetattr(STDIN_FILENO, TCSANOW, &now);
        atexit(screen_close);
    }
    write_text(enter, sizeof enter - 1);
}

void screen_close(void)
{
    if (is_open) {
        is_open = false;
        write_text(leave, sizeof leave - 1);
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        sigprocmask(SIG_SETMASK, &mask_before, NULL);
    }
}

void screen_size(int *width, int *height)
{
    struct winsize size = {0};
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    *width = is_known ? size.ws_col : 80;
    *height = is_known && size.ws_row > 0 ? size.ws_row : 24;
}

bool screen_has_colour(void)
{
    const char *none = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return (!none || !none[0]) && terminal && strcmp(terminal, "dumb") != 0;
}

bool screen_is_utf8(void)
{
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void screen_show(const struct str *lines)
{
    struct str out = {0};
    const char *at = str_text(lines);
    str_add(&out, "\033[H");
    while (*at) {
        size_t size = strcspn(at, "\n");
        str_add_bytes(&out, at, size);
        str_add(&out, "\033[K"); /* the rest of what stood there */
        at += size + (at[size] == '\n');
        str_add(&out, *at ? "\r\n" : ""); /* a line's end after the last would scroll */
    }
    str_add(&out, "\033[J");
    write_text(str_text(&out), out.size);
    str_release(&out);
}

enum screen_key screen_read_key(const char *bytes, size_t size, size_t *used)
{
    static const struct {
        const char *sequence;
        enum screen_key key;
    } keys[] = {
        {"\033[A", SCREEN_UP},   {"\033OA", SCREEN_UP},       {"\033[B", SCREEN_DOWN},
        {"\033OB", SCREEN_DOWN}, {"\033[5~", SCREEN_PAGE_UP}, {"\033[6~", SCREEN_PAGE_DOWN},
    };
    unsigned char first = size > 0 ? (unsigned char)bytes[0] : 0;
    *used = size > 0;
    if (first != '\033') {
        bool is_end = first == 3 || first == 4; /* Control and C or D */
        return is_end ? SCREEN_LEAVE : (enum screen_key)first;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t length = strlen(keys[i].sequence);
        if (size >= length && memcmp(bytes, keys[i].sequence, length) == 0) {
            *used = length;
            return keys[i].key;
        }
    }
    *used = size;
    return size == 1 ? SCREEN_LEAVE : SCREEN_OTHER; /* Escape alone */
}

static enum screen_key next_key(void)
{
    size_t used = 0;
    enum screen_key key = screen_read_key(typed, typed_size, &used);
    typed_size -= used;
    memmove(typed, typed + used, typed_size);
    return key;
}

enum screen_key screen_wait(int64_t timeout_ms)
{
    if (typed_size > 0 && !shall_leave) {
        return next_key();
    }
    struct pollfd file = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000};
    int ready = shall_leave ? 0 : ppoll(&file, 1, &timeout, &mask_before);
    if (shall_leave || (file.revents & (POLLERR | POLLNVAL)) != 0) {
        return SCREEN_LEAVE;
    }
    if (ready <= 0) {
        return SCREEN_NOTHING;
    }
    ssize_t size = read(STDIN_FILENO, typed, sizeof typed);
    if (size <= 0) {
        return size < 0 && (errno == EINTR || errno == EAGAIN) ? SCREEN_NOTHING : SCREEN_LEAVE;
    }
    typed_size = (size_t)size;
    return next_key();
}
