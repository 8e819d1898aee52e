/* SPDX-License-Identifier: MIT */
/*
 * cmd_bench - fmove bench: what each path can do, what it costs, and what limits it.
 *
 * What is asked for is found first (peers, directories, a volume's device), so that a mistake costs
 * no time. Facts are collected before and after: what counters grew by between them goes into the
 * measurement. Beside a live transfer it waits, as either would spoil the other.
 */
#include "client/cli/cmd.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "client/bench/compare_print.h"
#include "client/bench/growth.h"
#include "client/bench/report.h"
#include "client/bench/run.h"
#include "client/bench/targets.h"
#include "client/bench/validity.h"
#include "client/bench/verdict.h"
#include "client/cli/ask.h"
#include "client/cli/fields.h"
#include "client/cli/interrupt.h"
#include "client/doctor/ceiling.h"
#include "mover/facts/collect.h"
#include "mover/facts/facts.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/words.h"

#define VERB		 FM_RUN_VERB
#define QUICK_S		 2.0
#define THOROUGH_S	 10.0
#define QUICK_REPEATS	 3u
#define THOROUGH_REPEATS 5u
#define QUICK_BYTES	 (UINT64_C(1) << 30)
#define THOROUGH_BYTES	 (UINT64_C(4) << 30)
#define BYTES_UNIT	 (UINT64_C(1) << 20)
#define SECONDS_MAX	 600.0
#define WAIT_MS		 500
#define BYTES_OF_MBPS	 125000.0

enum {
	OPT_PEER = 1,
	OPT_STORE,
	OPT_VOLUME,
	OPT_PATH,
	OPT_TRANSPORT,
	OPT_DEVICE,
	OPT_RAIL,
	OPT_CONNECTIONS,
	OPT_THOROUGH,
	OPT_SECONDS,
	OPT_SIZE,
	OPT_NOW,
	OPT_JSON,
	OPT_CSV,
	OPT_HTML,
	OPT_QUIET,
	OPT_CONFIG
};

const struct fm_opt fm_opts_bench[] = {
	{"peer", 0, OPT_PEER, "NODE", "measure with this node; give it once for each", NULL},
	{"store", 0, OPT_STORE, "STORE", "disk, put: the directory of this store of ours", NULL},
	{"volume", 0, OPT_VOLUME, "VOLUME",
	 "nvme-tcp: the device of this volume, which is only read", NULL},
	{"path", 0, OPT_PATH, "DIR",
	 "disk, nvme-tcp, put: with a file of its own in this directory; once for each", "FILE"},
	{"transport", 0, OPT_TRANSPORT, "auto|rdma|tcp", "of put (auto)", "auto rdma tcp"},
	{"device", 0, OPT_DEVICE, "DEV", "rdma, tcp: only over this device of ours", NULL},
	{"rail", 0, OPT_RAIL, "N|ADDR", "the same of this rail: its number, or an address of it",
	 NULL},
	{"connections", 0, OPT_CONNECTIONS, "N", "the same over so many connections", NULL},
	{"thorough", 0, OPT_THOROUGH, NULL, "5 times 10 s, more depths, a file of 4 GiB", NULL},
	{"seconds", 0, OPT_SECONDS, "S", "how long a repeat is (2)", NULL},
	{"size", 0, OPT_SIZE, "SIZE", "how large a file of its own is (1GiB)", NULL},
	{"now", 0, OPT_NOW, NULL, "do not wait until no transfer runs here", NULL},
	{"json", 0, OPT_JSON, NULL, "the measurement as one JSON object on standard output", NULL},
	{"csv", 0, OPT_CSV, NULL, "a row for each path on standard output", NULL},
	{"html", 0, OPT_HTML, NULL, "a page with plots on standard output; of compare, too", NULL},
	{"quiet", 'q', OPT_QUIET, NULL, "say nothing of how far it is", NULL},
	{"config", 0, OPT_CONFIG, "FILE", "the daemon's configuration (" FM_COLLECT_CONFIG ")",
	 "FILE"},
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct wanted {
	struct fm_run run;
	struct fm_targets targets;
	double seconds; /* 0: not said; these too */
	uint64_t size;
	enum fm_bench_form form;
	bool is_now;
	char **files; /* to be compared; NULL: it is measured */
	size_t file_count;
};

/* ---- what is asked for ---- */

static int take_seconds(struct fm_args *args, double *out)
{
	char *end;

	*out = strtod(args->value, &end);
	if (*end || end == args->value || !isfinite(*out) || *out < 0.01 || *out > SECONDS_MAX)
		return fm_usage(args, "--seconds %s: must be 0.01 to %.0f", args->value,
				SECONDS_MAX);
	return -1;
}

static int take_size(struct fm_args *args, uint64_t *out)
{
	if (fm_value_size(args->value, out) < 0 || *out < BYTES_UNIT || *out % BYTES_UNIT != 0)
		return fm_usage(args, "--size %s: must be whole MiB, such as 256MiB", args->value);
	return -1;
}

static int take_transport(struct fm_args *args, enum fmove_transport *out)
{
	int value = fm_word_parse(fm_words_transport, args->value);

	if (value < 0)
		return fm_usage(args, "--transport %s: must be auto, rdma or tcp", args->value);
	*out = (enum fmove_transport)value;
	return -1;
}

static int take_connections(struct fm_args *args, unsigned *out)
{
	char *end;
	unsigned long n = strtoul(args->value, &end, 10);

	if (*end || n == 0 || n > FM_RAILS_CONNS_MAX)
		return fm_usage(args, "--connections %s: must be 1 to %u", args->value,
				FM_RAILS_CONNS_MAX);
	*out = (unsigned)n;
	return -1;
}

/* -1: go on. */
static int take_list(struct fm_args *args, int key, struct wanted *w)
{
	if (key == OPT_PEER) {
		if (w->run.peer_count == FM_RUN_PEERS_MAX)
			return fm_usage(args, "--peer: at most %u", FM_RUN_PEERS_MAX);
		w->run.peers[w->run.peer_count++] = args->value;
	} else {
		if (w->targets.path_count == FM_RUN_DIRS_MAX)
			return fm_usage(args, "--path: at most %u", FM_RUN_DIRS_MAX);
		w->targets.paths[w->targets.path_count++] = args->value;
	}
	return -1;
}

static int take_option(struct fm_args *args, int key, struct wanted *w)
{
	switch (key) {
	case OPT_PEER:
	case OPT_PATH:
		return take_list(args, key, w);
	case OPT_STORE:
		w->targets.store = args->value;
		break;
	case OPT_VOLUME:
		w->targets.volume = args->value;
		break;
	case OPT_CONFIG:
		w->targets.config = args->value;
		break;
	case OPT_DEVICE:
		w->run.only.device = args->value;
		break;
	case OPT_RAIL:
		w->run.only.rail = args->value;
		break;
	case OPT_CONNECTIONS:
		return take_connections(args, &w->run.only.connections);
	case OPT_TRANSPORT:
		return take_transport(args, &w->run.transport);
	case OPT_SECONDS:
		return take_seconds(args, &w->seconds);
	case OPT_SIZE:
		return take_size(args, &w->size);
	case OPT_THOROUGH:
		w->run.is_thorough = true;
		break;
	case OPT_NOW:
		w->is_now = true;
		break;
	case OPT_QUIET:
		w->run.is_quiet = true;
		break;
	case OPT_JSON:
	case OPT_CSV:
	case OPT_HTML:
		if (w->form != FM_BENCH_TABLE)
			return fm_usage(args, "--json, --csv or --html");
		w->form = key == OPT_JSON  ? FM_BENCH_JSON
			  : key == OPT_CSV ? FM_BENCH_CSV
					   : FM_BENCH_HTML;
		break;
	}
	return -1;
}

static int take_mode(struct fm_args *args, struct wanted *w)
{
	const char *mode = args->count > 0 ? args->operands[0] : "all";
	bool is_all = strcmp(mode, "all") == 0, is_known = is_all;

	for (unsigned i = 0; i < FM_BENCH_KINDS; i++) {
		w->run.wants[i] = is_all || strcmp(mode, fm_bench_kind_words[i]) == 0;
		is_known = is_known || w->run.wants[i];
	}
	if (!is_known)
		return fm_usage(args, "%s: must be rdma, tcp, disk, nvme-tcp, put or all", mode);
	w->targets.is_all = is_all;
	w->run.is_brief = is_all && !w->run.is_thorough;
	w->targets.wants_dirs = w->run.wants[FM_BENCH_DISK];
	if (is_all) /* what is not named is left out */
		w->run.wants[FM_BENCH_NVME_TCP] = w->targets.volume != NULL;
	if (is_all && w->run.peer_count == 0)
		w->run.wants[FM_BENCH_RDMA] = w->run.wants[FM_BENCH_TCP] =
			w->run.wants[FM_BENCH_PUT] = false;
	if (w->run.wants[FM_BENCH_RDMA] || w->run.wants[FM_BENCH_TCP] ||
	    w->run.wants[FM_BENCH_PUT]) {
		if (w->run.peer_count == 0)
			return fm_usage(
				args,
				"with whom? give --peer NODE; \"fmove status\" lists the peers");
	} else if (w->run.peer_count > 0) {
		return fm_usage(args, "--peer: no other node takes part in %s", mode);
	}
	if (!(strcmp(mode, "rdma") == 0 || strcmp(mode, "tcp") == 0) &&
	    (w->run.only.device || w->run.only.rail || w->run.only.connections > 0))
		return fm_usage(args, "--device, --rail and --connections are for rdma and tcp");
	if (strcmp(mode, "nvme-tcp") == 0 && !w->targets.volume && w->targets.path_count == 0)
		return fm_usage(args, "nvme-tcp: give --volume VOLUME, or --path DIR on one");
	return -1;
}

static int take_files(struct fm_args *args, struct wanted *w)
{
	w->files = args->operands + 1;
	w->file_count = (size_t)args->count - 1;
	if (w->file_count < 2 || w->file_count > FM_COMPARE_MAX)
		return fm_usage(args, "compare: give 2 to %u files that --json wrote",
				FM_COMPARE_MAX);
	if (w->form != FM_BENCH_TABLE && w->form != FM_BENCH_HTML)
		return fm_usage(args, "compare: prints a table, or with --html a page");
	return -1;
}

static int take_options(struct fm_args *args, struct wanted *w)
{
	int key, ret;

	while ((key = fm_args_next(args)) > 0) {
		ret = take_option(args, key, w);
		if (ret >= 0)
			return ret;
	}
	if (fm_args_end(args, 0, -1) < 0)
		return args->status;
	if (args->count > 0 && strcmp(args->operands[0], "compare") == 0)
		return take_files(args, w);
	if (args->count > 1)
		return fm_usage(args, "%s: one mode at a time", args->operands[1]);
	w->run.repeats = w->run.is_thorough ? THOROUGH_REPEATS : QUICK_REPEATS;
	w->run.seconds = w->seconds > 0 ? w->seconds : w->run.is_thorough ? THOROUGH_S : QUICK_S;
	w->run.file_bytes = w->size > 0		 ? w->size
			    : w->run.is_thorough ? THOROUGH_BYTES
						 : QUICK_BYTES;
	return take_mode(args, w);
}

/* ---- what is there ---- */

/* The daemon's status, or NULL and why. */
static struct fm_json *status_of(struct fmove *conn, char why[static FM_ERR_TEXT_MAX])
{
	struct fm_json *status;
	struct fmove_error error;

	(void)snprintf(why, FM_ERR_TEXT_MAX, "fmoved was not asked");
	if (!conn)
		return NULL;
	if (fm_ask_status(conn, &status, &error) == 0)
		return status;
	(void)snprintf(why, FM_ERR_TEXT_MAX, "%s", error.text);
	return NULL;
}

static bool has_rdma(const struct fm_json *peer)
{
	const struct fm_json *rails = fm_json_get(peer, "rails");

	for (size_t i = 0; i < fm_json_count(rails); i++)
		if (strcmp(fm_field_text(fm_json_at(rails, i), "kind"), "rdma") == 0)
			return true;
	return false;
}

static const struct fm_json *find_peer(const struct fm_json *status, const char *name)
{
	const struct fm_json *peers = fm_json_get(status, "peers");

	for (size_t i = 0; i < fm_json_count(peers); i++)
		if (strcmp(fm_field_text(fm_json_at(peers, i), "name"), name) == 0)
			return fm_json_at(peers, i);
	return NULL;
}

/*
 * A node that is not there is no node that forbids it. Who asks for all does not ask for RDMA where
 * a session has no rail of it; one that is down is measured, and fails.
 */
static int check_peers(struct wanted *w, struct fm_err *err)
{
	char why[FM_ERR_TEXT_MAX];
	struct fm_json *status = status_of(w->run.conn, why);
	bool is_rdma = false;
	int ret = 0;

	for (size_t i = 0; ret == 0 && status && i < w->run.peer_count; i++) {
		const struct fm_json *peer = find_peer(status, w->run.peers[i]);

		is_rdma = is_rdma || has_rdma(peer) || !fm_field_is(peer, "connected");
		if (!peer)
			ret = fm_err_set(err, -ENOENT,
					 "%s: no peer of this node; \"fmove status\" lists them",
					 w->run.peers[i]);
	}
	if (ret == 0 && status && w->run.peer_count > 0 && w->targets.is_all && !is_rdma) {
		w->run.wants[FM_BENCH_RDMA] = false;
		fm_say(VERB ": rdma is left out: no rail of it goes to %s", w->run.peers[0]);
	}
	fm_json_free(status);
	return ret;
}

static int collect(const struct wanted *w, struct fm_facts **out, struct fm_err *err)
{
	char why[FM_ERR_TEXT_MAX];
	struct fm_json *status = status_of(w->run.conn, why);
	const struct fm_collect_options options = {
		.config = w->targets.config, .status = status, .status_why = why};
	int ret = fm_facts_collect(&options, out, err);

	fm_json_free(status);
	return ret;
}

/*
 * What either end is doing would be in the numbers, and the numbers' transfers in its way. A daemon
 * lists those of all users and those that peers began with it; what a peer does with a third node
 * is not seen from here.
 */
static int wait_for_others(const struct wanted *w, struct fm_err *err)
{
	struct pollfd fd = {.fd = fm_interrupt_fd(), .events = POLLIN};
	char why[FM_ERR_TEXT_MAX];
	bool is_said = false;

	while (w->run.conn && !w->is_now) {
		struct fm_json *status = status_of(w->run.conn, why);
		size_t count = fm_json_count(fm_json_get(status, "jobs"));

		fm_json_free(status);
		if (count == 0)
			return 0;
		if (!is_said)
			fm_say(VERB
			       ": waiting until no transfer runs here, whoever began it; with "
			       "--now it does not wait");
		is_said = true;
		(void)poll(&fd, 1, WAIT_MS); /* whatever it says, a signal is looked for */
		if (fm_is_interrupted())
			return fm_err_set(err, -ECANCELED, "interrupted");
	}
	return 0;
}

/* ---- what came of it ---- */

/* Of all ports together; 0: not known of one of them, or there is none. */
static double hardware(const struct fm_facts *facts)
{
	static struct fm_ceiling ceilings[FM_CEILINGS_MAX];
	const struct fm_facts_set set = {.at = {facts}, .count = 1};
	size_t count = fm_ceilings(&set, ceilings);
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		double mbps = ceilings[i].port_mbps;

		if (ceilings[i].pcie_mbps > 0 && ceilings[i].pcie_mbps < mbps)
			mbps = ceilings[i].pcie_mbps;
		if (mbps <= 0)
			return 0;
		sum += mbps * BYTES_OF_MBPS;
	}
	return sum;
}

/* Of what goes to a peer one way; both ways at once have it twice, of a port that can do so. */
static void add_hardware(struct fm_bench *b, double rate)
{
	for (unsigned i = 0; i < b->path_count; i++)
		if (b->paths[i].kind <= FM_BENCH_PUT && b->paths[i].op != FM_BENCH_BOTH &&
		    fm_bench_is_any(&b->paths[i].only))
			b->paths[i].hardware = rate;
}

static void head(struct fm_bench *b, const struct wanted *w, const struct fm_facts *facts)
{
	(void)snprintf(b->node, sizeof(b->node), "%s", fm_text_of(&facts->node.name));
	(void)snprintf(b->fmove, sizeof(b->fmove), "%s", FM_VERSION);
	b->began_ms = (uint64_t)time(NULL) * 1000;
	b->is_thorough = w->run.is_thorough;
	b->wanted_s = w->run.seconds;
}

static int measure(struct wanted *w, int *status, struct fm_err *err)
{
	struct fm_bench *b = w->run.bench;
	struct fm_facts *before = NULL;
	int ret = collect(w, &before, err);

	if (ret < 0)
		return ret;
	head(b, w, before);
	ret = fm_run_all(&w->run, err);
	if (ret == 0)
		ret = collect(w, &b->facts, err);
	if (ret == 0) {
		fm_bench_growth(b, before, b->facts);
		*status = fm_bench_judge(b);
		add_hardware(b, hardware(b->facts));
		fm_bench_conclude(b, hardware(b->facts));
		if (b->path_count == 0)
			ret = fm_err_set(
				err, -EINVAL,
				"there is nothing to measure: give --peer, --path or --store");
	}
	fm_facts_free(before);
	return ret;
}

/* If nothing at all could be measured, the first reason is the end. */
static int exit_of(const struct wanted *w, int status)
{
	for (unsigned i = 0; i < w->run.bench->path_count; i++)
		if (w->run.bench->paths[i].repeat_count > 0)
			return status;
	return w->run.first_error ? (int)fm_api_exit(w->run.first_error) : status;
}

static int compare(const struct wanted *w, int *status, struct fm_err *err)
{
	int ret = fm_compare_print(w->files, w->file_count,
				   w->form == FM_BENCH_HTML, err);

	*status = ret < 0 ? *status : ret;
	return ret < 0 ? ret : 0;
}

static int run(struct wanted *w, int *status, struct fm_err *err)
{
	int ret = fm_targets_find(&w->targets, &w->run, err);

	if (ret == 0 && w->run.peer_count > 0 &&
	    fm_ask_open(VERB, w->run.is_quiet, &w->run.conn, status) < 0)
		return 0;
	if (ret == 0)
		ret = check_peers(w, err);
	if (ret == 0 && fm_interrupt_fd() < 0)	/* else the connection has it already */
		ret = fm_interrupt_start(err);
	if (ret == 0)
		ret = wait_for_others(w, err);
	if (ret == 0)
		ret = measure(w, status, err);
	if (ret < 0)
		return ret;
	*status = exit_of(w, *status);
	ret = fm_bench_print(w->run.bench, w->form, *status);
	return ret < 0 ? fm_err_sys(err, ret, "print the measurement") : 0;
}

int fm_cmd_bench(int argc, char **argv)
{
	struct wanted *w = calloc(1, sizeof(*w));
	int status = FM_EXIT_DONE, ret;
	struct fm_args args;
	struct fm_err err;

	if (!w || !(w->run.bench = fm_bench_new())) {
		free(w);
		(void)fm_err_set(&err, -ENOMEM, "no memory");
		return fm_fail(VERB, &err);
	}
	fm_args_begin(&args, VERB, argc, argv);
	ret = take_options(&args, w);
	if (ret < 0) {
		ret = w->files ? compare(w, &status, &err) : run(w, &status, &err);
		if (ret < 0)
			status = fm_fail(VERB, &err);
		ret = fm_stdout_end(VERB, status);
	}
	fmove_close(w->run.conn);
	fm_targets_free(&w->run);
	fm_bench_free(w->run.bench);
	free(w);
	return ret;
}
