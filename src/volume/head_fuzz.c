/* Any bytes as head, format, snapshot or pin: refused, or something that can be written and
 * read again. The
 * checksum is put right first, else nothing would ever get past it. */
#include "base/check.h"
#include "volume/volume_head.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_STR struct str text = {0};
    AUTO_STR struct str again = {0};
    str_add_bytes(&text, data, size);
    char sum[40];
    snprintf(sum, sizeof sum, ",\"sum\":\"%016" PRIx64 "\"}", XXH3_64bits(data, size));
    str_add(&text, sum);

    struct volume_format format;
    struct volume_head head;
    struct volume_view view;
    struct volume_pin pin;
    (void)!volume_head_decode((const char *)data, size, &head, NULL);
    if (volume_format_decode(text.text, text.size, &format, NULL) == ERR_OK) {
        volume_format_encode(&format, &again);
        CHECK(volume_format_decode(again.text, again.size, &format, NULL) == ERR_OK);
    } else if (volume_head_decode(text.text, text.size, &head, NULL) == ERR_OK) {
        volume_head_encode(&head, &again);
        volume_head_release(&head);
        CHECK(volume_head_decode(again.text, again.size, &head, NULL) == ERR_OK);
        volume_head_release(&head);
    } else if (volume_view_decode(text.text, text.size, &view, NULL) == ERR_OK) {
        volume_view_encode(&view, &again);
        volume_view_release(&view);
        CHECK(volume_view_decode(again.text, again.size, &view, NULL) == ERR_OK);
        volume_view_release(&view);
    } else if (volume_pin_decode(text.text, text.size, &pin, NULL) == ERR_OK) {
        volume_pin_encode(&pin, &again);
        volume_view_release(&pin.view);
        CHECK(volume_pin_decode(again.text, again.size, &pin, NULL) == ERR_OK);
        volume_view_release(&pin.view);
    }
    return 0;
}
