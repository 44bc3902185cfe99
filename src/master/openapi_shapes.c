/* openapi_shapes.c - every object of the API, field by field. */
#include "master/openapi.h"

#define FIELDS (const struct openapi_field[])
#define END                                                                                        \
    {                                                                                              \
        NULL                                                                                       \
    }

#define TASK_STATES "waiting|queued|assigned|running|succeeded|failed|cancelled|skipped"
#define WORKFLOW_STATES "running|succeeded|failed|cancelled"

#define COUNT_FIELDS                                                                               \
    {"tasks", "integer"}, {"succeeded", "integer"}, {"failed", "integer"},                         \
        {"cancelled", "integer"}, {"skipped", "integer"},                                          \
        {"running", "integer", "on a node: assigned or running"},                                  \
        {"queued", "integer", "ready and not on a node"},                                          \
        {"waiting", "integer", "for what they depend on"},                                         \
        {"retrying", "integer", "of those queued: not before their back-off is over"},             \
    {                                                                                              \
        "attempts", "integer", "begun in all"                                                      \
    }

#define RATE_FIELDS                                                                                \
    {"memory_bytes", "integer"}, {"disk_read_bytes", "integer", "a second"},                       \
        {"disk_write_bytes", "integer", "a second"}, {"net_in_bytes", "integer", "a second"},      \
        {"net_out_bytes", "integer", "a second"},                                                  \
    {                                                                                              \
        "gpu_memory_bytes", "integer"                                                              \
    }

const struct openapi_shape openapi_shapes[] = {
    {"Health", "The server answers.", FIELDS{{"status", "ok"}, {"version", "string"}, END}},
    {"Document", "An OpenAPI 3.1 document.", NULL},
    {"Server", "The server as a whole.",
     FIELDS{{"version", "string"},
            {"folder", "string", "its state folder"},
            {"began_at", "time?"},
            {"now", "time?"},
            {"term", "integer", "grows with each start"},
            {"workflows", "integer"},
            {"nodes", "integer", "that are here"},
            {"last_event_id", "string", "of the newest event"},
            {"paused", "boolean", "nothing new is started"},
            {"trouble", "string?", "why"},
            {"counts", "ServerCounts"},
            END}},
    {"ServerCounts", "Since the server started.",
     FIELDS{{"accepted", "integer", "results"},
            {"refused", "integer", "stale results"},
            {"bad_messages", "integer", "of nodes"},
            {"denied", "integer", "joins and handshakes"},
            {"facts", "integer"},
            {"facts_not_durable", "integer", "now"},
            {"http_requests", "integer"},
            {"http_refused", "integer", "too large, too slow, malformed, too many"},
            {"http_denied", "integer", "no token that may"},
            {"http_connections", "integer", "now"},
            {"http_streams", "integer", "now"},
            END}},

    {"Submitted", "A workflow that was taken.",
     FIELDS{{"id", "string"},
            {"number", "integer"},
            {"state", WORKFLOW_STATES},
            {"tasks", "integer"},
            {"experiments", "SubmittedExperiment[]"},
            END}},
    {"SubmittedExperiment", "", FIELDS{{"name", "string"}, {"tasks", "integer"}, END}},
    {"Workflow", "How a workflow stands; as drover status --json.",
     FIELDS{{"id", "string"},
            {"number", "integer"},
            {"state", WORKFLOW_STATES},
            {"active", "boolean", "it has not ended"},
            {"state_folder", "string", "logs and outputs are in it"},
            {"priority", "integer"},
            {"seed", "integer"},
            {"owner", "string?", "whose token submitted it"},
            {"created_at", "time?"},
            {"finished_at", "time?"},
            {"waiting_for", "string?", "a need that no node meets"},
            {"experiments", "Experiment[]"},
            END}},
    {"Experiment", "Its tasks, counted.", FIELDS{{"name", "string"}, COUNT_FIELDS, END}},
    {"Changed", "What was asked for concerns so many tasks.",
     FIELDS{{"id", "string"}, {"tasks", "integer"}, END}},
    {"Task", "A task; as drover tasks --json.",
     FIELDS{{"id", "string", "W/EXPERIMENT/INDEX"},
            {"experiment", "string"},
            {"task", "integer", "its index"},
            {"state", TASK_STATES},
            {"attempt", "integer", "the newest; 0: none yet"},
            {"node", "string?", "of the newest attempt"},
            {"exit_code", "integer?", "of the last attempt that ended"},
            {"reason", "string?", "why the last attempt that ended failed"},
            {"started_at", "time?"},
            {"finished_at", "time?"},
            {"params", "object", "its arguments by name"},
            END}},
    {"SearchPage", "Lines found, and where to go on.",
     FIELDS{{"items", "FoundLine[]"},
            {"next", "string?", "a cursor: there may be more"},
            {"complete", "boolean", "every log was looked at"},
            END}},
    {"FoundLine", "A line of a log.",
     FIELDS{{"experiment", "string"},
            {"task", "integer"},
            {"attempt", "integer"},
            {"line", "integer", "from 1"},
            {"text", "string", "of a long line the part around what was found"},
            END}},

    {"Node", "A machine that runs tasks, or did.",
     FIELDS{{"name", "string"},
            {"number", "integer"},
            {"state", "here|away|suspect|draining|left|revoked"},
            {"slots", "integer"},
            {"cpu", "number"},
            {"memory_bytes", "integer"},
            {"disk_bytes", "integer"},
            {"gpus", "integer"},
            {"gpu", "string?", "their kind"},
            {"labels", "string[]"},
            {"tasks", "integer", "that take room there"},
            {"ended", "integer", "attempts whose end it reported"},
            {"used", "NodeUsed"},
            {"usage", "NodeUsage?", "as measured last"},
            {"price_hour", "number?"},
            {"cost", "number?", "so far"},
            {"joined_at", "time?"},
            {"heard_at", "time?"},
            {"version", "string"},
            {"pid", "integer"},
            END}},
    {"NodeUsed", "What its tasks asked for.",
     FIELDS{{"cpu", "number"},
            {"memory_bytes", "integer"},
            {"disk_bytes", "integer"},
            {"gpus", "integer"},
            END}},
    {"NodeUsage", "What is really used.",
     FIELDS{{"at", "time?"}, {"cpu", "number"}, {"gpu", "number"}, RATE_FIELDS, END}},
    {"UsagePage", "Samples, oldest first.",
     FIELDS{{"items", "UsagePoint[]"},
            {"complete", "boolean", "false: ask again from the last one on"},
            END}},
    {"UsagePoint", "A sample, or an average over a step.",
     FIELDS{{"at", "time?"}, {"cpu", "number"}, {"gpu", "number"}, RATE_FIELDS, END}},

    {"Token", "Who may use the API.",
     FIELDS{{"name", "string"}, {"role", "reader|user|admin"}, {"created_at", "time?"}, END}},
    {"NewToken", "A token to be made.",
     FIELDS{{"name", "string", "letters, digits, _ - ."}, {"role", "reader|user|admin"}, END}},
    {"MadeToken", "A new token. Its text is shown only here.",
     FIELDS{{"name", "string"},
            {"role", "reader|user|admin"},
            {"created_at", "time?"},
            {"token", "string"},
            END}},
    {"JoinUrl", "What drover node --join takes. A secret.", FIELDS{{"url", "string"}, END}},

    {"MissingCode", "Objects that the code store does not have.",
     FIELDS{{"missing", "string[]"}, END}},
    {"CodePack", "Objects that were taken.", FIELDS{{"objects", "integer"}, END}},
    {"CodeVersion", "A version of code that workflows may run in.",
     FIELDS{{"version", "string"}, {"files", "integer"}, {"bytes", "integer"}, END}},

    {"Problem", "What went wrong (RFC 9457). A recipe's mistakes are in `errors`.",
     FIELDS{{"type", "string"},
            {"title", "string"},
            {"status", "integer"},
            {"detail", "string"},
            {"errors", "~Mistake[]"},
            {"missing", "~string[]", "objects of code to be sent first"},
            END}},
    {"Mistake", "A mistake in a recipe; line 0 is the file as a whole, or set=.",
     FIELDS{{"file", "string"},
            {"line", "integer"},
            {"column", "integer"},
            {"message", "string"},
            END}},
};
const size_t openapi_shape_count = sizeof openapi_shapes / sizeof openapi_shapes[0];

const struct openapi_body openapi_bodies[] = {
    {"Recipe", {"application/yaml", "application/json"}, NULL},
    {"NewToken", {"application/json", "application/yaml"}, "NewToken"},
    {"Hashes", {"application/json", NULL}, "string[]"},
    {"Bytes", {"application/octet-stream", NULL}, NULL},
    {"Manifest", {"text/plain", NULL}, NULL},
};
const size_t openapi_body_count = sizeof openapi_bodies / sizeof openapi_bodies[0];
