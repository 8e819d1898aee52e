/* SPDX-License-Identifier: MIT */
/* top_rows - see top_rows.h. */
#include "client/cli/top_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/fields.h"
#include "client/cli/show.h"
#include "client/lib/fmove.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/words.h"

/* Whatever is said by others goes through here; what is too long is cut. */
static void show_text(const char *text, char *out, size_t cap)
{
	(void)fm_show(text, strlen(text), out, cap);
}

static void show_cell(struct fm_top_row *row, int cell, const char *text)
{
	show_text(text, row->cell[cell], sizeof(row->cell[cell]));
}

/* "1.2 GB" without the blank, so that columns can be narrow: "1.2GB". */
static void drop_blank(char *text)
{
	char *blank = strchr(text, ' ');

	if (blank)
		memmove(blank, blank + 1, strlen(blank));
}

static void bytes_cell(struct fm_top_row *row, int cell, uint64_t bytes)
{
	char text[FM_SHOW_MAX] = "-";

	if (bytes != UINT64_MAX)
		drop_blank(fm_show_bytes(bytes, text));
	show_cell(row, cell, text);
}

static void rate_cell(struct fm_top_row *row, int cell, double rate)
{
	char text[FM_SHOW_MAX] = "-";

	if (rate > 0)
		drop_blank(fm_show_rate(rate, text));
	show_cell(row, cell, text);
}

static void count_cell(struct fm_top_row *row, int cell, uint64_t count)
{
	(void)snprintf(row->cell[cell], sizeof(row->cell[cell]), "%" PRIu64, count);
}

/* ---- the node and its rails ---- */

static const struct fm_json *same_peer(const struct fm_json *status, const struct fm_json *peer)
{
	return fm_field_find(fm_json_get(status, "peers"), "name", fm_field_text(peer, "name"),
			     "address", fm_field_text(peer, "address"));
}

static const struct fm_json *same_rail(const struct fm_json *peer, const struct fm_json *rail)
{
	return fm_field_find(fm_json_get(peer, "rails"), "local", fm_field_text(rail, "local"),
			     "remote", fm_field_text(rail, "remote"));
}

static void sum_rates(struct fm_top_node *node, const struct fm_json *peer,
		      const struct fm_json *before, double seconds)
{
	const struct fm_json *rails = fm_json_get(peer, "rails");

	for (size_t i = 0; i < fm_json_count(rails); i++) {
		const struct fm_json *rail = fm_json_at(rails, i);
		const struct fm_json *earlier = same_rail(before, rail);

		node->out += fm_field_rate(rail, earlier, "sent_bytes", seconds);
		node->in += fm_field_rate(rail, earlier, "received_bytes", seconds);
	}
}

void fm_top_node(struct fm_top_node *node, const struct fm_json *now, const struct fm_json *before,
		 double seconds)
{
	const struct fm_json *peers = fm_json_get(now, "peers");

	show_text(fm_field_text(now, "node"), node->node, sizeof(node->node));
	show_text(fm_field_text(now, "version"), node->version, sizeof(node->version));
	node->uptime_s = fm_field_u64(now, "uptime_ms") / 1000;
	node->restarts += fm_field_u64(before, "uptime_ms") > fm_field_u64(now, "uptime_ms");
	node->slabs = fm_field_u64(now, "slabs");
	node->slabs_free = fm_field_u64(now, "slabs_free");
	node->peers = fm_json_count(peers);
	node->peers_up = 0;
	node->out = node->in = 0;
	for (size_t i = 0; i < node->peers; i++) {
		const struct fm_json *peer = fm_json_at(peers, i);

		node->peers_up += fm_field_is(peer, "connected");
		sum_rates(node, peer, same_peer(before, peer), seconds);
	}
}

static void add_rail(struct fm_top_table *table, const char *peer, const struct fm_json *rail,
		     const struct fm_json *before, double seconds)
{
	double out = fm_field_rate(rail, before, "sent_bytes", seconds),
	       in = fm_field_rate(rail, before, "received_bytes", seconds);
	uint64_t mbps = fm_field_u64(rail, "speed_mbps");
	struct fm_top_row *row = fm_top_add(table);
	const char *error = fm_field_text(rail, "error");
	char name[sizeof(row->name)];

	if (!row)
		return;
	(void)snprintf(name, sizeof(name), "%.100s %.10s %.40s %.80s -> %.80s", peer,
		       fm_field_text(rail, "kind"), fm_field_text(rail, "device"),
		       fm_field_text(rail, "local"), fm_field_text(rail, "remote"));
	show_text(name, row->name, sizeof(row->name));
	row->is_bad = !fm_field_is(rail, "up");
	row->rate = out + in;
	if (*error) {
		show_text(error, row->note, sizeof(row->note));
		return;
	}
	show_cell(row, 0, row->is_bad ? "down" : "up");
	rate_cell(row, 1, out);
	rate_cell(row, 2, in);
	if (mbps > 0)
		(void)snprintf(row->cell[3], sizeof(row->cell[3]), "%.4gGb/s", (double)mbps / 1e3);
	count_cell(row, 4, fm_field_u64(rail, "connections"));
}

/* A peer without a rail is a row, too: what keeps it away is what is looked for. */
static void add_lonely(struct fm_top_table *table, const struct fm_json *peer)
{
	bool is_up = fm_field_is(peer, "connected");
	struct fm_top_row *row = fm_top_add(table);
	const char *error = fm_field_text(peer, "error");
	char since[FM_SHOW_MAX], text[sizeof(row->note)];

	if (!row)
		return;
	row->is_bad = !is_up;
	show_text(fm_field_text(peer, "name"), row->name, sizeof(row->name));
	(void)snprintf(text, sizeof(text), "%s for %s%s%s",
		       is_up ? "connected, without a rail," : "not connected",
		       fm_show_time(fm_field_u64(peer, "since_ms") / 1000, since),
		       *error ? ": " : "", error); /* cut if it is too long */
	show_text(text, row->note, sizeof(row->note));
}

void fm_top_rails(struct fm_top_table *table, const struct fm_json *now,
		  const struct fm_json *before, double seconds)
{
	const struct fm_json *peers = fm_json_get(now, "peers");

	for (size_t i = 0; i < fm_json_count(peers); i++) {
		const struct fm_json *peer = fm_json_at(peers, i);
		const struct fm_json *rails = fm_json_get(peer, "rails");
		const struct fm_json *earlier = same_peer(before, peer);

		if (fm_json_count(rails) == 0 || !fm_field_is(peer, "connected"))
			add_lonely(table, peer);
		for (size_t k = 0; k < fm_json_count(rails); k++) {
			const struct fm_json *rail = fm_json_at(rails, k);

			add_rail(table, fm_field_text(peer, "name"), rail, same_rail(earlier, rail),
				 seconds);
		}
	}
}

/* ---- transfers ---- */

/* "put n2:data/run7/a.pt": by it a transfer is known in two looks, unless it is cut. */
static void transfer_name(const struct fm_json *job, char *out, size_t cap)
{
	char path[FMOVE_PATH_MAX + 1] = "", name[FMOVE_PATH_MAX + 256];
	size_t len = 0;

	(void)fm_json_name(fm_json_get(job, "path"), path, sizeof(path), &len); /* "": missing */
	(void)snprintf(name, sizeof(name), "%.8s %.70s:%.70s/%s%s", fm_field_text(job, "op"),
		       fm_field_text(job, "peer"), fm_field_text(job, "store"), path,
		       fm_field_is(job, "ours") ? "" : " (for the peer)");
	show_text(name, out, cap);
}

/* How much the transfer of this row had moved in an earlier look, where it was the n-th of its name
 * as it is now; UINT64_MAX: it was not there. */
static uint64_t earlier_bytes(const struct fm_top_table *before, const struct fm_top_table *table,
			      const struct fm_top_row *row)
{
	unsigned n = 0;

	for (const struct fm_top_row *at = table->rows; at < row; at++)
		n += strcmp(at->name, row->name) == 0;
	for (size_t i = 0; before && i < before->count; i++)
		if (strcmp(before->rows[i].name, row->name) == 0 && n-- == 0)
			return before->rows[i].bytes;
	return UINT64_MAX;
}

static void progress_cells(struct fm_top_row *row, const struct fm_json *job)
{
	uint64_t bytes = row->bytes, size;
	double left_s;
	char left[FM_SHOW_MAX];

	bytes_cell(row, 2, bytes);
	rate_cell(row, 3, row->rate);
	if (fm_json_u64(fm_json_get(job, "size"), &size) < 0 || size == 0)
		return;
	bytes = bytes < size ? bytes : size;
	(void)snprintf(row->cell[1], sizeof(row->cell[1]), "%.0f%%",
		       100.0 * (double)bytes / (double)size);
	left_s = row->rate >= 1 ? (double)(size - bytes) / row->rate : 0;
	if (left_s > 0 && left_s < 360000)
		show_cell(row, 4, fm_show_time((uint64_t)left_s, left));
}

void fm_top_transfers(struct fm_top_table *table, const struct fm_json *now,
		      const struct fm_top_table *before, double seconds)
{
	const struct fm_json *jobs = fm_json_get(now, "jobs");

	for (size_t i = 0; i < fm_json_count(jobs); i++) {
		const struct fm_json *job = fm_json_at(jobs, i);
		struct fm_top_row *row = fm_top_add(table);
		uint64_t earlier;

		if (!row)
			continue;
		transfer_name(job, row->name, sizeof(row->name));
		row->bytes = fm_field_u64(job, "bytes");
		earlier = earlier_bytes(before, table, row);
		if (row->bytes > earlier && seconds > 0)
			row->rate = (double)(row->bytes - earlier) / seconds;
		show_cell(row, 0, fm_field_text(job, "state"));
		progress_cells(row, job);
	}
}

/* ---- what waits, stores, volumes, the cache ---- */

void fm_top_job(struct fm_top_table *table, const struct fmove_job *job)
{
	char far[FMOVE_PATH_MAX + 2 * FMOVE_NAME_MAX + 8];
	struct fm_top_row *row;

	if (job->state != FMOVE_JOB_QUEUED && job->state != FMOVE_JOB_WAITING &&
	    job->state != FMOVE_JOB_PAUSED)
		return;
	row = fm_top_add(table);
	if (!row)
		return;
	(void)snprintf(far, sizeof(far), "%s %s:%s/%s", job->is_put ? "put" : "get", job->node,
		       job->store, job->path); /* fits */
	show_text(far, row->name, sizeof(row->name));
	show_cell(row, 0, job->id);
	show_cell(row, 1, fm_words_state[job->state]);
	bytes_cell(row, 2, job->bytes);
	bytes_cell(row, 3, job->size);
}

void fm_top_space(struct fm_top_table *table, const struct fmove_space *space)
{
	struct fm_top_row *row = fm_top_add(table);
	char since[FM_SHOW_MAX];

	if (!row)
		return;
	show_text(space->store, row->name, sizeof(row->name));
	row->is_bad = space->silent_ms > 0 || space->code != 0;
	if (space->silent_ms > 0)
		(void)snprintf(row->note, sizeof(row->note),
			       "its file system has not answered for %s",
			       fm_show_time(space->silent_ms / 1000, since));
	else if (space->code != 0)
		(void)snprintf(row->note, sizeof(row->note), "its file system fails: %s",
			       fm_err_name(space->code));
	else if (!space->may_read)
		(void)snprintf(row->note, sizeof(row->note), "not for you to read");
	bytes_cell(row, 0, space->free);
	bytes_cell(row, 1, space->used);
	bytes_cell(row, 2, space->quota < space->size ? space->quota : space->size);
	bytes_cell(row, 3, space->promised);
}

void fm_top_cache(struct fm_top_table *table, const struct fmove_cache *cache)
{
	struct fm_top_row *row = fm_top_add(table);
	char fill[FM_SHOW_FILL_MAX];

	if (!row)
		return;
	show_text("all", row->name, sizeof(row->name));
	(void)snprintf(row->note, sizeof(row->note), "%s", /* fits */
		       fm_show_fill(cache->used, cache->size, cache->promised, fill));
}

void fm_top_dataset(struct fm_top_table *table, const struct fmove_dataset *dataset)
{
	struct fm_top_row *row = fm_top_add(table);

	if (!row)
		return;
	show_text(dataset->name, row->name, sizeof(row->name));
	show_cell(row, 0, dataset->state);
	bytes_cell(row, 1, dataset->bytes);
	count_cell(row, 2, dataset->holds);
	count_cell(row, 3, dataset->pins);
}

static void add_volume(struct fm_top_table *table, const struct fm_json *v)
{
	struct fm_top_row *row = fm_top_add(table);
	const char *alarm = fm_field_text(v, "alarm");

	if (!row)
		return;
	if (!*alarm)
		alarm = fm_field_text(v, "unprotected");
	row->is_bad = *alarm || *fm_field_text(v, "error") != '\0';
	show_text(fm_field_text(v, "name"), row->name, sizeof(row->name));
	show_text(alarm, row->note, sizeof(row->note));
	show_cell(row, 0, fm_field_text(v, "state"));
	(void)snprintf(row->cell[1], sizeof(row->cell[1]), "%" PRIu64 "/%" PRIu64,
		       fm_field_u64(v, "paths_live"), fm_field_u64(v, "paths_wanted"));
	if (*fm_field_text(v, "device"))
		bytes_cell(row, 2, fm_field_u64(v, "size_bytes"));
	show_cell(row, 3,
		  !fm_field_is(v, "is_mounted")	    ? "no"
		  : fm_field_is(v, "is_read_write") ? "read-write"
						    : "read-only");
}

void fm_top_volumes(struct fm_top_table *table, const struct fm_json *done)
{
	const struct fm_json *volumes = fm_json_get(done, "volumes");

	for (size_t i = 0; i < fm_json_count(volumes); i++)
		add_volume(table, fm_json_at(volumes, i));
}
