/* api_routes.c - every route of the API, once: for matching, for checking, for the document. */
#include "master/api.h"

#define TASK_STATE_WORDS "waiting queued assigned running succeeded failed cancelled skipped"

static const struct api_param p_limit = {"limit", API_NUMBER, .least = 1, .most = API_PAGE_MAX,
                                         .about = "items at most; default 100"};
static const struct api_param p_after = {
    "after", API_TEXT, .about = "\"next\" of the page before: goes on from there"};

static const struct api_param p_folder = {
    "folder", API_TEXT, .about = "where commands run, absolute, on every node; without code"};
static const struct api_param p_code = {
    "code", API_TEXT, .about = "version of synced code to run in (POST /code/versions)"};
static const struct api_param p_file = {
    "file", API_TEXT, .about = "name of the recipe, for messages and for the workflow's id"};
static const struct api_param p_seed = {"seed", API_NUMBER, .most = UINT64_MAX,
                                        .about =
                                            "of all sampling; default: the recipe's, or drawn"};
static const struct api_param p_set = {"set", API_TEXT, .repeats = true,
                                       .about = "PATH=VALUE, changes the recipe as --set does"};
static const struct api_param p_ignore_hardware = {
    "ignore_hardware", API_FLAG, .about = "every task takes one slot, whatever it asks for"};
static const struct api_param p_no_containers = {
    "no_containers", API_FLAG, .about = "run without the images that the recipe names"};

static const struct api_param p_workflow_state = {
    "state", API_WORD, .words = "running succeeded failed cancelled", .about = "only these"};
static const struct api_param p_experiment = {"experiment", API_TEXT,
                                              .about = "only tasks of this experiment"};
static const struct api_param p_searched = {"experiment", API_TEXT,
                                            .about = "only the search of this experiment"};
static const struct api_param p_task_state = {"state", API_WORD, .words = TASK_STATE_WORDS,
                                              .about = "only tasks in this state"};
static const struct api_param p_failed = {"failed", API_FLAG, .about = "only tasks that failed"};

static const struct api_param p_offset = {"offset", API_NUMBER, .most = INT64_MAX,
                                          .about = "begin at this byte"};
static const struct api_param p_size = {"size", API_NUMBER, .most = API_LOG_BYTES_MAX,
                                        .about = "bytes at most; default: all, up to 64 MiB"};
static const struct api_param p_attempt = {"attempt", API_NUMBER, .least = 1, .most = UINT32_MAX,
                                           .about = "default: the newest"};
static const struct api_param p_log_stream = {"stream", API_WORD, .words = "application system",
                                              .about = "what the task printed (default), "
                                                       "or what happened to it"};
static const struct api_param p_older = {
    "older", API_FLAG, .about = "the part of a long log that was moved aside before the newest"};
static const struct api_param p_last_event_id = {
    "last_event_id", API_TEXT, .about = "as the header Last-Event-ID: goes on after this one"};

static const struct api_param p_find = {"text", API_TEXT,
                                        .about = "what to look for; at least one byte"};
static const struct api_param p_regex = {"regex", API_FLAG,
                                         .about = "text is a POSIX extended regular expression"};

static const struct api_param p_mode = {
    "mode", API_WORD, .words = "soft hard off",
    .about =
        "soft: nothing new (default); hard: what runs there moves, too; off: takes work again"};
static const struct api_param p_node = {"node", API_TEXT, .about = "a node, by name or number"};
static const struct api_param p_task = {"task", API_TEXT, .about = "a task: W/EXPERIMENT/INDEX"};
static const struct api_param p_from = {"from", API_TIME,
                                        .about = "RFC 3339 in UTC; default: an hour before `to`"};
static const struct api_param p_to = {"to", API_TIME, .about = "RFC 3339 in UTC; default: now"};
static const struct api_param p_step = {
    "step", API_NUMBER, .most = 86400, .about = "seconds to average over; default 0: every sample"};
static const struct api_param p_workflow = {
    "workflow", API_TEXT, .about = "only events of this workflow, and of nodes and the server"};
static const struct api_param p_revoke = {
    "revoke", API_FLAG, .about = "the old URL is worth nothing any more, at once"};

#define PARAMS(...)                                                                                \
    (const struct api_param *const[])                                                              \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define PAGE &p_limit, &p_after

#define WORKFLOW_PATH API_BASE "/workflows/{workflow}"
#define TASK_PATH WORKFLOW_PATH "/tasks/{experiment}/{task}"

const struct api_route api_routes[] = {
    {"GET", "/healthz", TOKEN_NONE, api_get_health, "getHealth", "whether the server answers",
     .status = 200, .schema = "Health"},
    {"GET", "/metrics", TOKEN_READER, api_get_metrics, "getMetrics", "numbers for Prometheus",
     .status = 200, .type = "text/plain; version=0.0.4; charset=utf-8"},
    {"GET", API_BASE "/openapi.json", TOKEN_NONE, api_get_openapi, "getOpenapi", "this document",
     .status = 200, .schema = "Document"},
    {"GET", API_BASE "/server", TOKEN_READER, api_get_server, "getServer",
     "the server: version, folder, counters, trouble", .status = 200, .schema = "Server"},

    {"POST", API_BASE "/workflows", TOKEN_USER, api_submit, "submitWorkflow",
     "submit a recipe; answered once it is durable",
     PARAMS(&p_folder, &p_code, &p_file, &p_seed, &p_set, &p_ignore_hardware, &p_no_containers),
     .body = "Recipe", .status = 201, .schema = "Submitted", .takes_key = true},
    {"GET", API_BASE "/workflows", TOKEN_READER, api_list_workflows, "listWorkflows",
     "workflows, newest first", PARAMS(&p_workflow_state, PAGE), .status = 200,
     .schema = "Workflow", .is_list = true},
    {"GET", WORKFLOW_PATH, TOKEN_READER, api_get_workflow, "getWorkflow",
     "how a workflow stands: by id, by number, or \"newest\"", .status = 200, .schema = "Workflow"},
    {"GET", WORKFLOW_PATH "/recipe", TOKEN_READER, api_get_recipe, "getRecipe",
     "the recipe as it was submitted", .status = 200, .type = "text/yaml"},
    {"POST", WORKFLOW_PATH "/cancel", TOKEN_USER, api_cancel_workflow, "cancelWorkflow",
     "end all that has not ended", .status = 200, .schema = "Changed"},
    {"POST", WORKFLOW_PATH "/retry", TOKEN_USER, api_retry_workflow, "retryWorkflow",
     "run again what failed, was cancelled or skipped", .status = 200, .schema = "Changed"},

    {"GET", WORKFLOW_PATH "/tasks", TOKEN_READER, api_list_tasks, "listTasks",
     "tasks in order; a page may be short, even empty, while \"next\" is not null",
     PARAMS(&p_experiment, &p_task_state, &p_failed, PAGE), .status = 200, .schema = "Task",
     .is_list = true},
    {"GET", TASK_PATH, TOKEN_READER, api_get_task, "getTask", "one task", .status = 200,
     .schema = "Task"},
    {"POST", TASK_PATH "/cancel", TOKEN_USER, api_cancel_task, "cancelTask", "end one task",
     .status = 200, .schema = "Changed"},
    {"POST", TASK_PATH "/retry", TOKEN_USER, api_retry_task, "retryTask", "run one task again",
     .status = 200, .schema = "Changed"},
    {"GET", TASK_PATH "/plan", TOKEN_READER, api_get_plan, "getPlan",
     "what exactly a task runs: its command, folder and environment", .status = 200,
     .schema = "Plan"},
    {"GET", TASK_PATH "/log", TOKEN_READER, api_get_log, "getLog",
     "what a task printed; with Accept: text/event-stream it is followed",
     PARAMS(&p_offset, &p_size, &p_attempt, &p_log_stream, &p_older, &p_last_event_id),
     .status = 200, .type = "text/plain; charset=utf-8",
     .stream = "log (a piece, as a JSON string; id: ATTEMPT.OFFSET after it), attempt (another one "
               "began), end (the task is over)"},
    {"GET", WORKFLOW_PATH "/logs/search", TOKEN_READER, api_search_logs, "searchLogs",
     "lines of logs that hold a text; a call does a bounded amount of work",
     PARAMS(&p_find, &p_regex, &p_experiment, PAGE), .status = 200, .schema = "SearchPage"},

    {"GET", WORKFLOW_PATH "/trials", TOKEN_READER, api_list_trials, "listTrials",
     "the searches of a workflow and every trial of them, in order of number", PARAMS(&p_searched),
     .status = 200, .schema = "Trials"},

    {"GET", API_BASE "/nodes", TOKEN_READER, api_list_nodes, "listNodes", "every node ever seen",
     PARAMS(PAGE), .status = 200, .schema = "Node", .is_list = true},
    {"GET", API_BASE "/nodes/{node}", TOKEN_READER, api_get_node, "getNode",
     "one node, by name or number", .status = 200, .schema = "Node"},
    {"POST", API_BASE "/nodes/{node}/drain", TOKEN_USER, api_drain_node, "drainNode",
     "empty a node, or let it take work again", PARAMS(&p_mode), .status = 200, .schema = "Node"},
    {"POST", API_BASE "/nodes/{node}/revoke", TOKEN_ADMIN, api_revoke_node, "revokeNode",
     "cut a node off for good", .status = 200, .schema = "Node"},
    {"GET", API_BASE "/usage", TOKEN_READER, api_get_usage, "getUsage",
     "what a node or a task used over time", PARAMS(&p_node, &p_task, &p_from, &p_to, &p_step),
     .status = 200, .schema = "UsagePage"},

    {"GET", API_BASE "/events", TOKEN_READER, api_get_events, "getEvents",
     "what happens, as it happens", PARAMS(&p_workflow, &p_last_event_id), .status = 200,
     .type = "text/event-stream",
     .stream = "task, experiment, workflow, node, note; reset when events were missed"},

    {"GET", API_BASE "/tokens", TOKEN_ADMIN, api_list_tokens, "listTokens",
     "who may use this API; never the tokens themselves", PARAMS(PAGE), .status = 200,
     .schema = "Token", .is_list = true},
    {"POST", API_BASE "/tokens", TOKEN_ADMIN, api_make_token, "makeToken",
     "make a token; its text is shown once, here", .body = "NewToken", .status = 201,
     .schema = "MadeToken"},
    {"DELETE", API_BASE "/tokens/{token}", TOKEN_ADMIN, api_remove_token, "removeToken",
     "a token is worth nothing any more, at once", .status = 200, .schema = "Token"},
    {"POST", API_BASE "/join/rotate", TOKEN_ADMIN, api_rotate_join, "rotateJoin",
     "a new URL for nodes to join with; the old one stays good until its 24 h are over",
     PARAMS(&p_revoke), .status = 200, .schema = "JoinUrl"},

    {"POST", API_BASE "/code/missing", TOKEN_USER, api_post_code, "findMissingCode",
     "which of these objects the code store does not have", .body = "Hashes", .status = 200,
     .schema = "MissingCode"},
    {"PUT", API_BASE "/code/objects/{hash}", TOKEN_USER, api_post_code, "putCodeObject",
     "an object of the code store", .body = "Bytes", .status = 204},
    {"PUT", API_BASE "/code/pack", TOKEN_USER, api_post_code, "putCodePack",
     "many objects: \"HASH SIZE\\n\" and the bytes, again and again", .body = "Bytes",
     .status = 200, .schema = "CodePack"},
    {"POST", API_BASE "/code/versions", TOKEN_USER, api_post_code, "makeCodeVersion",
     "a version of code, from its manifest; 409 names objects that are missing", .body = "Manifest",
     .status = 201, .schema = "CodeVersion"},
    {"GET", API_BASE "/code/versions/{version}", TOKEN_USER, api_post_code, "getCodeVersion",
     "the manifest of a version", .status = 200, .type = "text/plain"},
};

const size_t api_route_count = sizeof api_routes / sizeof api_routes[0];
