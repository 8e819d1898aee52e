/* SPDX-License-Identifier: MIT */
/*
 * cmd_status - fmove status: this node, its peers and rails, memory, transfers.
 *
 * The daemon counts bytes; a rate is the difference between two looks at it. With --json one look
 * is printed as it came.
 */
#include "client/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/show.h"
#include "mover/api_json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_status[] = {
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define LOOK_MS 400	/* between the two looks */

struct look {
	struct fm_json *json;
	uint64_t at_ns;
};

/* ---- reading: what is missing is empty or 0 ---- */

static const char *text_of(const struct fm_json *json, const char *key)
{
	const char *text = "";

	(void)fm_json_text(fm_json_get(json, key), &text);
	return text;
}

static uint64_t number_of(const struct fm_json *json, const char *key)
{
	uint64_t n = 0;

	(void)fm_json_u64(fm_json_get(json, key), &n);
	return n;
}

static bool is_true(const struct fm_json *json, const char *key)
{
	bool is = false;

	(void)fm_json_bool(fm_json_get(json, key), &is);
	return is;
}

/* The element of an array whose texts under both keys are these, or NULL. */
static const struct fm_json *find(const struct fm_json *array, const char *key_a, const char *a,
				  const char *key_b, const char *b)
{
	for (size_t i = 0; i < fm_json_count(array); i++) {
		const struct fm_json *at = fm_json_at(array, i);

		if (strcmp(text_of(at, key_a), a) == 0 && strcmp(text_of(at, key_b), b) == 0)
			return at;
	}
	return NULL;
}

/* ---- printing; fm_stdout_end() looks for errors ---- */

static void print_node(const struct fm_json *s)
{
	const struct fm_json *lanes = fm_json_get(s, "lanes");
	const struct fm_json *stores = fm_json_get(s, "stores");
	char up[FM_SHOW_MAX], arena[FM_SHOW_MAX];
	const char *io = "";

	(void)fm_json_text(fm_json_at(lanes, 0), &io);	/* "" if there is no lane */
	(void)printf("node    %s, fmove %s, up %s\n", text_of(s, "node"), text_of(s, "version"),
		     fm_show_time(number_of(s, "uptime_ms") / 1000, up));
	(void)printf("lanes   %zu, %s\n", fm_json_count(lanes), io);
	(void)printf("memory  %s, %" PRIu64 " of %" PRIu64 " slabs free\n",
		     fm_show_bytes(number_of(s, "arena_bytes"), arena), number_of(s, "slabs_free"),
		     number_of(s, "slabs"));
	(void)printf("RDMA    %s\n", text_of(s, "rdma"));
	(void)printf("TCP     %s\n", text_of(s, "tcp"));
	(void)printf("stores ");
	for (size_t i = 0; i < fm_json_count(stores); i++)
		(void)printf("%s %s%s", i > 0 ? "," : "", text_of(fm_json_at(stores, i), "name"),
			     is_true(fm_json_at(stores, i), "durable") ? "" : " (memory)");
	(void)printf("%s\n", fm_json_count(stores) == 0 ? " none" : "");
}

static double rate(const struct fm_json *now, const struct fm_json *before, const char *key,
		   double seconds)
{
	uint64_t a = number_of(before, key), b = number_of(now, key);

	return before && b > a && seconds > 0 ? (double)(b - a) / seconds : 0;
}

static void print_rail(const struct fm_json *rail, const struct fm_json *before, double seconds)
{
	char sent[FM_SHOW_MAX], received[FM_SHOW_MAX], out[FM_SHOW_MAX], in[FM_SHOW_MAX];

	(void)printf("    %-4s %s %s -> %s, %s, %" PRIu64 " connection%s", text_of(rail, "kind"),
		     text_of(rail, "device"), text_of(rail, "local"), text_of(rail, "remote"),
		     is_true(rail, "up") ? "up" : "down", number_of(rail, "connections"),
		     number_of(rail, "connections") == 1 ? "" : "s");
	if (number_of(rail, "speed_mbps") > 0)
		(void)printf(", %" PRIu64 " Mb/s", number_of(rail, "speed_mbps"));
	if (number_of(rail, "mtu") > 0)
		(void)printf(", MTU %" PRIu64, number_of(rail, "mtu"));
	(void)printf("\n         out %s, in %s; sent %s, received %s\n",
		     fm_show_rate(rate(rail, before, "sent_bytes", seconds), out),
		     fm_show_rate(rate(rail, before, "received_bytes", seconds), in),
		     fm_show_bytes(number_of(rail, "sent_bytes"), sent),
		     fm_show_bytes(number_of(rail, "received_bytes"), received));
}

static void print_peer(const struct fm_json *peer, const struct fm_json *before, double seconds)
{
	const struct fm_json *rails = fm_json_get(peer, "rails");
	const char *error = text_of(peer, "error");
	char since[FM_SHOW_MAX];

	(void)printf("  %s", text_of(peer, "name"));
	if (*text_of(peer, "address"))
		(void)printf(" at %s", text_of(peer, "address"));
	(void)printf(
		": %s for %s%s%s\n", is_true(peer, "connected") ? "connected" : "not connected",
		fm_show_time(number_of(peer, "since_ms") / 1000, since), *error ? "; " : "", error);
	for (size_t i = 0; i < fm_json_count(rails); i++) {
		const struct fm_json *rail = fm_json_at(rails, i);

		print_rail(rail,
			   find(fm_json_get(before, "rails"), "local", text_of(rail, "local"),
				"remote", text_of(rail, "remote")),
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
	(void)printf("  %s %s:%s/%s%s, %s, %s", text_of(job, "op"), text_of(job, "peer"),
		     text_of(job, "store"), fm_show(path, len, shown, sizeof(shown)),
		     is_true(job, "ours") ? "" : " (for the peer)", text_of(job, "state"),
		     fm_show_bytes(number_of(job, "bytes"), bytes));
	if (fm_json_u64(fm_json_get(job, "size"), &total) == 0)
		(void)printf(" of %s", fm_show_bytes(total, size));
	(void)printf(", %" PRIu64 " rail%s\n", number_of(job, "rails"),
		     number_of(job, "rails") == 1 ? "" : "s");
}

static void print_all(const struct look *now, const struct look *before)
{
	const struct fm_json *peers = fm_json_get(now->json, "peers"),
			     *jobs = fm_json_get(now->json, "jobs");
	double seconds = (double)(now->at_ns - before->at_ns) / (double)FM_NS_PER_S;

	print_node(now->json);
	(void)printf("peers%s\n", fm_json_count(peers) == 0 ? "   none" : "");
	for (size_t i = 0; i < fm_json_count(peers); i++) {
		const struct fm_json *peer = fm_json_at(peers, i);

		print_peer(peer,
			   find(fm_json_get(before->json, "peers"), "name", text_of(peer, "name"),
				"address", text_of(peer, "address")),
			   seconds);
	}
	(void)printf("transfers%s\n", fm_json_count(jobs) == 0 ? "  none" : "");
	for (size_t i = 0; i < fm_json_count(jobs); i++)
		print_job(fm_json_at(jobs, i));
	if (number_of(now->json, "left_out") > 0)
		(void)printf("(and %" PRIu64 " more things than fit one answer)\n",
			     number_of(now->json, "left_out"));
}

/* ---- asking ---- */

static int look(struct fmove *c, struct look *out, char **text, struct fmove_error *why)
{
	struct fm_err err;
	int ret;

	ret = fmove_status(c, text, why);
	if (ret < 0)
		return ret;
	out->at_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	ret = fm_json_parse(*text, strlen(*text), &out->json, &err);
	if (ret < 0) {
		free(*text);
		*why = (struct fmove_error){ .code = ret, .exit = FM_EXIT_FAILED };
		(void)snprintf(why->text, sizeof(why->text), "%s", err.text);
	}
	return ret;
}

static int show(struct fmove *c, struct fmove_error *why)
{
	const struct timespec pause = { 0, LOOK_MS * 1000000L };
	struct look before, now;
	char *text;
	int ret;

	ret = look(c, &before, &text, why);
	if (ret < 0)
		return ret;
	free(text);
	if (fm_json_count(fm_json_get(before.json, "peers")) > 0)
		/* a shorter one makes a coarser rate, no wrong one */
		(void)nanosleep(&pause, NULL);
	ret = look(c, &now, &text, why);
	if (ret == 0) {
		free(text);
		print_all(&now, &before);
		fm_json_free(now.json);
	}
	fm_json_free(before.json);
	return ret;
}

static int show_json(struct fmove *c, struct fmove_error *why)
{
	char *text;
	int ret;

	ret = fmove_status(c, &text, why);
	if (ret < 0)
		return ret;
	(void)printf("%s\n", text);	/* fm_stdout_end() looks for errors */
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
	if (fm_ask_open("status", &c, &status) < 0)
		return status;
	ret = is_json ? show_json(c, &why) : show(c, &why);
	fmove_close(c);
	if (ret < 0)
		return fm_ask_fail("status", NULL, &why);
	return fm_stdout_end("status", FM_EXIT_DONE);
}
