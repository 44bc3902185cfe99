/* The join URL. It holds a secret, so no error text repeats any of it but the host. */
#include "base/str.h"
#include "wire/door.h"

#include <arpa/inet.h>
#include <string.h>
#include <zmq.h>

#define SCHEME "drover://"

enum { KEY_BYTES = 32, URL_BYTES_MAX = 1024, HOST_CHARS_MAX = 253 };

static bool host_name_is_valid(const char *host)
{
    size_t size = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return size > 0 && size <= HOST_CHARS_MAX && host[size] == '\0' && host[0] != '-' &&
           host[0] != '.';
}

/* An IPv6 address, with %INTERFACE where it is of one link. */
static bool host_address_is_valid(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    size_t size = strcspn(host, "%");
    if (size >= sizeof address || (host[size] == '%' && !host_name_is_valid(host + size + 1))) {
        return false;
    }
    memcpy(address, host, size);
    address[size] = '\0';
    struct in6_addr bytes;
    return inet_pton(AF_INET6, address, &bytes) == 1;
}

/* text is 2 * KEY_BYTES hex digits. */
static bool hex_decode(const char *text, uint8_t out[KEY_BYTES])
{
    for (size_t i = 0; i < KEY_BYTES; i++) {
        int high = str_hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : str_hex_digit(text[2 * i + 1]);
        if (low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static void hex_add(struct str *out, const uint8_t bytes[KEY_BYTES])
{
    for (size_t i = 0; i < KEY_BYTES; i++) {
        str_addf(out, "%02x", bytes[i]);
    }
}

static enum err_code parse_host(const char **at, struct door_url *out, struct err *err)
{
    const char *from = *at;
    bool in_brackets = *from == '[';
    from += in_brackets;
    size_t size = strcspn(from, in_brackets ? "]/?#" : ":/?#");
    if (size == 0 || size >= sizeof out->host) {
        return err_set(err, ERR_INVALID, "join URL: no host after " SCHEME);
    }
    memcpy(out->host, from, size);
    out->host[size] = '\0';
    if (in_brackets && from[size] != ']') {
        return err_set(err, ERR_INVALID, "join URL: [ without ]");
    }
    if (!(in_brackets ? host_address_is_valid(out->host) : host_name_is_valid(out->host))) {
        return err_set(err, ERR_INVALID, "join URL: this is no host%s",
                       in_brackets ? " in brackets (they are for IPv6 addresses)" : "'s name");
    }
    *at = from + size + in_brackets;
    return ERR_OK;
}

static enum err_code parse_port(const char **at, struct door_url *out, struct err *err)
{
    const char *digits = *at;
    if (*digits == ':') {
        digits++;
    }
    size_t count = strspn(digits, "0123456789");
    unsigned long port = 0;
    for (size_t i = 0; i < count && i < 6; i++) {
        port = port * 10 + (unsigned long)(digits[i] - '0');
    }
    if (**at != ':' || count == 0 || count > 5 || port == 0 || port > UINT16_MAX) {
        return err_set(err, ERR_INVALID, "join URL: %s: no port from 1 to 65535", out->host);
    }
    out->port = (uint16_t)port;
    *at = digits + count;
    return ERR_OK;
}

/* One NAME=HEX; *at is moved behind it. */
static enum err_code parse_parameter(const char **at, struct door_url *out, struct err *err)
{
    const char *from = *at;
    size_t size = strcspn(from, "&");
    bool is_key = strncmp(from, "key=", 4) == 0;
    bool is_secret = strncmp(from, "secret=", 7) == 0;
    if (!is_key && !is_secret) {
        return err_set(err, ERR_INVALID, "join URL: a parameter that is neither key nor secret");
    }
    const char *name = is_key ? "key" : "secret";
    if (is_key ? out->server_key[0] : out->secret[0]) {
        return err_set(err, ERR_INVALID, "join URL: %s twice", name);
    }
    size_t name_size = strlen(name) + 1;
    uint8_t bytes[KEY_BYTES];
    if (size != name_size + DOOR_SECRET_CHARS || !hex_decode(from + name_size, bytes)) {
        return err_set(err, ERR_INVALID, "join URL: %s is not %d hex digits", name, 2 * KEY_BYTES);
    }
    if (is_key) {
        CHECK(zmq_z85_encode(out->server_key, bytes, sizeof bytes));
    } else {
        struct str hex = {0};
        hex_add(&hex, bytes);
        memcpy(out->secret, hex.text, DOOR_SECRET_CHARS + 1);
        explicit_bzero(hex.text, hex.size);
        str_release(&hex);
    }
    explicit_bzero(bytes, sizeof bytes);
    *at = from + size;
    return ERR_OK;
}

static enum err_code parse(const char *text, struct door_url *out, struct err *err)
{
    if (strlen(text) > URL_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "join URL: too long");
    }
    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0) {
        return err_set(err, ERR_INVALID, "join URL: does not begin with " SCHEME);
    }
    const char *at = text + strlen(SCHEME);
    enum err_code code = parse_host(&at, out, err);
    if (code == ERR_OK) {
        code = parse_port(&at, out, err);
    }
    char expected = '?';
    while (code == ERR_OK && *at) {
        if (*at != expected) {
            return err_set(err, ERR_INVALID,
                           "join URL: %s: something else than ?key= after the port", out->host);
        }
        at++;
        expected = '&';
        code = parse_parameter(&at, out, err);
    }
    if (code == ERR_OK && !out->server_key[0]) {
        code = err_set(err, ERR_INVALID,
                       "join URL: no key= in it (in a shell, put the URL in quotes)");
    }
    return code;
}

enum err_code door_url_parse(const char *text, struct door_url *out, struct err *err)
{
    struct door_url url = {0};
    enum err_code code = parse(text, &url, err);
    if (code == ERR_OK) {
        *out = url;
    }
    explicit_bzero(&url, sizeof url);
    return code;
}

void door_url_add(struct str *out, const struct door_url *url)
{
    bool in_brackets = strchr(url->host, ':') != NULL;
    uint8_t key[KEY_BYTES];
    CHECK(strlen(url->server_key) == DOOR_KEY_CHARS);
    CHECK(zmq_z85_decode(key, url->server_key));
    str_addf(out, SCHEME "%s%s%s:%u?key=", in_brackets ? "[" : "", url->host,
             in_brackets ? "]" : "", (unsigned)url->port);
    hex_add(out, key);
    if (url->secret[0]) {
        str_addf(out, "&secret=%s", url->secret);
    }
}
