/* Keys and secrets: made once, kept in a file that only its owner reads. */
#include "base/io.h"
#include "base/mem.h"
#include "wire/door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

/* The whole file. Both keys have DOOR_KEY_CHARS, so it has one size and fixed places. */
#define KEYS_FORMAT "drover keys 1\npublic %s\nsecret %s\n"
#define PUBLIC_AT (sizeof "drover keys 1\npublic " - 1)
#define SECRET_AT (PUBLIC_AT + DOOR_KEY_CHARS + sizeof "\nsecret " - 1)
#define KEYS_BYTES (SECRET_AT + DOOR_KEY_CHARS + 1)

void door_keys_wipe(struct door_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}

static void keys_write(char text[KEYS_BYTES + 1], const struct door_keys *keys)
{
    int size = snprintf(text, KEYS_BYTES + 1, KEYS_FORMAT, keys->public_key, keys->secret_key);
    CHECK(size == (int)KEYS_BYTES);
}

/* Right in every byte: the form, and a public key that is the secret one's. */
static bool keys_parse(const char text[KEYS_BYTES], struct door_keys *out)
{
    struct door_keys keys = {0};
    memcpy(keys.public_key, text + PUBLIC_AT, DOOR_KEY_CHARS);
    memcpy(keys.secret_key, text + SECRET_AT, DOOR_KEY_CHARS);
    char derived[DOOR_KEY_CHARS + 1];
    bool good =
        strlen(keys.public_key) == DOOR_KEY_CHARS && strlen(keys.secret_key) == DOOR_KEY_CHARS &&
        zmq_curve_public(derived, keys.secret_key) == 0 && strcmp(derived, keys.public_key) == 0;
    if (good) {
        char again[KEYS_BYTES + 1];
        keys_write(again, &keys);
        good = memcmp(again, text, KEYS_BYTES) == 0;
        explicit_bzero(again, sizeof again);
    }
    if (good) {
        *out = keys;
    }
    door_keys_wipe(&keys);
    return good;
}

static enum err_code keys_read(const char *file, struct door_keys *out, struct err *err)
{
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_errno(err, errno, "%s", file);
    }
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        return err_errno(err, errno, "%s", file);
    }
    if (!S_ISREG(facts.st_mode)) {
        return err_set(err, ERR_CORRUPT, "%s: not a plain file", file);
    }
    if (facts.st_mode & (S_IRWXG | S_IRWXO)) {
        return err_set(err, ERR_DENIED,
                       "%s: others may use it (mode %04o): chmod 600 it, or remove it for new keys",
                       file, (unsigned)(facts.st_mode & 07777));
    }
    char text[KEYS_BYTES + 1]; /* one more, to see a file that is too long */
    size_t held = 0;
    while (held < sizeof text) {
        ssize_t got = read(fd, text + held, sizeof text - held);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_errno(err, errno, "%s", file);
        }
        if (got == 0) {
            break;
        }
        held += (size_t)got;
    }
    bool good = held == KEYS_BYTES && keys_parse(text, out);
    explicit_bzero(text, sizeof text);
    return good ? ERR_OK
                : err_set(err, ERR_CORRUPT, "%s: not a file of keys: remove it for new ones", file);
}

static void sync_folder_of(const char *file)
{
    AUTO_FREE char *folder = mem_strdup(file);
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder] = '\0';
    }
    AUTO_CLOSE int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot; the keys are then as safe as they get */
    }
}

/* Gives the file its name, unless one has it: of two who make keys at once, one wins and both use
 * what it made. Not every file system has hard links. */
static int name_if_new(const char *from, const char *to)
{
    if (link(from, to) == 0) {
        return 0;
    }
    if (errno == EEXIST || errno == ENOSPC || errno == EDQUOT || errno == EACCES) {
        return -1;
    }
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

static enum err_code keys_create(const char *file, struct err *err)
{
    struct door_keys keys;
    if (zmq_curve_keypair(keys.public_key, keys.secret_key) != 0) {
        return err_set(err, ERR_UNSUPPORTED, "keys: this libzmq was built without CURVE");
    }
    char text[KEYS_BYTES + 1];
    keys_write(text, &keys);
    door_keys_wipe(&keys);

    AUTO_STR struct str temporary = {0};
    str_addf(&temporary, "%s.XXXXXX", file);
    AUTO_CLOSE int fd = mkostemp(temporary.text, O_CLOEXEC); /* mode 0600 */
    enum err_code code = ERR_OK;
    if (fd < 0) {
        code = err_errno(err, errno, "%s", file);
    } else {
        code = io_write_all(fd, text, KEYS_BYTES, err);
    }
    explicit_bzero(text, sizeof text);
    if (fd < 0) {
        return code;
    }
    if (code == ERR_OK && fsync(fd) != 0) {
        code = err_errno(err, errno, "%s", file);
    }
    if (code == ERR_OK && name_if_new(temporary.text, file) != 0 && errno != EEXIST) {
        code = err_errno(err, errno, "%s", file);
    }
    (void)unlink(temporary.text); /* gone already where it was renamed */
    sync_folder_of(file);
    return code;
}

enum err_code door_keys_load(const char *file, struct door_keys *out, struct err *err)
{
    enum err_code code = keys_read(file, out, err);
    if (code != ERR_NOT_FOUND) {
        return code;
    }
    code = keys_create(file, err);
    return code == ERR_OK ? keys_read(file, out, err) : code;
}

void door_make_secret(char out[DOOR_SECRET_CHARS + 1])
{
    uint8_t bytes[DOOR_SECRET_CHARS / 2];
    /* Up to 256 bytes come whole or not at all, and only before the pool is ready not at once. */
    ssize_t got = 0;
    do {
        got = getrandom(bytes, sizeof bytes, 0);
    } while (got < 0 && errno == EINTR);
    CHECK(got == (ssize_t)sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[DOOR_SECRET_CHARS] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

bool door_secret_equal(const char *a, const char *b)
{
    size_t a_size = strlen(a);
    size_t b_size = strlen(b);
    volatile unsigned difference = a_size != b_size;
    /* As long as what was given (a), whatever it is compared with. */
    for (size_t i = 0; i < a_size; i++) {
        unsigned char other = (unsigned char)b[b_size > 0 ? i % b_size : 0];
        difference |= (unsigned char)a[i] ^ other;
    }
    return difference == 0;
}
