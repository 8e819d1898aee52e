/* SPDX-License-Identifier: MIT */
/*
 * api - see api.h. A request is answered at once, or waits: for the supervisor to reach what was
 * asked, or for a helper process that discovers. It ends exactly once, by its answer or with its
 * connection.
 */
#include "nvmetcp/daemon/api.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/packet_conn.h"
#include "mover/base/packet_listener.h"
#include "mover/base/utf8.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/daemon/host.h"
#include "nvmetcp/daemon/second_owner.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/libnvme.h"
#include "nvmetcp/owned.h"
#include "nvmetcp/process.h"
#include "nvmetcp/supervisor.h"

#define DISCOVER_NS (30 * FM_NS_PER_S)
#define UP_MS 60000
#define DOWN_MS 20000
#define TIMEOUT_MS_MAX 86400000

static const struct fm_packet_limits limits = {
	.receive_max = FM_NVMED_REQUEST_BYTES_MAX,
	.send_max = FM_NVMED_MSG_MAX,
	.queue_max = 2u << 20,
	.queue_total = {"bytes of unread answers", 16u << 20, 2u << 20, 0, 1},
	.unread_ms = 10000,
	.is_plain = true,
};
/* Some are kept for root: nobody else shall keep it from taking a volume down. */
static const struct fm_share_limits conn_limits = {"connections to fmove-nvmed", FM_NVMED_CONNS_MAX,
						   FM_NVMED_CONNS_ROOT, 0, 1};

struct fm_nvmed_api {
	struct fm_loop *loop;
	struct fm_helpers *helpers;
	const struct fm_host *host;
	struct fm_supervisor *sup;	/* NULL: not yet */
	struct fm_packet_listener listener;
	struct fm_packet_shared shared;
	struct fm_list clients;
	struct fm_share conns;
	struct fm_log_limit lines;	/* of clients that were turned away, or closed */
	unsigned discoveries;
	uint64_t serial;
	int64_t config_read_ms;
	char config_mistake[FM_ERR_TEXT_MAX];
	bool is_stopped;
};

struct client {
	struct fm_list link;
	struct fm_nvmed_api *api;
	struct fm_packet_conn *conn;
	struct fm_share_held place;
	bool is_root;
	struct fm_list waiting;		/* struct request */
	unsigned waiting_count;
};

struct request {
	struct fm_list link;
	struct client *client;		/* NULL: it has gone; only a discovery lives on */
	struct fm_nvmed_api *api;
	int64_t id;
	char volume[FM_VOLUME_NAME_MAX + 1];
	enum fm_plan_want want;
	bool is_seal, is_sealed;	/* seal or unseal, and which */
	struct fm_timer deadline;
	struct fm_helper helper;
	bool is_discovery;
	bool is_forced;			/* up, unseal */
	bool is_for_unit;		/* up, ask: until it may be mounted */
	bool is_all;			/* all volumes down; volume and want say nothing */
	char not_remembered[FM_ERR_TEXT_MAX];	/* of a wish: why; "": it is written down */
	char address[FM_CONNECTION_ADDRESS_MAX], port[16];
	struct fm_process process;	/* of a discovery: which asks */
};

/* ---- answers ---- */

/* Targets and peers said parts of it, and it may be shown as it is. */
#define SHOWN FM_JSON_ASCII

static void send_json(struct client *c, struct fm_json *message)
{
	char *text = message ? fm_json_dump(message, SHOWN) : NULL;
	size_t len = text ? strlen(text) : 0;

	if (len > 0 && len <= FM_NVMED_MSG_MAX)
		fm_packet_conn_send(c->conn, text, len);
	else
		fm_log_warn("local API: an answer could not be made");
	free(text);
	fm_json_free(message);
}

static struct fm_json *error_message(int code, const char *text)
{
	const char *name = strerrorname_np(-code);
	char line[FM_ERR_TEXT_MAX];

	(void)snprintf(line, sizeof(line), "%s", text);
	fm_utf8_mend(line);
	return fm_json_pack("{s:s, s:s, s:s}", "event", "error", "code", name ? name : "EIO",
			    "text", line);
}

/* id: NULL if it could not be read. */
static void reply_error(struct client *c, const int64_t *id, int code, const char *text)
{
	struct fm_json *message = error_message(code, text);

	if (message && id)
		(void)fm_json_set(message, "id", fm_json_of_i64(*id));
	send_json(c, message);
}

/* What was wished is not so, and stays wished. */
static void reply_not_so(const struct request *r, int code, const char *text)
{
	struct fm_json *message = error_message(code, text);

	if (message)
		(void)fm_json_set(message, "id", fm_json_of_i64(r->id));
	if (message && r->not_remembered[0])
		(void)fm_json_set(message, "not_remembered", fm_json_of_text(r->not_remembered));
	send_json(r->client, message);
}

/* more is taken over; NULL is no memory. */
static void reply_done(struct client *c, int64_t id, struct fm_json *more)
{
	char *text;

	if (!more || fm_json_set(more, "id", fm_json_of_i64(id)) < 0 ||
	    fm_json_set(more, "event", fm_json_of_text("done")) < 0) {
		fm_json_free(more);
		reply_error(c, &id, -ENOMEM, "no memory for the answer");
		return;
	}
	text = fm_json_dump(more, SHOWN);
	if (text && strlen(text) > FM_NVMED_MSG_MAX)
		reply_error(c, &id, -EMSGSIZE,
			    "the answer is longer than 256 KiB: ask for volumes by name");
	else
		send_json(c, fm_json_share(more));
	free(text);
	fm_json_free(more);
}

static struct fm_json *show_volume(const struct request *r)
{
	return fm_json_pack("{s:o, s:s*}", "volume",
			    fm_supervisor_show(r->api->sup, r->volume), "not_remembered",
			    r->not_remembered[0] ? r->not_remembered : NULL);
}

/* ---- waiting ---- */

static void free_request(struct request *r)
{
	fm_timer_clear(r->api->loop, &r->deadline);
	if (r->client) {
		fm_list_del(&r->link);
		r->client->waiting_count--;
	}
	free(r);
}

static struct request *new_request(struct client *c, int64_t id, struct fm_err *err)
{
	struct request *r = NULL;

	if (c->waiting_count >= FM_NVMED_REQUESTS_MAX) {
		(void)fm_err_set(err, -EBUSY, "%d requests are under way on this connection",
				 FM_NVMED_REQUESTS_MAX);
		return NULL;
	}
	r = FM_FAULT("nvmed.request") ? NULL : calloc(1, sizeof(*r));
	if (!r) {
		(void)fm_err_set(err, -ENOMEM, "no memory for a request");
		return NULL;
	}
	r->client = c;
	r->api = c->api;
	r->id = id;
	fm_list_append(&c->waiting, &r->link);
	c->waiting_count++;
	return r;
}

static bool check_waiting_all(struct request *r)
{
	const char *why;

	if (!fm_supervisor_is_closed(r->api->sup))
		reply_error(r->client, &r->id, -ECANCELED,
			    "somebody has wished all volumes up meanwhile");
	else if (fm_supervisor_is_all_down(r->api->sup, &why))
		reply_done(r->client, r->id, fm_json_object());
	else
		return false;
	free_request(r);
	return true;
}

/* The answer of `up`. A caller who said force hears if nothing had to be forced. */
static struct fm_json *show_reached(const struct request *r)
{
	struct fm_json *done = show_volume(r);

	if (done && r->is_forced && fm_supervisor_is_nothing_forced(r->api->sup, r->volume))
		(void)fm_json_set(done, "nothing_forced", fm_json_of_bool(true));
	return done;
}

/* It is not what was asked for: it could not be, or another person asked. */
static void reply_unsealed(struct request *r)
{
	const char *why = fm_supervisor_unsealed_why(r->api->sup, r->volume);

	if (r->is_sealed && why[0])
		reply_error(r->client, &r->id, -EIO, why);
	else
		reply_error(r->client, &r->id, -ECANCELED,
			    r->is_sealed ? "somebody has unsealed it meanwhile"
					 : "somebody has sealed it meanwhile");
}

/* It is no longer configured, and there is nothing of it any more. */
static void reply_gone(struct request *r)
{
	if (r->want == FM_WANT_DOWN)
		reply_done(r->client, r->id,
			   fm_json_pack("{s:{s:s, s:s}}", "volume", "name", r->volume, "state",
					"down"));
	else
		reply_error(r->client, &r->id, -ENOENT, "it is no longer configured");
}

/* Whether it has ended. */
static bool check_waiting(struct request *r)
{
	enum fm_supervisor_progress progress = FM_PROGRESS_UNDER_WAY;
	const char *why = "";
	int ret;

	if (r->is_all)
		return check_waiting_all(r);
	ret = fm_supervisor_progress(r->api->sup, r->volume, &progress, &why);
	if (ret < 0)
		reply_gone(r);
	else if (!fm_supervisor_wants(r->api->sup, r->volume, r->want))
		reply_error(r->client, &r->id, -ECANCELED,
			    "somebody has wished something else meanwhile");
	else if (r->is_seal && fm_supervisor_is_sealed(r->api->sup, r->volume) != r->is_sealed)
		reply_unsealed(r);
	/* unsealed, it waits for the readers */
	else if (progress == FM_PROGRESS_REFUSED && !(r->is_seal && !r->is_sealed))
		reply_not_so(r, -EACCES, why);
	else if (progress == FM_PROGRESS_REACHED ||
		 (r->is_for_unit && fm_supervisor_is_mount_allowed(r->api->sup, r->volume)))
		reply_done(r->client, r->id, show_reached(r));
	else
		return false;
	free_request(r);
	return true;
}

static void deadline_fired(struct fm_timer *timer)
{
	struct request *r = fm_container_of(timer, struct request, deadline);
	enum fm_supervisor_progress progress;
	const char *why = "";
	char text[FM_ERR_TEXT_MAX];

	if (r->is_all)
		(void)fm_supervisor_is_all_down(r->api->sup, &why);
	else
		(void)fm_supervisor_progress(r->api->sup, r->volume, &progress, &why);
	(void)snprintf(text, sizeof(text), "not yet: %s; fmove-nvmed goes on trying",
		       why[0] ? why : "it is under way");
	reply_not_so(r, -ETIMEDOUT, text);
	free_request(r);
}

/* When what was asked for is so, or at the latest after timeout_ms. 0: now, however it stands. */
static void answer_later(struct request *r, int64_t timeout_ms)
{
	struct fm_loop *loop = r->api->loop;

	r->deadline.fire = deadline_fired;
	if (timeout_ms == 0) {
		reply_done(r->client, r->id,
			   r->is_all ? fm_json_object() : show_volume(r));
		free_request(r);
	} else if (!check_waiting(r)) {
		fm_timer_set(loop, &r->deadline,
			     fm_loop_now(loop) + (uint64_t)timeout_ms * FM_NS_PER_MS);
	}
}

void fm_nvmed_api_config_taken(struct fm_nvmed_api *api, int64_t read_ms)
{
	api->config_read_ms = read_ms;
	api->config_mistake[0] = '\0';
}

void fm_nvmed_api_config_refused(struct fm_nvmed_api *api, const char *why)
{
	(void)snprintf(api->config_mistake, sizeof(api->config_mistake), "%s", why);
	fm_utf8_mend(api->config_mistake);
}

bool fm_nvmed_api_is_config_refused(const struct fm_nvmed_api *api)
{
	return api->config_mistake[0] != '\0';
}

void fm_nvmed_api_changed(struct fm_nvmed_api *api)
{
	fm_list_each(at, next, &api->clients) {
		struct client *c = fm_container_of(at, struct client, link);

		fm_list_each(waiting, after, &c->waiting) {
			struct request *r = fm_container_of(waiting, struct request, link);

			if (!r->is_discovery)
				(void)check_waiting(r);
		}
	}
}

/* ---- the requests ---- */

struct order {
	struct client *client;
	const struct fm_json *request;
	int64_t id;
	const char *op;
};

#define KEYS_MAX 8u

/* Strictly: what a request has besides these is an error. */
static int read_keys(const struct order *o, const struct fm_json_key *keys, size_t count,
		     struct fm_err *err)
{
	struct fm_json_key all[KEYS_MAX + 2] = { { .key = "id" }, { .key = "op" } };
	struct fm_err why = { 0 };

	assert(count <= KEYS_MAX);
	if (count > 0)
		memcpy(all + 2, keys, count * sizeof(*keys));
	return fm_json_read_keys(o->request, all, count + 2, &why) < 0
		       ? fm_err_set(err, -EINVAL, "%s: %s", o->op, why.text)
		       : 0;
}

#define READ_KEYS(o, keys, err) read_keys(o, keys, sizeof(keys) / sizeof((keys)[0]), err)

static int do_ping(const struct order *o, struct fm_err *err)
{
	int ret = read_keys(o, NULL, 0, err);

	if (ret == 0)
		reply_done(o->client, o->id,
			   fm_json_pack("{s:s, s:i}", "version", FM_VERSION, "api",
					FM_NVMED_API_VERSION));
	return ret;
}

static int do_status(const struct order *o, struct fm_err *err)
{
	struct fm_nvmed_api *api = o->client->api;
	const char *volume = NULL;
	const struct fm_json_key keys[] = { { "volume", FM_JSON_TEXT, true, .text = &volume } };
	struct fm_json *volumes;
	int ret = READ_KEYS(o, keys, err);

	if (ret < 0)
		return ret;
	volumes = fm_supervisor_show(api->sup, volume);
	if (!volumes && volume)
		return fm_err_set(err, -ENOENT,
				  "no volume \"%.64s\" is configured; fmove nvme status lists "
				  "those that are",
				  volume);
	if (volume)
		volumes = fm_json_pack("[o]", volumes);
	reply_done(o->client, o->id,
		   fm_json_pack("{s:o, s:i, s:s, s:{s:s, s:s}, s:I, s:s}", "volumes", volumes,
				"stuck", (int)fm_helpers_stuck(api->helpers), "second_owner",
				fm_nvmed_second_owner(), "libnvme", "built", fm_libnvme_built(),
				"running", fm_libnvme_loaded(), "config_read_ms",
				api->config_read_ms, "config_mistake", api->config_mistake));
	return 0;
}

static const struct wish_op {
	const char *op;
	enum fm_plan_want want;
	int timeout_ms;
	bool has_force, is_busy_refused;
} wish_ops[] = {
	{ "up", FM_WANT_UP, UP_MS, true, false },
	{ "connect", FM_WANT_CONNECTED, UP_MS, false, false },
	{ "down", FM_WANT_DOWN, DOWN_MS, true, false },
	{ "disconnect", FM_WANT_DOWN, DOWN_MS, true, true },
}, seal_ops[] = {
	{ "seal", FM_WANT_UP, UP_MS, false, false },
	{ "unseal", FM_WANT_UP, UP_MS, true, false },
};

static int check_wish(const struct order *o, const struct wish_op *op, const char *volume,
		      int64_t timeout_ms, bool is_forced, struct fm_err *err)
{
	const struct fm_supervisor *sup = o->client->api->sup;
	enum fm_supervisor_progress progress;
	const char *why;

	if (!o->client->is_root)
		return fm_err_set(err, -EPERM, "%s is for root", op->op);
	if (timeout_ms < 0 || timeout_ms > TIMEOUT_MS_MAX)
		return fm_err_set(err, -EINVAL, "%s: timeout_ms is 0 to %d", op->op,
				  TIMEOUT_MS_MAX);
	if (is_forced && !op->has_force)
		return fm_err_set(err, -EINVAL, "%s takes no \"force\"", op->op);
	if (fm_supervisor_progress(sup, volume, &progress, &why) < 0)
		return fm_err_set(err, -ENOENT,
				  "no volume \"%.64s\" is configured; fmove nvme status lists "
				  "those that are",
				  volume);
	if (op->want != FM_WANT_DOWN && fm_supervisor_is_closed(sup))
		return fm_err_set(
			err, -EBUSY,
			"all volumes are taken down at present; `fmove nvme up --all` ends that");
	if (op->is_busy_refused && !is_forced && fm_supervisor_is_mounted(sup, volume))
		return fm_err_set(err, -EBUSY,
				  "%s is mounted: take it down, or disconnect it with force",
				  volume);
	return 0;
}

static int check_all(const struct order *o, const struct wish_op *op, bool is_all,
		     int64_t timeout_ms, int64_t force_ms, struct fm_err *err)
{
	if (!o->client->is_root)
		return fm_err_set(err, -EPERM, "%s is for root", op->op);
	if (!is_all || (op->want != FM_WANT_UP && op->want != FM_WANT_DOWN) || op->is_busy_refused)
		return fm_err_set(err, -EINVAL, "%s: \"all\" is true, of up or down", op->op);
	if (timeout_ms < 0 || timeout_ms > TIMEOUT_MS_MAX || force_ms < 0 ||
	    force_ms > TIMEOUT_MS_MAX)
		return fm_err_set(err, -EINVAL, "%s: timeout_ms and force_ms are 0 to %d", op->op,
				  TIMEOUT_MS_MAX);
	return 0;
}

/* All volumes up or down, for the end of the machine. It is not remembered over a restart. */
static int do_all(const struct order *o, const struct wish_op *op, struct fm_err *err)
{
	struct fm_nvmed_api *api = o->client->api;
	int64_t timeout_ms = op->timeout_ms, force_ms = TIMEOUT_MS_MAX;
	bool is_all = false;
	const struct fm_json_key keys[] = {
		{ "all", FM_JSON_BOOL, false, .flag = &is_all },
		{ "timeout_ms", FM_JSON_INTEGER, true, .integer = &timeout_ms },
		{ "force_ms", FM_JSON_INTEGER, true, .integer = &force_ms },
	};
	struct request *r;
	int ret = READ_KEYS(o, keys, err);

	if (ret == 0)
		ret = check_all(o, op, is_all, timeout_ms, force_ms, err);
	if (ret < 0)
		return ret;
	if (op->want == FM_WANT_UP) {
		fm_supervisor_open(api->sup);
		reply_done(o->client, o->id, fm_json_object());
		return 0;
	}
	r = new_request(o->client, o->id, err);
	if (!r)
		return err->code;
	r->is_all = true;
	fm_supervisor_close(api->sup, (uint64_t)force_ms * FM_NS_PER_MS);
	answer_later(r, timeout_ms);
	return 0;
}

struct wish {
	const char *volume;
	int64_t timeout_ms;
	bool is_forced, is_for_unit;
};

#define WISH_KEYS 4u

/* The first so many of these keys are what the request may have. */
static int read_wish(const struct order *o, unsigned count, int timeout_ms, struct wish *w,
		     struct fm_err *err)
{
	const struct fm_json_key keys[WISH_KEYS] = {
		{ "volume", FM_JSON_TEXT, false, .text = &w->volume },
		{ "timeout_ms", FM_JSON_INTEGER, true, .integer = &w->timeout_ms },
		{ "force", FM_JSON_BOOL, true, .flag = &w->is_forced },
		{ "for_unit", FM_JSON_BOOL, true, .flag = &w->is_for_unit },
	};

	*w = (struct wish){ .volume = "", .timeout_ms = timeout_ms };
	return read_keys(o, keys, count, err);
}

/* NULL: *err says why. */
static struct request *wish_request(const struct order *o, const struct wish *w,
				    enum fm_plan_want want, struct fm_err *err)
{
	struct request *r = new_request(o->client, o->id, err);

	if (!r)
		return NULL;
	(void)snprintf(r->volume, sizeof(r->volume), "%s", w->volume);
	r->want = want;
	return r;
}

static int do_wish(const struct order *o, const struct wish_op *op, struct fm_err *err)
{
	struct fm_nvmed_api *api = o->client->api;
	struct fm_err why = { 0 };
	struct request *r;
	struct wish w;
	int ret = read_wish(o, WISH_KEYS, op->timeout_ms, &w, err);

	if (ret == 0)
		ret = check_wish(o, op, w.volume, w.timeout_ms, w.is_forced, err);
	if (ret < 0)
		return ret;
	r = wish_request(o, &w, op->want, err);
	if (!r)
		return err->code;
	r->is_forced = w.is_forced && op->want == FM_WANT_UP;
	r->is_for_unit = w.is_for_unit && op->want == FM_WANT_UP;
	ret = fm_supervisor_wish(api->sup, w.volume, op->want, w.is_forced, &why);
	if (ret == -ENOENT) {
		free_request(r);
		return fm_err_set(err, ret, "%s", why.text);
	}
	if (ret < 0) {	/* it is in force, and not written down */
		fm_log_error("volume %s: %s", w.volume, why.text);
		(void)snprintf(r->not_remembered, sizeof(r->not_remembered), "%s", why.text);
		fm_utf8_mend(r->not_remembered);
	}
	answer_later(r, w.timeout_ms);
	return 0;
}

/* ---- ask ---- */

static int check_ask(const struct order *o, const char *volume, int64_t timeout_ms,
		     struct fm_err *err)
{
	static const struct wish_op ask = { .op = "ask", .want = FM_WANT_UP };
	int ret = check_wish(o, &ask, volume, timeout_ms, false, err);

	if (ret == 0 && !fm_supervisor_wants(o->client->api->sup, volume, FM_WANT_UP))
		return fm_err_set(err, -EACCES,
				  "%s is not to be mounted; to have it so: fmove nvme up %s",
				  volume, volume);
	return ret;
}

/* Asks whether a volume may be mounted. This changes no wish: a refusal stays a refusal. */
static int do_ask(const struct order *o, struct fm_err *err)
{
	struct fm_nvmed_api *api = o->client->api;
	struct request *r;
	struct wish w;
	int ret = read_wish(o, 2, UP_MS, &w, err);	/* volume, timeout_ms */

	if (ret == 0)
		ret = check_ask(o, w.volume, w.timeout_ms, err);
	if (ret < 0)
		return ret;
	r = wish_request(o, &w, FM_WANT_UP, err);
	if (!r)
		return err->code;
	r->is_for_unit = true;
	fm_supervisor_look_anew(api->sup, w.volume);
	answer_later(r, w.timeout_ms);
	return 0;
}

/* ---- seal, unseal ---- */

static int do_seal(const struct order *o, const struct wish_op *op, struct fm_err *err)
{
	struct fm_nvmed_api *api = o->client->api;
	struct request *r;
	struct wish w;
	int ret = read_wish(o, 3, op->timeout_ms, &w, err);	/* all but for_unit */

	if (ret == 0)
		ret = check_wish(o, op, w.volume, w.timeout_ms, w.is_forced, err);
	if (ret < 0)
		return ret;
	r = wish_request(o, &w, op->want, err);
	if (!r)
		return err->code;
	r->is_seal = true;
	r->is_sealed = op == &seal_ops[0];
	r->is_forced = w.is_forced;
	ret = fm_supervisor_seal(api->sup, w.volume, r->is_sealed, w.is_forced, err);
	if (ret < 0) {
		free_request(r);
		return ret;
	}
	answer_later(r, fm_supervisor_wants(api->sup, w.volume, FM_WANT_UP) ? w.timeout_ms : 0);
	return 0;
}

/* ---- forget ---- */

static int do_forget(const struct order *o, struct fm_err *err)
{
	const char *node = "";
	const struct fm_json_key keys[] = { { "node", FM_JSON_TEXT, false, .text = &node } };
	int ret = READ_KEYS(o, keys, err);

	if (ret < 0)
		return ret;
	if (!o->client->is_root)
		return fm_err_set(err, -EPERM, "forget is for root");
	ret = fm_supervisor_forget(o->client->api->sup, node, err);
	if (ret == 0)
		reply_done(o->client, o->id, fm_json_pack("{s:s}", "node", node));
	return ret;
}

/* ---- discover ---- */

static struct fm_json *entry_of(const struct request *r, const struct fm_json *from)
{
	const char *subsystem = "", *address = "", *port = "", *family = "";
	int is_secure = 0;

	(void)fm_json_unpack(from, "{s:s, s:s, s:s, s:s, s:b}", "subsystem", &subsystem, "address",
			     &address, "port", &port, "family", &family, "secure", &is_secure);
	return fm_json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "subsystem", subsystem, "address",
			    address, "port", port, "family", family, "treq",
			    is_secure ? "required" : "not required", "is_same_address",
			    fm_owned_is_same_address(address, r->address));
}

static void discover_done(struct fm_helper *helper, int code, const char *text,
			  const struct fm_json *answer)
{
	struct request *r = fm_container_of(helper, struct request, helper);
	const struct fm_json *at;
	struct fm_json *entries;
	size_t i;

	r->api->discoveries--;
	fm_supervisor_discovery_ended(r->api->sup, &r->process, answer);
	if (r->client && code < 0) {
		reply_error(r->client, &r->id, code, text);
	} else if (r->client) {
		entries = fm_json_array();
		for (i = 0; (at = fm_json_at(fm_json_get(answer, "entries"), i)); i++)
			(void)fm_json_add(entries, entry_of(r, at));
		reply_done(r->client, r->id, fm_json_pack("{s:o}", "entries", entries));
	}
	free_request(r);
}

static int discover_begins(struct fm_helper *helper, const struct fm_process *process,
			   struct fm_err *err)
{
	struct request *r = fm_container_of(helper, struct request, helper);

	r->process = *process;
	return fm_supervisor_discovery_begins(r->api->sup, r->address, r->port, process, err);
}

static int do_discover(const struct order *o, struct fm_err *err)
{
	struct fm_nvmed_api *api = o->client->api;
	const char *address = "", *port = "8009", *host_address = "", *host_interface = "";
	const struct fm_json_key keys[] = {
		{ "address", FM_JSON_TEXT, false, .text = &address },
		{ "port", FM_JSON_TEXT, true, .text = &port },
		{ "host_address", FM_JSON_TEXT, true, .text = &host_address },
		{ "host_interface", FM_JSON_TEXT, true, .text = &host_interface },
	};
	struct request *r;
	struct fm_json *request;
	char key[64];
	int ret = READ_KEYS(o, keys, err);

	if (ret < 0)
		return ret;
	/* No mere look: the kernel connects, to whatever address is said, under the name of this
	 * host. */
	if (!o->client->is_root)
		return fm_err_set(err, -EPERM, "discover is for root");
	if (api->discoveries >= FM_NVMED_DISCOVERIES_MAX)
		return fm_err_set(err, -EBUSY, "%d discoveries are under way: try again",
				  FM_NVMED_DISCOVERIES_MAX);
	r = new_request(o->client, o->id, err);
	if (!r)
		return err->code;
	if (fm_connection_address(address, r->address) < 0) {
		free_request(r);
		return fm_err_set(err, -EINVAL, "\"%.100s\" is no IPv4 or IPv6 address", address);
	}
	(void)snprintf(r->port, sizeof(r->port), "%s", port);
	r->is_discovery = true;
	r->helper.begins = discover_begins;
	r->helper.done = discover_done;
	(void)snprintf(key, sizeof(key), "discover %llu", (unsigned long long)api->serial++);
	request = fm_json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "call", "discover", "address",
			       r->address, "port", port, "host_nqn", api->host->nqn, "host_id",
			       api->host->id, "host_address", host_address, "host_interface",
			       host_interface);
	ret = request ? fm_helper_start(api->helpers, &r->helper, key, request, DISCOVER_NS, err)
		      : fm_err_set(err, -ENOMEM, "no memory");
	fm_json_free(request);
	if (ret < 0)
		free_request(r);
	else
		api->discoveries++;
	return ret;
}

/* ---- which request goes where ---- */

static int do_request(const struct order *o, struct fm_err *err)
{
	if (!o->client->api->sup)
		return fm_err_set(err, -EAGAIN, "fmove-nvmed is starting; again in a moment");
	if (strcmp(o->op, "ping") == 0)
		return do_ping(o, err);
	if (strcmp(o->op, "status") == 0)
		return do_status(o, err);
	if (strcmp(o->op, "discover") == 0)
		return do_discover(o, err);
	if (strcmp(o->op, "forget") == 0)
		return do_forget(o, err);
	if (strcmp(o->op, "ask") == 0)
		return do_ask(o, err);
	for (size_t i = 0; i < sizeof(wish_ops) / sizeof(wish_ops[0]); i++)
		if (strcmp(o->op, wish_ops[i].op) == 0)
			return fm_json_get(o->request, "all") ? do_all(o, &wish_ops[i], err)
							      : do_wish(o, &wish_ops[i], err);
	for (size_t i = 0; i < sizeof(seal_ops) / sizeof(seal_ops[0]); i++)
		if (strcmp(o->op, seal_ops[i].op) == 0)
			return do_seal(o, &seal_ops[i], err);
	return fm_err_set(err, -EINVAL, "no request is called \"%.32s\"", o->op);
}

static void client_message(void *ctx, const struct fm_packet *msg)
{
	struct client *c = ctx;
	struct fm_err err = { 0 };
	struct fm_json *request;
	struct order o = { .client = c };

	if (msg->why[0]) {
		reply_error(c, NULL, -EMSGSIZE, msg->why);
		return;
	}
	if (fm_json_parse(msg->text, msg->len, &request, &err) < 0) {
		reply_error(c, NULL, err.code, err.text);
		return;
	}
	o.request = request;
	if (fm_json_i64(fm_json_get(request, "id"), &o.id) < 0 ||
	    fm_json_text(fm_json_get(request, "op"), &o.op) < 0)
		reply_error(c, NULL, -EINVAL,
			    "a request is an object with an integer \"id\" and a text \"op\"");
	else if (do_request(&o, &err) < 0)
		reply_error(c, &o.id, err.code, err.text);
	fm_json_free(request);
}

/* ---- clients ---- */

static void client_free(struct client *c)
{
	fm_list_each(at, next, &c->waiting) {
		struct request *r = fm_container_of(at, struct request, link);

		if (!r->is_discovery) {
			free_request(r);
			continue;
		}
		/* Its helper has it. */
		fm_list_del(&r->link);
		r->client = NULL;
	}
	fm_packet_conn_free(c->conn);
	fm_list_del(&c->link);
	fm_share_give_all(&c->place);
	free(c);
}

static void client_closed(void *ctx, const char *reason)
{
	struct client *c = ctx;

	if (reason && fm_log_may(&c->api->lines, fm_loop_now(c->api->loop)))
		fm_log_warn("local client closed: it %s", reason);
	client_free(c);
}

static int client_new(struct fm_nvmed_api *api, int fd, uid_t uid, struct fm_err *err)
{
	static const struct fm_packet_events events = { client_message, client_closed };
	struct client *c = FM_FAULT("nvmed.client") ? NULL : calloc(1, sizeof(*c));
	int ret;

	if (!c) {
		fm_packet_close(&api->shared, fd, uid);
		return fm_err_set(err, -ENOMEM, "no memory for a client");
	}
	c->api = api;
	c->is_root = uid == 0;
	fm_list_init(&c->waiting);
	ret = fm_packet_conn_new(&api->shared, fd, uid, &events, c, &c->conn, err);
	if (ret < 0) {
		free(c);
		return ret;
	}
	fm_list_append(&api->clients, &c->link);
	fm_share_force(&api->conns, fm_share_user(uid), 1, &c->place);
	return 0;
}

static bool client_may_come(void *ctx)
{
	return fm_packet_may_take(&((struct fm_nvmed_api *)ctx)->shared);
}

/* A courtesy to who has too many connections. */
static void send_full(int fd)
{
	struct fm_json *message =
		error_message(-EBUSY, "too many connections to fmove-nvmed: try again");
	char *text = fm_json_dump(message, SHOWN);

	if (text)
		(void)send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
	free(text);
	fm_json_free(message);
}

static void client_accepted(void *ctx, int fd, const struct ucred *who)
{
	struct fm_nvmed_api *api = ctx;
	struct fm_err err;

	if (api->is_stopped || !fm_share_may(&api->conns, fm_share_user(who->uid), 1)) {
		send_full(fd);
		fm_packet_close(&api->shared, fd, who->uid);
		return;
	}
	if (client_new(api, fd, who->uid, &err) < 0 &&
	    fm_log_may(&api->lines, fm_loop_now(api->loop)))
		fm_log_warn("local client refused: %s", err.text);
}

/* ---- its life ---- */

int fm_nvmed_api_new(const struct fm_nvmed_api_opts *opts, struct fm_nvmed_api **out,
		     struct fm_err *err)
{
	struct fm_packet_listener_opts listening = {.path = opts->socket_path,
						    .mode = opts->mode,
						    .gid = opts->gid,
						    .backlog = FM_NVMED_CONNS_MAX,
						    .daemon = "fmove-nvmed",
						    .may_take = client_may_come,
						    .accepted = client_accepted};
	struct fm_nvmed_api *api = FM_FAULT("nvmed.alloc") ? NULL : calloc(1, sizeof(*api));
	int ret = -ENOMEM;

	if (!api)
		return fm_err_set(err, -ENOMEM, "no memory for the local API");
	api->loop = opts->loop;
	api->helpers = opts->helpers;
	api->host = opts->host;
	fm_list_init(&api->clients);
	fm_share_init(&api->conns, &conn_limits);
	fm_packet_shared_init(&api->shared, opts->loop, &limits);
	api->shared.rx = malloc(FM_NVMED_REQUEST_BYTES_MAX);
	if (!api->shared.rx) {
		(void)fm_err_set(err, -ENOMEM, "no memory for the local API");
		goto free_api;
	}
	listening.ctx = api;
	ret = fm_packet_listener_open(&api->listener, opts->loop, &listening, err);
	if (ret < 0)
		goto free_api;
	*out = api;
	return 0;

free_api:
	free(api->shared.rx);
	free(api);
	return ret;
}

void fm_nvmed_api_set_supervisor(struct fm_nvmed_api *api, struct fm_supervisor *sup)
{
	api->sup = sup;
}

void fm_nvmed_api_stop(struct fm_nvmed_api *api)
{
	if (api->is_stopped)
		return;
	api->is_stopped = true;
	fm_packet_listener_close(&api->listener);
	fm_list_each(at, next, &api->clients)
		client_free(fm_container_of(at, struct client, link));
	fm_packet_shared_end(&api->shared);
}

void fm_nvmed_api_free(struct fm_nvmed_api *api)
{
	if (!api)
		return;
	assert(api->is_stopped && api->discoveries == 0);
	free(api->shared.rx);
	free(api);
}
