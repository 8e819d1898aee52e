/* SPDX-License-Identifier: MIT */
/*
 * cmd_status - fmove status: this node, its peers and rails, memory, transfers.
 *
 * The daemon counts bytes; a rate is the difference between two looks at it. With --json one look
 * is printed as it came.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/df.h"
#include "client/cli/fields.h"
#include "client/cli/interrupt.h"
#include "client/cli/show.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_status[] = {
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define LOOK_MS 400	/* between the two looks */
#define SPACE_MS 5000	/* for each store to say what it has room for */

struct look {
	struct fm_json *json;
	uint64_t at_ns;
};

/* ---- printing; fm_stdout_end() looks for errors ---- */

/* Whoever was to be let in by the change is not; whoever was to be shut out is. */
static void print_mistake(const struct fm_json *s)
{
	const char *mistake = fm_field_text(s, "config_mistake");
	const char *removed = fm_field_text(s, "config_removed");
	char shown[1024], shown_removed[1024], at[FM_SHOW_MAX];

	if (!*mistake)
		return;
	(void)printf("config  the configuration was changed but has a mistake: %s; "
		     "what runs is that of %s%s%s\n",
		     fm_show(mistake, strlen(mistake), shown, sizeof(shown)),
		     fm_show_date(fm_field_i64(s, "config_read_ms"), at),
		     *removed ? " without the peers that were removed: " : "",
		     fm_show(removed, strlen(removed), shown_removed, sizeof(shown_removed)));
}

/* What was changed and runs as it was. */
static void print_waits(const struct fm_json *s)
{
	const char *keys = fm_field_text(s, "config_waits");
	char shown[1024];

	if (*keys)
		(void)printf("config  restart needed for: %s\n",
			     fm_show(keys, strlen(keys), shown, sizeof(shown)));
}

/* Those of one user; an older daemon has none. */
static void print_sockets(const struct fm_json *sockets)
{
	char path[FMOVE_PATH_MAX + 1], shown[4 * FMOVE_PATH_MAX];
	size_t len;

	for (size_t i = 0; i < fm_json_count(sockets); i++) {
		const struct fm_json *one = fm_json_at(sockets, i);

		if (fm_json_name(fm_json_get(one, "path"), path, sizeof(path), &len) == 0)
			(void)printf("socket  %s, of uid %" PRIu64 "\n",
				     fm_show(path, len, shown, sizeof(shown)),
				     fm_field_u64(one, "uid"));
	}
}

static void print_node(const struct fm_json *s)
{
	const struct fm_json *lanes = fm_json_get(s, "lanes");
	const struct fm_json *stores = fm_json_get(s, "stores");
	char up[FM_SHOW_MAX], arena[FM_SHOW_MAX];
	const char *io = "";

	(void)fm_json_text(fm_json_at(lanes, 0), &io);	/* "" if there is no lane */
	(void)printf("node    %s, fmove %s, up %s\n", fm_field_text(s, "node"),
		     fm_field_text(s, "version"),
		     fm_show_time(fm_field_u64(s, "uptime_ms") / 1000, up));
	print_mistake(s);
	print_waits(s);
	(void)printf("lanes   %zu, %s\n", fm_json_count(lanes), io);
	if (*fm_field_text(s, "chosen"))	/* an older daemon does not say */
		(void)printf("chosen  %s\n", fm_field_text(s, "chosen"));
	(void)printf("memory  %s, %" PRIu64 " of %" PRIu64 " slabs free\n",
		     fm_show_bytes(fm_field_u64(s, "arena_bytes"), arena),
		     fm_field_u64(s, "slabs_free"), fm_field_u64(s, "slabs"));
	(void)printf("RDMA    %s\n", fm_field_text(s, "rdma"));
	(void)printf("TCP     %s\n", fm_field_text(s, "tcp"));
	(void)printf("stores ");
	for (size_t i = 0; i < fm_json_count(stores); i++)
		(void)printf("%s %s%s", i > 0 ? "," : "",
			     fm_field_text(fm_json_at(stores, i), "name"),
			     fm_field_is(fm_json_at(stores, i), "durable") ? "" : " (memory)");
	(void)printf("%s\n", fm_json_count(stores) == 0 ? " none" : "");
	print_sockets(fm_json_get(s, "sockets"));
}

/*
 * Prints the room of the stores. If that cannot be found out, as on a disk that hangs, it says so,
 * and the rest is shown all the same.
 */
static void print_space(struct fmove *c, struct fm_df *df)
{
	const struct fmove_name own = {NULL, "", ""};
	struct fmove_error why;

	fmove_set_timeout(c, SPACE_MS);
	if (fmove_space(c, &own, fm_df_print, df, &why) < 0)
		fm_say("status: room of the stores: %s", why.text);
}

/* How full the cache is, where there is one: as a line, or into the object in w. */
static void print_cache(struct fmove *c, struct fm_json_writer *w)
{
	struct fmove_cache cache = {.struct_size = sizeof(cache)};
	char fill[FM_SHOW_FILL_MAX];
	struct fmove_error why;
	int ret;

	fmove_set_timeout(c, SPACE_MS);
	ret = fmove_cache(c, &cache, &why);
	if (ret == -EOPNOTSUPP)
		return;
	if (ret < 0) {
		fm_say("status: how full the cache is: %s", why.text);
	} else if (w) {
		fm_jw_object(w, "cache");
		fm_jw_u64(w, "size", cache.size);
		fm_jw_u64(w, "used", cache.used);
		fm_jw_u64(w, "promised", cache.promised);
		fm_jw_object_end(w);
	} else {
		(void)printf("cache   %s\n",
			     fm_show_fill(cache.used, cache.size, cache.promised, fill));
	}
}

static void print_rail(const struct fm_json *rail, const struct fm_json *before, double seconds)
{
	char sent[FM_SHOW_MAX], received[FM_SHOW_MAX], out[FM_SHOW_MAX], in[FM_SHOW_MAX],
		since[FM_SHOW_MAX];

	(void)printf("    %-4s %s %s -> %s, ", fm_field_text(rail, "kind"),
		     fm_field_text(rail, "device"), fm_field_text(rail, "local"),
		     fm_field_text(rail, "remote"));
	if (*fm_field_text(rail, "error")) {
		(void)printf("down for %s: %s\n",
			     fm_show_time(fm_field_u64(rail, "down_ms") / 1000, since),
			     fm_field_text(rail, "error"));
		return;
	}
	(void)printf("%s, %" PRIu64 " connection%s, %s", fm_field_is(rail, "up") ? "up" : "down",
		     fm_field_u64(rail, "connections"),
		     fm_field_u64(rail, "connections") == 1 ? "" : "s",
		     fm_field_text(rail, "encryption"));
	if (fm_field_u64(rail, "speed_mbps") > 0)
		(void)printf(", %" PRIu64 " Mb/s", fm_field_u64(rail, "speed_mbps"));
	if (fm_field_u64(rail, "mtu") > 0)
		(void)printf(", MTU %" PRIu64, fm_field_u64(rail, "mtu"));
	(void)printf("\n         out %s, in %s; sent %s, received %s\n",
		     fm_show_rate(fm_field_rate(rail, before, "sent_bytes", seconds), out),
		     fm_show_rate(fm_field_rate(rail, before, "received_bytes", seconds), in),
		     fm_show_bytes(fm_field_u64(rail, "sent_bytes"), sent),
		     fm_show_bytes(fm_field_u64(rail, "received_bytes"), received));
}

/* Prints the addresses of the session. It has none while it moves from one cable to another. */
static void print_session(const struct fm_json *session)
{
	if (*fm_field_text(session, "local"))
		(void)printf("    session %s %s -> %s\n", fm_field_text(session, "device"),
			     fm_field_text(session, "local"), fm_field_text(session, "remote"));
	else
		(void)printf("    session without a connection just now\n");
}

/* Prints why there is no RDMA to this peer. That this node has none is said once, above. */
static void print_rdma_why(const char *why)
{
	static const char here[] = "no RDMA here";

	if (*why && strncmp(why, here, sizeof(here) - 1) != 0)
		(void)printf("    without RDMA: %s\n", why);
}

static void print_peer(const struct fm_json *peer, const struct fm_json *before, double seconds)
{
	const struct fm_json *rails = fm_json_get(peer, "rails");
	const char *error = fm_field_text(peer, "error");
	char since[FM_SHOW_MAX];

	(void)printf("  %s", fm_field_text(peer, "name"));
	if (*fm_field_text(peer, "address"))
		(void)printf(" at %s", fm_field_text(peer, "address"));
	(void)printf(": %s for %s%s%s\n",
		     fm_field_is(peer, "connected") ? "connected" : "not connected",
		     fm_show_time(fm_field_u64(peer, "since_ms") / 1000, since), *error ? "; " : "",
		     error);
	print_rdma_why(fm_field_text(peer, "rdma_why"));
	if (fm_field_is(peer, "connected"))
		print_session(fm_json_get(peer, "session"));
	for (size_t i = 0; i < fm_json_count(rails); i++) {
		const struct fm_json *rail = fm_json_at(rails, i);

		print_rail(rail,
			   fm_field_find(fm_json_get(before, "rails"), "local",
					 fm_field_text(rail, "local"), "remote",
					 fm_field_text(rail, "remote")),
			   seconds);
	}
}

static void print_job(const struct fm_json *job)
{
	char shown[1024], bytes[FM_SHOW_MAX], size[FM_SHOW_MAX], path[FMOVE_PATH_MAX + 1] = "";
	uint64_t total;
	size_t len = 0;

	/* "" if it is missing */
	(void)fm_json_name(fm_json_get(job, "path"), path, sizeof(path), &len);
	(void)printf("  %s %s:%s/%s%s, %s, %s", fm_field_text(job, "op"),
		     fm_field_text(job, "peer"), fm_field_text(job, "store"),
		     fm_show(path, len, shown, sizeof(shown)),
		     fm_field_is(job, "ours") ? "" : " (for the peer)", fm_field_text(job, "state"),
		     fm_show_bytes(fm_field_u64(job, "bytes"), bytes));
	if (fm_json_u64(fm_json_get(job, "size"), &total) == 0)
		(void)printf(" of %s", fm_show_bytes(total, size));
	(void)printf(", %" PRIu64 " connection%s\n", fm_field_u64(job, "connections"),
		     fm_field_u64(job, "connections") == 1 ? "" : "s");
}

static void print_all(struct fmove *c, const struct look *now, const struct look *before)
{
	const struct fm_json *peers = fm_json_get(now->json, "peers"),
			     *jobs = fm_json_get(now->json, "jobs");
	double seconds = (double)(now->at_ns - before->at_ns) / (double)FM_NS_PER_S;
	struct fm_df df = {.is_json = false};

	print_node(now->json);
	print_space(c, &df);
	print_cache(c, NULL);
	(void)printf("peers%s\n", fm_json_count(peers) == 0 ? "   none" : "");
	for (size_t i = 0; i < fm_json_count(peers); i++) {
		const struct fm_json *peer = fm_json_at(peers, i);

		print_peer(peer,
			   fm_field_find(fm_json_get(before->json, "peers"), "name",
					 fm_field_text(peer, "name"), "address",
					 fm_field_text(peer, "address")),
			   seconds);
	}
	(void)printf("transfers%s\n", fm_json_count(jobs) == 0 ? "  none" : "");
	for (size_t i = 0; i < fm_json_count(jobs); i++)
		print_job(fm_json_at(jobs, i));
	if (fm_field_u64(now->json, "left_out") > 0)
		(void)printf("(and %" PRIu64 " more things than fit one answer)\n",
			     fm_field_u64(now->json, "left_out"));
}

/* ---- asking ---- */

/* What is left out since a signal came is no answer. */
static int status_of(void)
{
	return fm_is_interrupted() ? FM_EXIT_CANCELLED : FM_EXIT_DONE;
}

static int look(struct fmove *c, struct look *out, struct fmove_error *why)
{
	int ret = fm_ask_status(c, &out->json, why);

	out->at_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	return ret;
}

static int show(struct fmove *c, struct fmove_error *why)
{
	const struct timespec pause = { 0, LOOK_MS * 1000000L };
	struct look before, now;
	int ret;

	ret = look(c, &before, why);
	if (ret < 0)
		return ret;
	if (fm_json_count(fm_json_get(before.json, "peers")) > 0)
		/* a shorter one makes a coarser rate, no wrong one */
		(void)nanosleep(&pause, NULL);
	ret = look(c, &now, why);
	if (ret == 0) {
		print_all(c, &now, &before);
		fm_json_free(now.json);
	}
	fm_json_free(before.json);
	return ret;
}

static int show_json(struct fmove *c, struct fmove_error *why)
{
	struct fm_df df = {.is_json = true};
	char *text;
	int ret;

	ret = fmove_status(c, &text, why);
	if (ret < 0)
		return ret;
	fm_jw_stream(&df.rows.w, stdout); /* fm_stdout_end() looks for errors */
	fm_jw_object(&df.rows.w, NULL);
	fm_jw_members(&df.rows.w, text);
	fm_jw_array(&df.rows.w, "space");
	print_space(c, &df);
	fm_jw_array_end(&df.rows.w);
	print_cache(c, &df.rows.w);
	fm_jw_u64(&df.rows.w, "exit", (uint64_t)status_of());
	fm_jw_object_end(&df.rows.w);
	(void)printf("\n");
	free(text);
	return 0;
}

int fm_cmd_status(int argc, char **argv)
{
	struct fmove_error why;
	struct fm_args args;
	bool is_json = false;
	struct fmove *c;
	int ret, status;

	fm_args_begin(&args, "status", argc, argv);
	while (fm_args_next(&args) > 0)
		is_json = true;
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	if (fm_ask_open("status", false, &c, &status) < 0)
		return status;
	ret = is_json ? show_json(c, &why) : show(c, &why);
	fmove_close(c);
	if (ret < 0)
		return fm_ask_fail("status", NULL, &why);
	return fm_stdout_end("status", status_of());
}
