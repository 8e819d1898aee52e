/* SPDX-License-Identifier: MIT */
/* outcome - see outcome.h. */
#include "client/cli/outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/cli/latest.h"
#include "client/cli/links.h"
#include "client/cli/name.h"
#include "client/cli/show.h"
#include "mover/base/json.h"
#include "mover/base/env.h"

static const char *const changes[] = {
	[FMOVE_ADDED] = "added", [FMOVE_REPLACED] = "replaced", [FMOVE_REMOVED] = "removed"};

void fm_outcomes_begin(struct fm_outcomes *o)
{
	o->start_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	fm_jw_stream(&o->json, stdout); /* fm_stdout_end() looks for errors */
	if (!o->is_json || !o->is_many)
		return;
	fm_jw_object(&o->json, NULL);
	fm_jw_array(&o->json, "files");
}

static void json_error(struct fm_json_writer *w, const struct fm_outcome *one)
{
	fm_jw_object(w, "error");
	fm_jw_text(w, "code", fm_api_errno_name(one->err.code));
	fm_jw_text(w, "text", one->err.text);
	fm_jw_bool(w, "kept", one->is_kept);
	fm_jw_object_end(w);
}

static void json_tree(struct fm_json_writer *w, const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;

	fm_jw_bool(w, "tree", true);
	fm_jw_bool(w, "dry_run", one->is_dry);
	fm_jw_u64(w, "files", r->files);
	fm_jw_u64(w, "dirs", r->dirs);
	fm_jw_u64(w, "links", r->links);
	fm_jw_u64(w, "hard_links", r->hard_links);
	fm_jw_u64(w, "leaving_links", r->leaving_links);
	fm_jw_u64(w, "reused_files", r->reused_files);
	fm_jw_u64(w, "reused_bytes", r->reused_bytes);
	fm_jw_bool(w, "reflinked", r->is_reflinked);
	fm_jw_u64(w, "resumed_files", r->resumed_files);
	fm_jw_u64(w, "added", r->added);
	fm_jw_u64(w, "replaced", r->replaced);
	fm_jw_u64(w, "removed", r->removed);
	fm_jw_u64(w, "kept", r->kept);
	if (r->former[0]) {
		fm_jw_object(w, "former");
		fm_jw_name(w, "path", r->former, strlen(r->former));
		fm_jw_i64(w, "until_ns", r->former_until_ns);
		fm_jw_object_end(w);
	}
	if (one->is_dry) {
		fm_jw_u64(w, "wanted_files", r->wanted_files);
		fm_jw_u64(w, "wanted_bytes", r->wanted_bytes);
	}
}

static void json_result(struct fm_json_writer *w, const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;
	char text[16];

	fm_jw_u64(w, "bytes", r->bytes);
	fm_jw_u64(w, "data_bytes", r->data_bytes);
	fm_jw_real(w, "seconds", r->seconds);
	fm_jw_real(w, "gb_per_s", r->gb_per_s);
	fm_jw_text(w, "transport", r->transport);
	fm_jw_u64(w, "rdma_bytes", r->rdma_bytes);
	fm_jw_u64(w, "tcp_bytes", r->tcp_bytes);
	fm_jw_text(w, "encryption", r->encryption);
	fm_jw_text(w, "why", r->why);
	fm_jw_u64(w, "connections", r->connections);
	fm_jw_bool(w, "durable", r->is_durable);
	fm_jw_bool(w, "checked", r->is_checked);
	fm_jw_u64(w, "resent_bytes", r->resent_bytes);
	fm_jw_u64(w, "resumed_bytes", r->resumed_bytes);
	fm_jw_u64(w, "damaged_bytes", r->damaged_bytes);
	fm_jw_u64(w, "corrupt_chunks", r->corrupt_chunks);
	if (r->is_tree) {
		json_tree(w, one);
	} else {
		(void)snprintf(text, sizeof(text), "%08" PRIx32, r->crc32c);	/* fits */
		if (r->has_crc32c)
			fm_jw_text(w, "crc32c", text);
		(void)snprintf(text, sizeof(text), "%04o", r->mode & 0777u);	/* fits */
		fm_jw_text(w, "mode", text);
		fm_jw_i64(w, "mtime_ns", r->mtime_ns);
		if (r->version[0])
			fm_jw_text(w, "version", r->version);
	}
	fm_jw_text(w, "note", r->note);
}

static void json_begin(struct fm_json_writer *w)
{
	fm_jw_line(w);
	fm_jw_object(w, NULL);
}

/*
 * Writes a name of the list, which comes first in the object: names are written as they come, and
 * there may be any number.
 */
static void json_name(struct fm_outcomes *o, enum fmove_change change, const char *path)
{
	struct fm_json_writer *w = &o->json;

	if (!o->has_names) {
		json_begin(w);
		fm_jw_array(w, "names");
	}
	json_begin(w);
	fm_jw_text(w, "change", changes[change]);
	fm_jw_name(w, "path", path, strlen(path));
	fm_jw_object_end(w);
}

void fm_outcomes_name(struct fm_outcomes *o, const struct fm_outcome *one, enum fmove_change change,
		      const char *path)
{
	char target[4 * FMOVE_PATH_MAX + 8], shown[4 * FMOVE_PATH_MAX + 8];
	bool is_root = strcmp(path, ".") == 0;

	if (o->is_json) {
		json_name(o, change, path);
	} else {
		fm_show(one->target, strlen(one->target), target, sizeof(target));
		fm_show(path, strlen(path), shown, sizeof(shown));
		(void)printf("%-8s %s%s%s\n", changes[change], target, is_root ? "" : "/",
			     is_root ? "" : shown);
	}
	o->has_names = true;
}

static void json_one(struct fm_outcomes *o, const struct fm_outcome *one)
{
	struct fm_json_writer *w = &o->json;

	if (o->has_names)
		fm_jw_array_end(w);
	else
		json_begin(w);
	fm_jw_name(w, "source", one->source, strlen(one->source));
	fm_jw_name(w, "target", one->target, strlen(one->target));
	fm_jw_u64(w, "exit", (uint64_t)fm_api_exit(one->err.code));
	if (one->job[0])
		fm_jw_text(w, "job", one->job);
	if (one->err.code < 0)
		json_error(w, one);
	else if (!one->is_handed_over)
		json_result(w, one);
	if (one->is_rotated && one->err.code == 0)
		fm_latest_json(w, &one->rotated);
	fm_jw_object_end(w);
	if (!o->is_many)
		(void)printf("\n");
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Whether an update found nothing to send, replace or remove. Then it published nothing. */
static bool is_unchanged(const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;

	return one->is_same ||
	       (one->is_update && r->added == 0 && r->replaced == 0 && r->removed == 0);
}

/*
 * How many files exist only at the target, and were kept; "" if none. Follows a list. Returns out.
 */
static const char *show_kept(const struct fmove_result *r, char *out, size_t cap)
{
	char kept[FM_SHOW_MAX];

	out[0] = '\0';
	if (r->kept > 0)
		(void)snprintf(out, cap, ", %s only there kept", fm_show_count(r->kept, kept));
	return out;
}

/* How the target differs from what was there; "" if nothing was. Returns out. */
static const char *show_difference(const struct fm_outcome *one, char *out, size_t cap)
{
	const struct fmove_result *r = &one->result;
	char added[FM_SHOW_MAX], replaced[FM_SHOW_MAX], removed[FM_SHOW_MAX], kept[64];

	out[0] = '\0';
	if (one->is_update || r->replaced > 0 || r->removed > 0)
		(void)snprintf(out, cap, "; %s added, %s replaced, %s removed%s",
			       fm_show_count(r->added, added), fm_show_count(r->replaced, replaced),
			       fm_show_count(r->removed, removed),
			       show_kept(r, kept, sizeof(kept)));
	return out;
}

static void say_dry(const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;
	char difference[200];
	char wanted[FM_SHOW_MAX], files[FM_SHOW_MAX], wanted_bytes[FM_SHOW_MAX], bytes[FM_SHOW_MAX];

	fm_say("%s -> %s: would send %s of %s file%s, %s of %s%s", one->source, one->target,
	       fm_show_count(r->wanted_files, wanted), fm_show_count(r->files, files),
	       plural(r->files), fm_show_bytes(r->wanted_bytes, wanted_bytes),
	       fm_show_bytes(r->bytes, bytes),
	       show_difference(one, difference, sizeof(difference)));
}

/*
 * The transport and its encryption: "tcp with TLS", "plain tcp". RDMA is never encrypted, so
 * nothing is said of it.
 */
static const char *show_transport(const struct fmove_result *r, char *out, size_t cap)
{
	static const struct {
		const char *encryption, *before, *behind;
	} words[] = {
		{ "tls", "", " with TLS" },
		{ "ktls", "", " with TLS in the kernel" },
		{ "tls+plain", "", " partly with TLS" },
		{ "plain", "plain ", "" },
	};

	(void)snprintf(out, cap, "%s", r->transport);
	for (size_t i = 0;
	     i < sizeof(words) / sizeof(words[0]) && strcmp(r->transport, "rdma") != 0; i++)
		if (strcmp(words[i].encryption, r->encryption) == 0)
			(void)snprintf(out, cap, "%s%s%s", words[i].before, r->transport,
				       words[i].behind);
	return out;
}

char *fm_outcome_transport(const struct fmove_result *r, char out[static FM_OUTCOME_TRANSPORT_MAX])
{
	char transport[48];
	char rdma[FM_SHOW_MAX], tcp[FM_SHOW_MAX], each[3 * FM_SHOW_MAX] = "";

	if (r->rdma_bytes > 0 && r->tcp_bytes > 0)
		(void)snprintf(each, sizeof(each), "%s over RDMA, %s over TCP%s",
			       fm_show_bytes(r->rdma_bytes, rdma), fm_show_bytes(r->tcp_bytes, tcp),
			       r->why[0] ? "; " : "");
	if (each[0] || r->why[0])
		(void)snprintf(out, FM_OUTCOME_TRANSPORT_MAX, "%s (%s%s)",
			       show_transport(r, transport, sizeof(transport)), each, r->why);
	else
		(void)snprintf(out, FM_OUTCOME_TRANSPORT_MAX, "%s",
			       show_transport(r, transport, sizeof(transport)));
	return out;
}

/* What of a tree was not sent, and why. */
static void show_spared(const struct fmove_result *r, char *out, size_t cap)
{
	char n[FM_SHOW_MAX], bytes[FM_SHOW_MAX];
	int len = 0;

	out[0] = '\0';
	if (r->reused_files > 0)
		len = snprintf(out, cap, "; %s unchanged (%s)", fm_show_count(r->reused_files, n),
			       r->is_reflinked ? "reflinks" : "hard links");
	if (r->resumed_files > 0 || r->resumed_bytes > 0)
		(void)snprintf(out + len, cap - (size_t)len, "; %s there from an earlier try",
			       fm_show_bytes(r->resumed_bytes, bytes));
}

/* Where the version that was replaced is now; "" if there was none. Returns out. */
static const char *show_former(const struct fm_outcome *one, char *out, size_t cap)
{
	const struct fmove_result *r = &one->result;
	int beside = (int)(fm_name_last(one->target) - one->target);
	time_t seconds = (time_t)(r->former_until_ns / (int64_t)FM_NS_PER_S);
	char until[16] = "";
	struct tm tm;

	out[0] = '\0';
	if (!r->former[0])
		return out;
	if (localtime_r(&seconds, &tm))
		(void)strftime(until, sizeof(until), "%H:%M", &tm);	/* fits */
	(void)snprintf(out, cap, "; what was there is %.*s%s until %s at least", beside,
		       one->target, r->former, until);
	return out;
}

/* How fast it was; or how much came, where the rest was there: of a little, a rate says nothing. */
static const char *show_pace(const struct fmove_result *r, char out[static 2 * FM_SHOW_MAX])
{
	char bytes[FM_SHOW_MAX];

	if (r->reused_files == 0)
		return fm_show_rate(1e9 * r->gb_per_s, out);
	(void)snprintf(out, 2 * FM_SHOW_MAX, "%s of it moved", fm_show_bytes(r->data_bytes, bytes));
	return out;
}

static void say_tree(const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;
	char former[FMOVE_PATH_MAX + sizeof(r->former) + 64];
	char files[FM_SHOW_MAX], bytes[FM_SHOW_MAX], pace[2 * FM_SHOW_MAX],
		transport[FM_OUTCOME_TRANSPORT_MAX], spared[160], difference[200];

	if (is_unchanged(one)) {
		fm_say("%s -> %s: unchanged, %s file%s, %s; nothing was published%s", one->source,
		       one->target, fm_show_count(r->files, files), plural(r->files),
		       fm_show_bytes(r->bytes, bytes),
		       show_kept(r, difference, sizeof(difference)));
		return;
	}
	show_spared(r, spared, sizeof(spared));
	fm_say("%s -> %s: %s file%s, %s in %.2f s, %s, %s%s, %s%s%s%s", one->source, one->target,
	       fm_show_count(r->files, files), plural(r->files), fm_show_bytes(r->bytes, bytes),
	       r->seconds, show_pace(r, pace), fm_outcome_transport(r, transport),
	       r->is_checked ? "" : " (not checked)",
	       r->is_durable ? "durable" : "not durable", spared,
	       show_difference(one, difference, sizeof(difference)),
	       show_former(one, former, sizeof(former)));
}

/* Shows ", resumed at 61 %", or nothing. */
static void show_resumed(const struct fmove_result *r, char *out, size_t cap)
{
	double part = r->data_bytes > 0 ? (double)r->resumed_bytes / (double)r->data_bytes : 0;

	out[0] = '\0';
	if (r->resumed_bytes > 0)
		(void)snprintf(out, cap, ", resumed at %.0f %%", 100 * part);
}

static void say_file(const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;
	char count[FM_SHOW_MAX], rate[FM_SHOW_MAX], transport[FM_OUTCOME_TRANSPORT_MAX],
		resumed[40], crc[40] = "";

	show_resumed(r, resumed, sizeof(resumed));
	if (r->has_crc32c)
		(void)snprintf(crc, sizeof(crc), "CRC32C %08" PRIx32 "%s, ", r->crc32c,
			       r->is_checked ? "" : " (not checked)");	/* fits */
	fm_say("%s -> %s: %s bytes in %.2f s, %s, %s%s, %s%s", one->source, one->target,
	       fm_show_count(r->bytes, count), r->seconds, fm_show_rate(1e9 * r->gb_per_s, rate),
	       fm_outcome_transport(r, transport), resumed, crc,
	       r->is_durable ? "durable" : "not durable");
}

/*
 * Reports a success. With many sources, the reason for the transport is said only when it changes.
 */
static void say_result(struct fm_outcomes *o, const struct fm_outcome *one)
{
	struct fm_outcome told = *one;

	if (strcmp(o->why, one->result.why) == 0)
		told.result.why[0] = '\0';
	else
		memcpy(o->why, one->result.why, sizeof(o->why));
	if (told.result.is_tree)
		say_tree(&told);
	else
		say_file(&told);
}

static void say_done(struct fm_outcomes *o, const struct fm_outcome *one)
{
	const struct fmove_result *r = &one->result;
	char damaged[FM_SHOW_MAX];

	if (one->is_dry)
		say_dry(one);
	else
		say_result(o, one);
	if (r->damaged_bytes > 0)
		fm_say("%s: %s of what an earlier try left was damaged since, and came again",
		       one->source, fm_show_bytes(r->damaged_bytes, damaged));
	if (r->corrupt_chunks > 0)
		fm_say("%s: %u chunk%s arrived corrupt and came again", one->source,
		       r->corrupt_chunks, r->corrupt_chunks == 1 ? "" : "s");
	if (r->note[0])
		fm_say("%s: %s", one->source, r->note);
	if (r->leaving_links > 0)
		fm_links_say(one->source, r->leaving_links, strcmp(o->verb, "get") == 0);
}

/* Reports a failure in one line, which ends with what to do next. */
static int say_failed(const struct fm_outcomes *o, const struct fm_outcome *one)
{
	static const char kept[] = "; what came is kept: run the same command again to go on";
	struct fm_err err = one->err;
	size_t len = strlen(err.text);

	if (one->is_kept && len + sizeof(kept) <= sizeof(err.text))
		memcpy(err.text + len, kept, sizeof(kept));
	return one->is_told ? fm_fail_told(err.code, "%s: %s", o->verb, err.text)
			    : fm_fail(o->verb, &err);
}

void fm_outcomes_add(struct fm_outcomes *o, const struct fm_outcome *one)
{
	if (o->is_json)
		json_one(o, one);
	o->has_names = false;
	if (one->err.code < 0) {
		if (o->failed++ == 0)
			o->first_exit = (int)fm_api_exit(one->err.code);
		if (!one->is_aside)
			(void)say_failed(o, one);
		o->is_cancelled |= one->err.code == -ECANCELED;
	} else {
		o->done++;
		o->bytes += one->result.bytes;
		if (one->is_handed_over && !o->is_json)
			(void)printf("%s\n", one->job);	/* fm_stdout_end() looks for errors */
		else if (!one->is_handed_over && !o->is_quiet)
			say_done(o, one);
		if (one->is_rotated && !o->is_quiet)
			fm_latest_say(o->verb, &one->rotated);
	}
}

static int exit_of(const struct fm_outcomes *o)
{
	/* of --timeout the status is 4, though one job of several was cancelled before */
	if (o->is_cancelled && (!o->is_late || fm_is_interrupted()))
		return FM_EXIT_CANCELLED;
	if (o->failed == 0)
		return FM_EXIT_DONE;
	if (o->is_late)
		return FM_EXIT_UNREACHABLE;
	return o->done > 0 ? FM_EXIT_PARTLY : o->first_exit;
}

int fm_outcomes_end(struct fm_outcomes *o)
{
	double seconds = (double)(fm_clock_real.now_ns(fm_clock_real.ctx) - o->start_ns) /
			 (double)FM_NS_PER_S;
	struct fm_json_writer *w = &o->json;

	if (o->is_json && o->is_many) {
		fm_jw_array_end(w);
		fm_jw_u64(w, "done", o->done);
		fm_jw_u64(w, "failed", o->failed);
		fm_jw_u64(w, "bytes", o->bytes);
		fm_jw_real(w, "seconds", seconds);
		fm_jw_real(w, "gb_per_s", seconds > 0 ? (double)o->bytes / 1e9 / seconds : 0);
		fm_jw_u64(w, "exit", (uint64_t)exit_of(o));
		fm_jw_object_end(w);
		(void)printf("\n");
	}
	return fm_stdout_end(o->verb, exit_of(o));
}
