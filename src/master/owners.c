#include "master/owners.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "master/child.h"
#include "wire/door.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NEEDED_MS = 60000,    /* longer than a node keeps a mount that nobody uses */
    STOP_WAIT_MS = 30000, /* for one that stores what was written */
    AGAIN_FIRST_MS = 500, /* after a failure */
    AGAIN_MAX_MS = 15000,
    HEALTHY_MS = 60000, /* who ran for so long has not failed at the start */
    PORTS_TRIED = 500,
    ARGUMENTS_MAX = 16,
};

struct owner {
    char *store, *endpoint, *region, *addressing;
    char *folder;
    char *url;
    uint16_t port;
    int64_t needed_ms; /* until then */
    pid_t pid;         /* 0: does not run */
    bool is_told_to_end;
    int64_t started_ms, again_ms, pause_ms;
    struct err trouble; /* why it does not run; code ERR_OK: nothing is known to be wrong */
    struct owner *next;
};

struct owners {
    struct owners_options options;
    struct owner *first;
    size_t count;
};

struct owners *owners_create(const struct owners_options *options)
{
    struct owners *owners = mem_alloc(sizeof *owners);
    owners->options = *options;
    return owners;
}

static struct owner *find(const struct owners *owners, const struct owners_volume *volume)
{
    struct owner *owner = owners->first;
    while (owner && (strcmp(owner->store, volume->store) != 0 ||
                     strcmp(owner->endpoint, volume->endpoint) != 0 ||
                     strcmp(owner->region, volume->region) != 0 ||
                     strcmp(owner->addressing, volume->addressing) != 0)) {
        owner = owner->next;
    }
    return owner;
}

static void wipe_and_free(char *secret)
{
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

static void free_owner(struct owner *owner)
{
    free(owner->store);
    free(owner->endpoint);
    free(owner->region);
    free(owner->addressing);
    free(owner->folder);
    wipe_and_free(owner->url);
    free(owner);
}

/* --- where it is ----------------------------------------------------------------------------- */

static bool is_everywhere(const char *host)
{
    return host[0] == '\0' || strcmp(host, "*") == 0;
}

static bool port_is_free(const char *host, uint16_t port)
{
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (getaddrinfo(is_everywhere(host) ? NULL : host, service, &hints, &found) != 0) {
        return false;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    bool is_free = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                   bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    if (fd >= 0) {
        close(fd);
    }
    freeaddrinfo(found);
    return is_free;
}

static bool is_taken(const struct owners *owners, uint16_t port)
{
    const struct owner *owner = owners->first;
    while (owner && owner->port != port) {
        owner = owner->next;
    }
    return owner != NULL;
}

static uint16_t random_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t size = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&any, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&any, &size) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return good ? ntohs(any.sin_port) : 0;
}

/* One beside the server's own, so that a firewall can let them through; else any. 0: none. */
static uint16_t pick_port(const struct owners *owners)
{
    const char *host = owners->options.listen_host;
    uint32_t first = owners->options.port;
    for (uint32_t i = 0; first > 0 && i < PORTS_TRIED && first + i <= UINT16_MAX; i++) {
        uint16_t port = (uint16_t)(first + i);
        if (!is_taken(owners, port) && port_is_free(host, port)) {
            return port;
        }
    }
    for (int i = 0; i < PORTS_TRIED; i++) {
        uint16_t port = random_port();
        if (port != 0 && !is_taken(owners, port)) {
            return port;
        }
    }
    return 0;
}

static void add_folder(const struct owners *owners, const struct owners_volume *volume,
                       struct str *out)
{
    AUTO_STR struct str text = {0};
    uint8_t hash[SHA256_BYTES];
    str_addf(&text, "%s %s %s %s", volume->store, volume->endpoint, volume->region,
             volume->addressing);
    sha256_of(text.text, text.size, hash);
    str_addf(out, "%s/", owners->options.folder);
    for (size_t i = 0; i < 8; i++) {
        str_addf(out, "%02x", hash[i]);
    }
}

/* Its key, port and secret: as they were, or new ones. */
static enum err_code make_url(const struct owners *owners, struct owner *owner, struct err *err)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct door_keys keys;
    struct door_url url = {0};
    str_addf(&path, "%s/meta.key", owner->folder);
    enum err_code code = io_make_dirs(owner->folder, err);
    if (code == ERR_OK) {
        code = door_keys_load(str_text(&path), &keys, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    str_clear(&path);
    str_addf(&path, "%s/volume.url", owner->folder);
    bool had_one = io_read_file(str_text(&path), 4096, &text, NULL) == ERR_OK;
    if (had_one) {
        text.size = strcspn(str_text(&text), "\n");
        text.text[text.size] = '\0';
        had_one = door_url_parse(str_text(&text), &url, NULL) == ERR_OK && url.secret[0] != '\0' &&
                  strcmp(url.server_key, keys.public_key) == 0 && !is_taken(owners, url.port);
    }
    if (!had_one) {
        door_make_secret(url.secret);
        url.port = pick_port(owners);
    }
    snprintf(url.host, sizeof url.host, "%s", owners->options.public_host);
    memcpy(url.server_key, keys.public_key, sizeof url.server_key);
    door_keys_wipe(&keys);
    str_clear(&text);
    door_url_add(&text, &url);
    owner->url = mem_strdup(str_text(&text));
    owner->port = url.port;
    str_add_char(&text, '\n');
    code = url.port == 0 ? err_set(err, ERR_EXISTS, "no port is free for a volume's owner")
                         : io_replace_file(str_text(&path), text.text, text.size, 0600, err);
    explicit_bzero(text.text, text.cap);
    explicit_bzero(&url, sizeof url);
    return code;
}

/* --- the process ----------------------------------------------------------------------------- */

static void fail(struct owners *owners, struct owner *owner, const struct err *why)
{
    bool is_news = strcmp(owner->trouble.text, why->text) != 0;
    owner->trouble = *why;
    owner->again_ms = clock_mono_ms() + owner->pause_ms;
    owner->pause_ms = owner->pause_ms * 2 < AGAIN_MAX_MS ? owner->pause_ms * 2 : AGAIN_MAX_MS;
    if (is_news) {
        owners->options.note(owners->options.context, why->text);
    }
}

struct arguments {
    const char *texts[ARGUMENTS_MAX];
    size_t count;
};

static void add_option(struct arguments *arguments, struct str *text, const char *option,
                       const char *value)
{
    if (value[0]) {
        str_addf(text, "%s%s", option, value);
        arguments->texts[arguments->count++] = str_text(text);
    }
}

static void start(struct owners *owners, struct owner *owner)
{
    AUTO_STR struct str listen = {0};
    AUTO_STR struct str log = {0};
    AUTO_STR struct str endpoint = {0};
    AUTO_STR struct str region = {0};
    AUTO_STR struct str addressing = {0};
    const char *host = owners->options.listen_host;
    str_addf(&listen, strchr(host, ':') ? "--listen=[%s]:%u" : "--listen=%s:%u",
             is_everywhere(host) ? "0.0.0.0" : host, (unsigned)owner->port);
    str_addf(&log, "%s/meta.log", owner->folder);
    struct arguments arguments = {.texts = {"drover", "meta", "--quiet", "--state", owner->folder,
                                            "--public-host", owners->options.public_host,
                                            str_text(&listen)},
                                  .count = 8};
    add_option(&arguments, &endpoint, "--endpoint=", owner->endpoint);
    add_option(&arguments, &region, "--region=", owner->region);
    add_option(&arguments, &addressing, "--addressing=", owner->addressing);
    arguments.texts[arguments.count++] = "--";
    arguments.texts[arguments.count] = owner->store;
    unlink(str_text(&log)); /* what it says of its end is for this life */
    owner->pid = child_start(arguments.texts, str_text(&log), SIGTERM);
    owner->started_ms = clock_mono_ms();
    owner->is_told_to_end = false;
    if (owner->pid < 0) {
        struct err why = {0};
        owner->pid = 0;
        (void)!err_errno(&why, errno, "volume %s: its owner cannot be started", owner->store);
        fail(owners, owner, &why);
    }
}

static void read_why(const struct owner *owner, struct err *out)
{
    AUTO_STR struct str path = {0};
    char words[300];
    str_addf(&path, "%s/meta.log", owner->folder);
    io_last_words(str_text(&path), words, sizeof words);
    (void)!err_set(out, ERR_IO, "volume %s: %s", owner->store,
                   words[0] ? words : "its owner has ended");
}

static bool bury(struct owner *owner)
{
    if (owner->pid == 0 || waitpid(owner->pid, NULL, WNOHANG) != owner->pid) {
        return false;
    }
    owner->pid = 0;
    return true;
}

static void look_after(struct owners *owners, struct owner *owner, int64_t now_ms)
{
    if (bury(owner) && !owner->is_told_to_end) {
        struct err why = {0};
        read_why(owner, &why);
        if (now_ms - owner->started_ms >= HEALTHY_MS) {
            owner->pause_ms = AGAIN_FIRST_MS;
        }
        fail(owners, owner, &why);
    }
    bool is_needed = now_ms < owner->needed_ms;
    if (owner->pid > 0 && !is_needed && !owner->is_told_to_end) {
        kill(owner->pid, SIGTERM);
        owner->is_told_to_end = true;
    }
    if (owner->pid > 0 && now_ms - owner->started_ms > 2000) {
        owner->trouble = (struct err){0};
    }
    if (owner->pid == 0 && is_needed && now_ms >= owner->again_ms) {
        start(owners, owner);
    }
}

/* --- for others ------------------------------------------------------------------------------ */

void owners_need(struct owners *owners, const struct owners_volume *volume)
{
    struct owner *owner = find(owners, volume);
    int64_t now_ms = clock_mono_ms();
    if (!owner && owners->count < OWNERS_MAX) {
        AUTO_STR struct str folder = {0};
        owner = mem_alloc(sizeof *owner);
        owner->store = mem_strdup(volume->store);
        owner->endpoint = mem_strdup(volume->endpoint);
        owner->region = mem_strdup(volume->region);
        owner->addressing = mem_strdup(volume->addressing);
        add_folder(owners, volume, &folder);
        owner->folder = str_take(&folder);
        owner->pause_ms = AGAIN_FIRST_MS;
        struct err err = {0};
        if (make_url(owners, owner, &err) != ERR_OK) {
            owners->options.note(owners->options.context, err.text);
            free_owner(owner);
            return;
        }
        owner->next = owners->first;
        owners->first = owner;
        owners->count++;
    }
    if (owner) {
        owner->needed_ms = now_ms + NEEDED_MS;
        look_after(owners, owner, now_ms);
    }
}

const char *owners_url(const struct owners *owners, const struct owners_volume *volume,
                       struct err *err)
{
    const struct owner *owner = find(owners, volume);
    if (!owner) {
        (void)!err_set(err, ERR_QUOTA, "volume %s: it can have no owner beside the server",
                       volume->store);
        return NULL;
    }
    if (owner->trouble.code != ERR_OK) {
        *err = owner->trouble;
        return NULL;
    }
    return owner->url;
}

const char *owners_explain(const struct owners *owners, const char *text)
{
    for (const struct owner *owner = owners->first; owner; owner = owner->next) {
        if (owner->trouble.code != ERR_OK && strstr(text, owner->store)) {
            return owner->trouble.text;
        }
    }
    return text;
}

void owners_tick(struct owners *owners)
{
    int64_t now_ms = clock_mono_ms();
    struct owner **link = &owners->first;
    while (*link) {
        struct owner *owner = *link;
        look_after(owners, owner, now_ms);
        if (owner->pid == 0 && now_ms >= owner->needed_ms) {
            *link = owner->next;
            owners->count--;
            free_owner(owner);
        } else {
            link = &owner->next;
        }
    }
}

static bool all_are_buried(struct owners *owners)
{
    bool all = true;
    for (struct owner *owner = owners->first; owner; owner = owner->next) {
        (void)!bury(owner);
        all = all && owner->pid == 0;
    }
    return all;
}

static void kill_all(const struct owners *owners, int signal_number)
{
    for (const struct owner *owner = owners->first; owner; owner = owner->next) {
        if (owner->pid > 0) {
            kill(owner->pid, signal_number);
        }
    }
}

void owners_destroy(struct owners *owners)
{
    if (!owners) {
        return;
    }
    int64_t until_ms = clock_mono_ms() + STOP_WAIT_MS;
    kill_all(owners, SIGTERM);
    while (!all_are_buried(owners) && clock_mono_ms() < until_ms) {
        usleep(5000);
    }
    kill_all(owners, SIGKILL);
    while (!all_are_buried(owners)) {
        usleep(2000);
    }
    while (owners->first) {
        struct owner *owner = owners->first;
        owners->first = owner->next;
        free_owner(owner);
    }
    free(owners);
}
