/* SPDX-License-Identifier: MIT */
/* cmd_nvme_status - fmove nvme status, list: what fmove-nvmed knows of its volumes. */
#include "client/cli/nvme.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/fields.h"
#include "client/cli/show.h"
#include "mover/base/json.h"

enum { OPT_QUIET = FM_NVME_KEY, OPT_CHECK };

const struct fm_opt fm_opts_nvme_status[] = {
	{ "check", 0, OPT_CHECK, NULL, "the exit status says whether all is as wanted", NULL },
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_nvme_list[] = {
	{ "quiet", 'q', OPT_QUIET, NULL, "only their names", NULL },
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define STATUS_MS 15000
#define NAME_COLUMN 14		/* where the words of status begin */

/* ---- pieces of a line; fm_stdout_end() looks for errors ---- */

static void print_label(const char *label)
{
	(void)printf("  %-*s", NAME_COLUMN - 2, label);
}

/* Prints a line, if there is something to say. */
static void print_text(const char *label, const char *text)
{
	if (!*text)
		return;
	print_label(label);
	fm_nvme_put(text);
	(void)putchar('\n');
}

/* Prints ", TEXT" behind what stands there already. */
static void print_more(const char *before, const char *text, const char *behind)
{
	if (!*text)
		return;
	(void)printf("%s", before);
	fm_nvme_put(text);
	(void)printf("%s", behind);
}

/* ---- status ---- */

static void print_state(const struct fm_json *v)
{
	int64_t again_ms = fm_field_i64(v, "next_try_ms");
	uint64_t tries = fm_field_u64(v, "tries");
	char at[FM_SHOW_MAX], time[FM_SHOW_MAX];

	fm_nvme_put(fm_field_text(v, "name"));
	print_more(": ", fm_field_text(v, "state"), "");
	print_more(" since ", fm_show_date(fm_field_i64(v, "since_ms"), at), "");
	print_more(", wanted ", fm_field_text(v, "wanted"), "\n");
	print_text("ALARM", fm_field_text(v, "alarm"));
	print_text("warning", fm_field_text(v, "unprotected"));
	print_text("because", fm_field_text(v, "text"));
	if (*fm_field_text(v, "error")) {
		print_label("last error");
		fm_nvme_put(fm_field_text(v, "error"));
		print_more(" (", fm_show_date(fm_field_i64(v, "error_ms"), at), ")");
		(void)putchar('\n');
	}
	if (tries == 0 && again_ms <= 0)
		return;
	print_label("tries");
	(void)printf("%" PRIu64, tries);
	if (again_ms > 0)
		(void)printf(", the next in %s",
			     fm_show_time(((uint64_t)again_ms + 999) / 1000, time));
	(void)putchar('\n');
}

/* Prints "never" or "5 s". off: the word for the kernel's -1. */
static void print_seconds(const char *what, int64_t seconds, const char *off)
{
	if (seconds < 0)
		(void)printf("%s%s", what, off);
	else
		(void)printf("%s%" PRId64 " s", what, seconds);
}

static void print_controller(const struct fm_json *c)
{
	uint64_t queues = fm_field_u64(c, "queues");

	print_label("");
	fm_nvme_put(fm_field_text(c, "name"));
	print_more(" ", fm_field_text(c, "state"), "");
	print_more(" to ", fm_field_text(c, "address"), "");
	print_more(" port ", fm_field_text(c, "port"), "");
	if (queues > 0)
		(void)printf(", %" PRIu64 " queue%s", queues, queues == 1 ? "" : "s");
	print_more(", ANA ", fm_field_text(c, "ana"), "");
	(void)printf("%s\n", fm_field_is(c, "is_ours") ? "" : ", connected by somebody else");
	print_label("");
	print_seconds("  keep-alive ", fm_field_i64(c, "keep_alive_s"), "off");
	print_seconds(", tries again every ", fm_field_i64(c, "reconnect_delay_s"), "never");
	print_seconds(", gives up after ", fm_field_i64(c, "ctrl_loss_s"), "never");
	print_seconds(", I/O fails after ", fm_field_i64(c, "fast_io_fail_s"), "never");
	(void)putchar('\n');
}

static void print_paths(const struct fm_json *v)
{
	const struct fm_json *controllers = fm_json_get(v, "controllers");

	print_label("paths");
	(void)printf("%" PRIu64 " live of %" PRIu64 " wanted\n", fm_field_u64(v, "paths_live"),
		     fm_field_u64(v, "paths_wanted"));
	for (size_t i = 0; i < fm_json_count(controllers); i++)
		print_controller(fm_json_at(controllers, i));
}

static void print_device(const struct fm_json *v)
{
	char size[FM_SHOW_MAX];

	if (*fm_field_text(v, "device")) {
		print_label("device");
		fm_nvme_put(fm_field_text(v, "device"));
		(void)printf(", namespace %" PRIu64 ", %s%s\n", fm_field_u64(v, "nsid"),
			     fm_show_bytes(fm_field_u64(v, "size_bytes"), size),
			     fm_field_is(v, "is_write_protected") ? ", write protected" :
			     fm_field_is(v, "is_read_only")	  ? ", read-only" :
								    "");
	}
	print_text("by id", fm_field_text(v, "by_id"));
	print_text("wwid", fm_field_text(v, "wwid"));
	print_text("uuid", fm_field_text(v, "uuid"));
	print_text("nguid", fm_field_text(v, "nguid"));
}

static void print_mount(const struct fm_json *v)
{
	print_label("mode");
	fm_nvme_put(fm_field_text(v, "mode"));
	print_more(", writer ", fm_field_text(v, "writer"),
		   fm_field_is(v, "is_writer") ? " (this node)" : "");
	(void)putchar('\n');
	if (!*fm_field_text(v, "mount_point"))
		return;
	print_label("mount");
	fm_nvme_put(fm_field_text(v, "mount_point"));
	if (fm_field_is(v, "is_mounted"))
		(void)printf(", mounted %s%s",
			     fm_field_is(v, "is_read_write") ? "read-write" : "read-only",
			     fm_field_is(v, "is_reserved") ? ", reserved for this host" : "");
	else
		(void)printf(", not mounted");
	print_more(", ", fm_field_text(v, "fs_type"), "");
	print_more(" ", fm_field_text(v, "fs_uuid"), "");
	(void)putchar('\n');
}

static void print_seal(const struct fm_json *v)
{
	uint64_t epoch = fm_field_u64(v, "epoch"), mounted = fm_field_u64(v, "mounted_epoch");

	if (!fm_json_get(v, "epoch"))
		return;
	print_label("seal");
	if (fm_field_is(v, "is_sealed"))
		(void)printf("sealed, epoch %" PRIu64, epoch);
	else
		(void)printf("not sealed%s", epoch > 0 || fm_field_is(v, "is_writer")
						     ? ""
						     : ", as far as is known");
	if (mounted > 0 && mounted != epoch)
		(void)printf(", mounted is epoch %" PRIu64, mounted);
	(void)putchar('\n');
}

static void print_peer(const struct fm_json *p, const char *label)
{
	const char *why = fm_field_text(p, "why");
	uint64_t epoch = fm_field_u64(p, "epoch");
	char at[FM_SHOW_MAX];

	print_label(label);
	fm_nvme_put(fm_field_text(p, "node"));
	if (*why) {
		print_more(" does not answer (", why, ")");
		print_more(", forgotten since ",
			   fm_show_date(fm_field_i64(p, "forgotten_ms"), at), "");
		(void)printf("%s", fm_json_get(p, "is_mounted") ? "; before:" : "\n");
	} else {
		(void)putchar(':');
	}
	if (!fm_json_get(p, "is_mounted"))
		return;
	if (fm_field_is(p, "is_mounted"))
		(void)printf(" mounted %s",
			     fm_field_is(p, "is_read_write") ? "read-write" : "read-only");
	else
		(void)printf(" not mounted");
	if (fm_field_is(p, "is_sealed"))
		(void)printf(", sealed");
	if (epoch > 0)
		(void)printf(", epoch %" PRIu64, epoch);
	print_more(", names ", fm_field_text(p, "writer"), " as the writer");
	(void)putchar('\n');
}

/* Prints who else has the volume, or why that is not known. */
static void print_peers(const struct fm_json *v)
{
	const struct fm_json *peers = fm_json_get(v, "peers");

	for (size_t i = 0; i < fm_json_count(peers); i++)
		print_peer(fm_json_at(peers, i), i == 0 ? "elsewhere" : "");
	print_text("elsewhere", fm_field_text(v, "peers_why"));
}

static void print_volume(const struct fm_json *v)
{
	print_state(v);
	print_text("subsystem", fm_field_text(v, "subsystem"));
	print_paths(v);
	print_device(v);
	print_mount(v);
	print_seal(v);
	print_peers(v);
}

/* What was changed in it, a volume that is no longer configured included, is not in force. */
static void print_mistake(const struct fm_json *done)
{
	const char *mistake = fm_field_text(done, "config_mistake");
	char shown[1024], at[FM_SHOW_MAX];

	if (*mistake)
		(void)printf("warning: the configuration was changed but has a mistake: %s; "
			     "what runs is that of %s\n",
			     fm_show(mistake, strlen(mistake), shown, sizeof(shown)),
			     fm_show_date(fm_field_i64(done, "config_read_ms"), at));
}

/* Prints what concerns all volumes and is not as it should be. */
static void print_warnings(const struct fm_json *done)
{
	const struct fm_json *libnvme = fm_json_get(done, "libnvme");
	uint64_t stuck = fm_field_u64(done, "stuck");

	print_mistake(done);
	if (stuck > 0)
		(void)printf("warning: %" PRIu64
			     " helper process%s of fmove-nvmed hang%s in the kernel\n",
			     stuck, stuck == 1 ? "" : "es", stuck == 1 ? "s" : "");
	print_more("warning: ", fm_field_text(done, "second_owner"),
		   " connects volumes too: two owners get into each other's way; disable one\n");
	if (strcmp(fm_field_text(libnvme, "built"), fm_field_text(libnvme, "running")) != 0) {
		print_more("warning: fmove-nvmed was built with libnvme ",
			   fm_field_text(libnvme, "built"), "");
		print_more(" and runs with ", fm_field_text(libnvme, "running"),
			   "; build it anew\n");
	}
}

static bool is_as_wanted(const struct fm_json *v)
{
	const char *wanted = fm_field_text(v, "wanted"), *state = fm_field_text(v, "state");

	if (*fm_field_text(v, "unprotected"))
		return false;
	if (strcmp(wanted, "down") == 0)
		return strcmp(state, "down") == 0;
	if (strcmp(wanted, "up") == 0 && *fm_field_text(v, "mount_point") &&
	    !fm_field_is(v, "is_mounted"))
		return false;
	return strcmp(state, "mounted") == 0 || strcmp(state, "connected") == 0 ||
	       strcmp(state, "degraded") == 0;
}

/* The exit status of --check: that of the worst volume. */
static int judge(const struct fm_json *done)
{
	const struct fm_json *volumes = fm_json_get(done, "volumes");
	int status = FM_EXIT_DONE;

	for (size_t i = 0; i < fm_json_count(volumes); i++) {
		const struct fm_json *v = fm_json_at(volumes, i);

		if (*fm_field_text(v, "alarm"))
			return FM_EXIT_CORRUPT;
		if (strcmp(fm_field_text(v, "state"), "refused") == 0)
			status = FM_EXIT_REFUSED;
		else if (status == FM_EXIT_DONE && !is_as_wanted(v))
			status = FM_EXIT_UNREACHABLE;
	}
	return status;
}

static void show_status(const struct fm_json *done, void *ctx)
{
	const struct fm_json *volumes = fm_json_get(done, "volumes");

	(void)ctx;
	print_warnings(done);
	for (size_t i = 0; i < fm_json_count(volumes); i++) {
		if (i > 0)
			(void)putchar('\n');
		print_volume(fm_json_at(volumes, i));
	}
	if (fm_json_count(volumes) == 0)
		(void)printf("no volumes are configured\n");
}

/* ---- list ---- */

#define COLUMNS 6
#define CELL_MAX 512

/* Fills the cells of a volume. A mount point with nothing mounted stands in brackets. */
static void cells_of(const struct fm_json *v, char cell[static COLUMNS][CELL_MAX])
{
	const char *point = fm_field_text(v, "mount_point"), *mode = fm_field_text(v, "mode");
	bool is_mounted = fm_field_is(v, "is_mounted");
	const char *device = fm_field_text(v, "device");
	char size[FM_SHOW_MAX] = "-";

	if (*device)
		fm_show_bytes(fm_field_u64(v, "size_bytes"), size);
	/* what is too long is cut: status has it all */
	(void)snprintf(cell[0], CELL_MAX, "%s", fm_field_text(v, "name"));
	(void)snprintf(cell[1], CELL_MAX, "%s", fm_field_text(v, "state"));
	(void)snprintf(cell[2], CELL_MAX, "%s", *device ? device : "-");
	(void)snprintf(cell[3], CELL_MAX, "%s", size);
	(void)snprintf(cell[4], CELL_MAX, is_mounted || !*point ? "%s" : "(%s)",
		       *point ? point : "-");
	(void)snprintf(cell[5], CELL_MAX, "%s%s", mode,
		       !is_mounted			 ? ""
		       : fm_field_is(v, "is_read_write") ? " rw"
							 : " ro");
}

/*
 * Widens the columns to these cells. It counts bytes, which is right for names; a mount point in
 * another script shifts what follows.
 */
static void widen(int width[static COLUMNS], char cell[static COLUMNS][CELL_MAX])
{
	for (unsigned i = 0; i < COLUMNS; i++)
		if ((int)strlen(cell[i]) > width[i])
			width[i] = (int)strlen(cell[i]);
}

static void print_cells(const int width[static COLUMNS], char cell[static COLUMNS][CELL_MAX])
{
	for (unsigned i = 0; i < COLUMNS; i++)
		fm_nvme_put_column(cell[i], i + 1 < COLUMNS ? width[i] + 2 : 0);
	(void)putchar('\n');
}

static void show_list(const struct fm_json *done, void *ctx)
{
	char cell[COLUMNS][CELL_MAX],
		head[COLUMNS][CELL_MAX] = {"NAME", "STATE", "DEVICE", "SIZE", "MOUNT", "MODE"};
	const struct fm_json *volumes = fm_json_get(done, "volumes");
	const bool *is_quiet = ctx;
	int width[COLUMNS] = { 0 };

	widen(width, head);
	for (size_t i = 0; i < fm_json_count(volumes); i++) {
		cells_of(fm_json_at(volumes, i), cell);
		widen(width, cell);
	}
	if (!*is_quiet)
		print_cells(width, head);
	for (size_t i = 0; i < fm_json_count(volumes); i++) {
		cells_of(fm_json_at(volumes, i), cell);
		if (!*is_quiet) {
			print_cells(width, cell);
			continue;
		}
		fm_nvme_put(cell[0]);
		(void)putchar('\n');
	}
}

/* ---- both ---- */

/* Asks for the status and shows it. max: how many operands there may be; one is a volume's name. */
static int ask(const char *verb, int max, void (*show)(const struct fm_json *done, void *ctx),
	       int argc, char **argv)
{
	struct fm_nvmed_request r = { .op = "status" };
	bool is_json = false, is_quiet = false, is_check = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, verb, argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == FM_NVME_KEY_SOCKET)
			fm_socket_set(args.value);
		is_json |= key == FM_NVME_KEY_JSON;
		is_quiet |= key == OPT_QUIET;
		is_check |= key == OPT_CHECK;
	}
	if (fm_args_end(&args, 0, max) < 0)
		return args.status;
	r.volume = args.count > 0 ? args.operands[0] : NULL;
	return fm_nvme_ask_and_judge(verb, &r, STATUS_MS, is_json, show, &is_quiet,
				     is_check ? judge : NULL);
}

int fm_cmd_nvme_status(int argc, char **argv)
{
	return ask("nvme status", 1, show_status, argc, argv);
}

int fm_cmd_nvme_list(int argc, char **argv)
{
	return ask("nvme list", 0, show_list, argc, argv);
}
