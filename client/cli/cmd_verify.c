/* SPDX-License-Identifier: MIT */
/*
 * cmd_verify - fmove verify NODE:STORE/PATH: what is stored there is read again, and compared with
 * what was kept when it came. What is wrong is printed as it is found.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/progress.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/text.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_QUIET };

const struct fm_opt fm_opts_verify[] = {
	{ "quiet", 'q', OPT_QUIET, NULL, "no progress and no line at the end", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

struct verifying {
	struct fm_rows rows;
	const char *name;
	bool is_json;
	bool is_quiet;
	uint64_t findings;
	uint64_t start_ns;
	struct fm_progress progress;
};

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* ---- what is found ---- */

static const char *const kinds[] = {[FMOVE_CORRUPT] = "corrupt", [FMOVE_UNREADABLE] = "unreadable",
				    [FMOVE_CHANGED] = "changed", [FMOVE_MISSING] = "missing",
				    [FMOVE_SWAPPED] = "swapped", [FMOVE_FINDING_OTHER] = "other"};

static void print_finding_json(struct verifying *v, const struct fmove_finding *f)
{
	struct fm_json_writer *w = fm_rows_next(&v->rows);

	fm_jw_text(w, "kind", kinds[f->kind]);
	fm_jw_name(w, "path", f->path, strlen(f->path));
	fm_jw_u64(w, "offset", f->offset);
	fm_jw_u64(w, "length", f->length);
	fm_jw_object_end(w);
}

/*
 * Prints a finding: "corrupt: run7/ckpt.pt at byte 8,388,608, somewhere in 4,194,304 bytes", or
 * "missing: run7/vocab.txt, 7,000 bytes".
 */
static void print_finding_text(const struct fmove_finding *f)
{
	char shown[4 * sizeof(f->path)], offset[FM_SHOW_MAX], length[FM_SHOW_MAX];

	fm_show(f->path, strlen(f->path), shown, sizeof(shown));
	(void)printf("%s: %s", kinds[f->kind], shown);
	if (f->kind != FMOVE_MISSING)
		(void)printf(" at byte %s", fm_show_count(f->offset, offset));
	if (f->length > 0)
		(void)printf(", %s%s bytes",
			     f->kind == FMOVE_CORRUPT || f->kind == FMOVE_CHANGED ? "somewhere in "
										  : "",
			     fm_show_count(f->length, length));
	(void)printf("\n");
	(void)fflush(stdout);		/* fm_stdout_end() looks for errors */
}

static void print_finding(void *ctx, const struct fmove_finding *f)
{
	struct verifying *v = ctx;

	fm_progress_end(&v->progress);
	if (v->is_json)
		print_finding_json(v, f);
	else
		print_finding_text(f);
	v->findings++;
}

static void show_progress(void *ctx, const struct fmove_verified *so_far)
{
	struct verifying *v = ctx;
	struct fmove_progress p = {.state = "reading",
				   .size = UINT64_MAX,
				   .bytes = so_far->bytes,
				   .files = so_far->files};

	fm_progress_show(&v->progress, &p);
}

/* ---- the end ---- */

static uint64_t compared_of(const struct fmove_verified *r)
{
	return r->files - r->without;
}

/* Shows what could not be compared, or only by itself: "; 2 without digest"; "" if nothing. */
static void show_rest(const struct fmove_verified *r, char *out, size_t cap)
{
	struct fm_text t = { .at = out, .left = cap };
	char n[FM_SHOW_MAX];

	out[0] = '\0';
	if (r->without > 0)
		fm_text_add(&t, "; %s without digest", fm_show_count(r->without, n));
	if (r->unlisted > 0)
		fm_text_add(&t, "; %s in no manifest, and what is missing beside %s is not known",
			    fm_show_count(r->unlisted, n), r->unlisted == 1 ? "it" : "them");
}

static bool has_findings(const struct fmove_verified *r)
{
	return r->corrupt > 0 || r->unreadable > 0 || r->changed > 0 || r->missing > 0 ||
	       r->swapped > 0 || r->other > 0;
}

/* Shows the findings: "2 corrupt, 1 missing". */
static void show_found(const struct fmove_verified *r, char *out, size_t cap)
{
	const uint64_t counts[] = {[FMOVE_CORRUPT] = r->corrupt, [FMOVE_UNREADABLE] = r->unreadable,
				   [FMOVE_CHANGED] = r->changed, [FMOVE_MISSING] = r->missing,
				   [FMOVE_SWAPPED] = r->swapped, [FMOVE_FINDING_OTHER] = r->other};
	char n[FM_SHOW_MAX];
	int len = 0;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (counts[i] > 0)
			len += snprintf(out + len, cap - (size_t)len, "%s%s %s",
					len > 0 ? ", " : "", fm_show_count(counts[i], n), kinds[i]);
}

/* The exit status. Having had nothing to compare with is no success. */
static int status_of(const struct fmove_verified *r)
{
	if (has_findings(r))
		return FM_EXIT_CORRUPT;
	return r->files > 0 && compared_of(r) == 0 ? FM_EXIT_FAILED : FM_EXIT_DONE;
}

static void say_end(const struct verifying *v, const struct fmove_verified *r)
{
	char files[FM_SHOW_MAX], bytes[FM_SHOW_MAX], rest[200],
		found[7 * FM_SHOW_MAX + 70] = "all as they came";
	double seconds = (double)(now_ns() - v->start_ns) / (double)FM_NS_PER_S;

	show_rest(r, rest, sizeof(rest));
	if (r->files > 0 && compared_of(r) == 0) {
		fm_say("verify: %s: nothing could be compared: of %s file%s%s; digests are kept "
		       "with what fmove brings, where the file "
		       "system has extended attributes",
		       v->name, fm_show_count(r->files, files), r->files == 1 ? "" : "s", rest);
		return;
	}
	if (has_findings(r))
		show_found(r, found, sizeof(found));
	fm_say("verify: %s: %s file%s, %s read again in %.1f s: %s%s", v->name,
	       fm_show_count(r->files, files), r->files == 1 ? "" : "s",
	       fm_show_bytes(r->bytes, bytes), seconds, found, rest);
}

static void json_end(struct verifying *v, const struct fmove_verified *r, int status)
{
	struct fm_json_writer *w = fm_rows_over(&v->rows);

	fm_jw_u64(w, "files", r->files);
	fm_jw_u64(w, "bytes", r->bytes);
	fm_jw_u64(w, "corrupt", r->corrupt);
	fm_jw_u64(w, "unreadable", r->unreadable);
	fm_jw_u64(w, "changed", r->changed);
	fm_jw_u64(w, "missing", r->missing);
	fm_jw_u64(w, "swapped", r->swapped);
	fm_jw_u64(w, "without", r->without);
	fm_jw_u64(w, "unlisted", r->unlisted);
	fm_jw_real(w, "seconds", (double)(now_ns() - v->start_ns) / (double)FM_NS_PER_S);
	fm_rows_end(&v->rows, status);
}

static int verify(struct fmove *c, const struct fm_name *name, struct verifying *v)
{
	const struct fmove_verify_options opts = {.struct_size = sizeof(opts),
						  .finding = print_finding,
						  .progress = show_progress,
						  .ctx = v,
						  .cancel_fd = fm_interrupt_fd()};
	struct fmove_name parts = fm_name_parts(name);
	struct fmove_verified result = { .struct_size = sizeof(result) };
	struct fmove_error why;
	int ret, status;

	if (v->is_json)
		fm_rows_begin(&v->rows, "findings");
	v->start_ns = now_ns();
	fm_progress_begin(&v->progress, v->name, v->is_quiet);
	ret = fmove_verify(c, &parts, &opts, &result, &why);
	fm_progress_end(&v->progress);
	if (ret < 0) {
		status = fm_ask_fail_literal("verify", v->name, &why);
	} else {
		status = status_of(&result);
		if (!v->is_quiet || status == FM_EXIT_FAILED)
			say_end(v, &result);
	}
	if (v->is_json)
		json_end(v, &result, status);
	return fm_stdout_end("verify", status);
}

int fm_cmd_verify(int argc, char **argv)
{
	struct verifying v = { .findings = 0 };
	struct fm_args args;
	struct fm_name name;
	struct fmove *c;
	struct fm_err err;
	int key, status;

	fm_args_begin(&args, "verify", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		v.is_json |= key == OPT_JSON;
		v.is_quiet |= key == OPT_QUIET;
	}
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	v.name = args.operands[0];
	if (fm_name_parse(v.name, &name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (fm_interrupt_start(&err) < 0)
		return fm_fail("verify", &err);
	if (fm_ask_open("verify", v.is_quiet, &c, &status) < 0)
		return status;
	status = verify(c, &name, &v);
	fmove_close(c);
	return status;
}
