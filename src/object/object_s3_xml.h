/* object_s3_xml.h - a small, strict reader of the XML that S3 servers answer with.
 *
 * It tells the end of each element, in document order, with its path and, for one that holds no
 * other, its text:
 *     struct s3_xml xml;
 *     s3_xml_init(&xml, bytes, size);
 *     while (s3_xml_next(&xml)) { ... xml.path.text, xml.text.text ... }
 *     bool good = !xml.bad;
 *     s3_xml_release(&xml);
 * Elements, attributes (passed over), comments, processing instructions, the five named entities
 * and numeric ones are understood. A document type, CDATA, text between elements, wrong nesting and
 * anything behind the root make it bad. Bounded: S3_XML_DEPTH_MAX deep, never longer than the
 * input. Pure; the bytes are borrowed.
 */
#ifndef OBJECT_OBJECT_S3_XML_H
#define OBJECT_OBJECT_S3_XML_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum { S3_XML_DEPTH_MAX = 16 };

struct s3_xml {
    struct str path; /* "ListBucketResult/Contents/Key" */
    struct str text; /* of the element; "" if it holds others */
    bool bad;        /* the input is not what it should be; nothing more comes */

    /* Its own. */
    const char *at;
    const char *end;
    size_t parents[S3_XML_DEPTH_MAX]; /* where the path of each open element's parent ends */
    size_t depth;
    bool has_children; /* the innermost open element */
    bool told;         /* the path still names the element told last */
    bool over;         /* the root has ended */
};

void s3_xml_init(struct s3_xml *xml, const char *bytes, size_t size);
bool s3_xml_next(struct s3_xml *xml);
void s3_xml_release(struct s3_xml *xml);

/* Appends text with & < > " ' as entities, and control characters as numeric ones. */
void s3_xml_add_escaped(struct str *out, const char *text);

#endif
