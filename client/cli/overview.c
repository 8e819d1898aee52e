/* SPDX-License-Identifier: MIT */
/* overview - see overview.h. */
#include "client/cli/overview.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/ask.h"
#include "client/cli/cmd.h"
#include "client/cli/fields.h"
#include "client/cli/interrupt.h"
#include "client/cli/nvmed.h"
#include "client/cli/show.h"
#include "client/cli/turn.h"
#include "client/lib/fmove.h"
#include "config/config.h"
#include "config/preflight.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

#define ANSWER_MS 5000	/* for each daemon to answer */

static const char config_file[] = FM_CONFIG_DIR "/" FM_CONFIG_FILE;

/* ---- printing; fm_stdout_end() looks for errors ---- */

/* A peer's daemon says what it likes, and so does an error that has its text. */
static const char *shown(const char *text, char out[static 256])
{
	return fm_show(text, strlen(text), out, 256);
}

static void print_next(const char *what)
{
	(void)printf("next     %s\n", what);
}

static void print_devices(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	unsigned count = 0;

	(void)printf("RDMA    ");
	for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
		if (e->d_name[0] != '.')
			(void)printf("%s %s", count++ > 0 ? "," : "", e->d_name);
	(void)printf("%s\n", count == 0 ? " no device here: transfers go over TCP" : "");
	if (dir)
		closedir(dir);
}

/* ---- no daemon ---- */

static void print_unconfigured(void)
{
	(void)printf("config   none: there is no %s\n", config_file);
	print_devices();
	print_next("on the first node: fmove init --system, as root");
	print_next("on a further node: the line that fmove invite prints on one that runs");
}

static void print_stopped(void)
{
	const bool is_service = fm_preflight_is_booted() && fm_preflight_has_unit();

	(void)printf("config   %s\n", config_file);
	(void)printf("daemon   none listens at %s\n", fm_socket_path());
	print_devices();
	print_next(is_service ? "systemctl enable --now fmoved, as root"
			      : "fmoved --config " FM_CONFIG_DIR "/" FM_CONFIG_FILE
				", as the user of its key");
}

/* ---- the daemon's answer ---- */

static void print_node(const struct fm_json *s)
{
	const struct fm_json *stores = fm_json_get(s, "stores");
	const size_t jobs = fm_json_count(fm_json_get(s, "jobs"));
	char up[FM_SHOW_MAX];

	(void)printf("node     %s, up %s, fmove %s\n", fm_field_text(s, "node"),
		     fm_show_time(fm_field_u64(s, "uptime_ms") / 1000, up),
		     fm_field_text(s, "version"));
	(void)printf("stores  ");
	for (size_t i = 0; i < fm_json_count(stores); i++)
		(void)printf("%s %s", i > 0 ? "," : "",
			     fm_field_text(fm_json_at(stores, i), "name"));
	(void)printf("%s\n", fm_json_count(stores) == 0 ? " none" : "");
	if (jobs > 0)
		(void)printf("moving   %zu transfer%s\n", jobs, jobs == 1 ? "" : "s");
}

/* "2 of 2 RDMA rails up", or of TCP where there is no RDMA. */
static void print_rails(const struct fm_json *rails)
{
	static const char *const kinds[] = {"rdma", "tcp"};

	for (size_t k = 0; k < 2; k++) {
		unsigned count = 0, up = 0;

		for (size_t i = 0; i < fm_json_count(rails); i++) {
			const struct fm_json *rail = fm_json_at(rails, i);

			if (strcmp(fm_field_text(rail, "kind"), kinds[k]) != 0)
				continue;
			count++;
			up += fm_field_is(rail, "up");
		}
		if (count == 0)
			continue;
		(void)printf(", %u of %u %s rail%s up", up, count, k == 0 ? "RDMA" : "TCP",
			     count == 1 ? "" : "s");
		return;
	}
}

/* How many of the peers are connected. */
static size_t print_peers(const struct fm_json *peers)
{
	char since[FM_SHOW_MAX], text[256];
	size_t connected = 0;

	if (fm_json_count(peers) == 0)
		(void)printf("peers    none\n");
	for (size_t i = 0; i < fm_json_count(peers); i++) {
		const struct fm_json *peer = fm_json_at(peers, i);
		const char *error = fm_field_text(peer, "error");
		bool is_up = fm_field_is(peer, "connected");

		connected += is_up;
		(void)printf("%s %s: %s for %s", i == 0 ? "peers   " : "        ",
			     fm_field_text(peer, "name"), is_up ? "connected" : "not connected",
			     fm_show_time(fm_field_u64(peer, "since_ms") / 1000, since));
		if (is_up)
			print_rails(fm_json_get(peer, "rails"));
		else if (*error)
			(void)printf("; %s", shown(error, text));
		(void)printf("\n");
	}
	return connected;
}

/* A daemon that is silent for too long ends as a signal does. Returns what it is then. */
static int late(int ret, struct fmove_error *why)
{
	return ret == -ECANCELED && !fm_is_interrupted()
		       ? fm_found_wrong(why, -ETIMEDOUT, "fmoved does not answer")
		       : ret;
}

/* How full the cache is, where datasets are staged. */
static void print_cache(struct fmove *c)
{
	struct fmove_cache cache = {.struct_size = sizeof(cache)};
	char fill[FM_SHOW_FILL_MAX], text[256];
	struct fmove_error why;
	int ret;

	fm_interrupt_after(ANSWER_MS);
	ret = late(fmove_cache(c, &cache, &why), &why);
	if (ret == 0)
		(void)printf("cache    %s\n",
			     fm_show_fill(cache.used, cache.size, cache.promised, fill));
	else if (ret != -EOPNOTSUPP)
		(void)printf("cache    not known: %s\n", shown(why.text, text));
}

/* Volumes, where fmove-nvmed runs and answers. */
static void print_volumes(void)
{
	const struct fm_nvmed_request request = { .op = "status" };
	const struct fm_json *volumes;
	struct fm_nvmed *nvmed;
	struct fm_json *done;
	struct fm_err err;
	char text[256];

	if (fm_nvmed_connect(NULL, &nvmed, &err) < 0)
		return;
	if (fm_nvmed_ask(nvmed, &request, ANSWER_MS, &done, &err) < 0) {
		(void)printf("volumes  not known: %s\n", shown(err.text, text));
		fm_nvmed_close(nvmed);
		return;
	}
	volumes = fm_json_get(done, "volumes");
	for (size_t i = 0; i < fm_json_count(volumes); i++) {
		const struct fm_json *v = fm_json_at(volumes, i);

		(void)printf("%s %s: %s", i == 0 ? "volumes " : "        ",
			     fm_field_text(v, "name"), fm_field_text(v, "state"));
		if (fm_field_is(v, "is_mounted"))
			(void)printf(", mounted at %s",
				     shown(fm_field_text(v, "mount_point"), text));
		(void)printf("\n");
	}
	fm_json_free(done);
	fm_nvmed_close(nvmed);
}

static void print_running(struct fmove *c, const struct fm_json *s)
{
	const struct fm_json *peers = fm_json_get(s, "peers");
	const size_t count = fm_json_count(peers);
	size_t connected;

	print_node(s);
	print_cache(c);
	connected = print_peers(peers);
	fm_interrupt_after(0);
	print_volumes();
	if (count == 0)
		print_next("fmove invite   prints the line with which one more node joins");
	else if (connected < count)
		print_next("fmove doctor   says what keeps a peer away");
	print_next("fmove --help   lists the commands; fmove status shows more of this");
}

static int show(struct fmove *c, struct fmove_error *why)
{
	struct fm_json *json;
	int ret;

	fmove_set_timeout(c, ANSWER_MS);
	fm_interrupt_after(ANSWER_MS);
	ret = late(fm_ask_status(c, &json, why), why);
	if (ret < 0)
		return ret;
	print_running(c, json);
	fm_json_free(json);
	return 0;
}

int fm_overview(int argc, char **argv)
{
	static struct fm_turn turn;
	struct fmove_error why;
	struct fm_err err;
	struct fmove *c;
	int ret;

	(void)argc;
	(void)argv;
	if (fm_interrupt_start(&err) < 0)
		return fm_fail("overview", &err);
	fm_turn_init(&turn, "overview", false);
	ret = fm_turn_connect(&turn, &c, &why);
	if (ret == -ECONNREFUSED) {
		if (access(config_file, F_OK) == 0)
			print_stopped();
		else
			print_unconfigured();
		return fm_stdout_end("overview", FM_EXIT_DONE);
	}
	if (ret == 0) {
		ret = show(c, &why);
		fmove_close(c);
	}
	if (ret < 0)
		return fm_fail_text(why.code, "%s", why.text);
	return fm_stdout_end("overview",
			     fm_is_interrupted() ? FM_EXIT_CANCELLED : FM_EXIT_DONE);
}
