/* Who owns a volume: enough about a process to know later, on the same machine, that it is gone. */
#include "base/io.h"
#include "base/rng.h"
#include "volume/volume_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES = 80 }; /* a byte may take three when it is written as JSON */

static void set_word(char out[VOLUME_WORD_MAX], const char *text)
{
    size_t size = strnlen(text, WORD_BYTES);
    memcpy(out, text, size);
    out[size] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* The 22nd field of /proc/PID/stat: when the process began; 0 for one that has ended and only waits
 * to be collected. False: there is no such process. */
static bool process_start(int64_t pid, uint64_t *start)
{
    char path[64];
    AUTO_STR struct str text = {0};
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (io_read_file(path, 4096, &text, NULL) != ERR_OK) {
        return false;
    }
    const char *at = strrchr(str_text(&text), ')'); /* the name may hold anything */
    bool has_ended = at != NULL && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0);
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return false;
    }
    *start = has_ended ? 0 : strtoull(at + 1, NULL, 10);
    return true;
}

static void read_words(struct volume_owner *out)
{
    char text[256] = "";
    AUTO_STR struct str boot = {0};
    if (gethostname(text, sizeof text - 1) == 0) {
        set_word(out->host, text);
    }
    if (io_read_file("/proc/sys/kernel/random/boot_id", 128, &boot, NULL) == ERR_OK) {
        set_word(out->boot, str_text(&boot));
    }
    ssize_t size = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    if (size > 0) {
        text[size] = '\0';
        set_word(out->space, text);
    }
}

void volume_owner_self(struct volume_owner *out, const char *who, int64_t now_unix_ms)
{
    *out = (struct volume_owner){.pid = getpid(), .since_unix_ms = now_unix_ms};
    set_word(out->who, who == NULL ? "" : who);
    read_words(out);
    (void)process_start(out->pid, &out->start);
    uint64_t words[2] = {rng_seed_from_system(), rng_seed_from_system()};
    memcpy(out->nonce, words, sizeof out->nonce);
}

bool volume_owner_is_gone(const struct volume_owner *owner)
{
    struct volume_owner here = {0};
    read_words(&here);
    bool known = here.boot[0] != '\0' && here.space[0] != '\0' && owner->start != 0;
    if (!known || strcmp(here.host, owner->host) != 0 || strcmp(here.boot, owner->boot) != 0 ||
        strcmp(here.space, owner->space) != 0) {
        return false;
    }
    if (owner->pid <= 0 || owner->pid > INT32_MAX) {
        return false;
    }
    uint64_t start = 0; /* the number may be another process's by now */
    bool none = kill((pid_t)owner->pid, 0) != 0 && errno == ESRCH;
    return none || (process_start(owner->pid, &start) && start != owner->start);
}
