/* SPDX-License-Identifier: MIT */
/* stage_source - see stage_source.h. */
#include "client/cli/stage_source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/ask.h"
#include "mover/base/err.h"

#define HUB "hf:"

bool fm_stage_is_repository(const char *text)
{
	return strncmp(text, HUB, strlen(HUB)) == 0;
}

static bool is_whole_store(const char *source)
{
	const char *colon = strchr(source, ':'), *slash = strchr(colon ? colon : source, '/');

	return !slash || !slash[1];
}

static int check_name(struct fm_stage_source *s, const struct fm_args *args, bool has_as)
{
	const char *text = args->operands[0];
	bool has_node = strchr(text, ':');
	struct fm_err err;

	if (text[0] == '.')
		return fm_usage(args,
				"%s: what is staged is named [NODE:]STORE/PATH, or by an absolute "
				"path in a store of this node",
				text);
	if (text[0] == '/')
		return FM_EXIT_DONE;
	if (has_node && fm_name_parse(text, &s->name, &err) < 0)
		return fm_usage(args, "%s", err.text);
	if (is_whole_store(text) && !has_as)
		return fm_usage(
			args,
			"%s names a whole store: name a directory in it, or the dataset with --as; "
			"\"fmove df%s%s\" lists the stores",
			text, has_node ? " " : "", has_node ? s->name.node : "");
	return FM_EXIT_DONE;
}

static int check_repository(struct fm_stage_source *s, const struct fm_args *args)
{
	struct fm_err err;

	s->repository = args->operands[0];
	if (fm_hub_name_parse(s->repository + strlen(HUB), &s->hub, &err) < 0)
		return fm_usage(args, "%s", err.text);
	return FM_EXIT_DONE;
}

int fm_stage_source_check(struct fm_stage_source *s, const struct fm_args *args, bool has_as)
{
	return fm_stage_is_repository(args->operands[0]) ? check_repository(s, args)
							 : check_name(s, args, has_as);
}

/* Names STORE/PATH of this node. */
static int name_here(struct fm_stage_source *s, struct fmove *c, const char *text, int *status)
{
	char node[FM_NAME_PART_MAX + 1], name[FM_ASK_NAME_TEXT_MAX];
	struct fmove_error why;
	struct fm_err err;
	int len;

	if (fmove_node(c, node, sizeof(node), &why) < 0) {
		*status = fm_ask_fail("stage", text, &why);
		return -1;
	}
	len = snprintf(name, sizeof(name), "%s:%s", node, text);
	if (len < 0 || (size_t)len >= sizeof(name))
		(void)fm_err_set(&err, -ENAMETOOLONG, "the path is too long");
	else if (fm_name_parse(name, &s->name, &err) == 0)
		return 0;
	*status = fm_fail("stage", &err);
	return -1;
}

/* Follows links with the caller's rights. Where these end, the rules of the store decide. */
static int resolve(const char *text, char out[static PATH_MAX], struct fm_err *err)
{
	if (realpath(text, out))
		return 0;
	if (errno != EACCES)
		return fm_err_sys(err, -errno, "%s", text);
	if (strlen(text) >= PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path is too long");
	(void)strcpy(out, text);
	return 0;
}

/* Names an absolute path by the store of this node that it is in. */
static int name_path(struct fm_stage_source *s, struct fmove *c, const char *text, int *status)
{
	struct fmove_place place = {.struct_size = sizeof(place)};
	struct fmove_error why;
	char path[PATH_MAX];
	struct fm_err err;

	if (resolve(text, path, &err) < 0) {
		*status = fm_fail("stage", &err);
		return -1;
	}
	if (fmove_locate(c, path, &place, &why) < 0) {
		*status = fm_ask_fail("stage", text, &why);
		return -1;
	}
	(void)snprintf(s->name.node, sizeof(s->name.node), "%.64s", place.node);
	(void)snprintf(s->name.store, sizeof(s->name.store), "%.64s", place.store);
	(void)snprintf(s->name.path, sizeof(s->name.path), "%s", place.path);
	return 0;
}

int fm_stage_source_find(struct fm_stage_source *s, struct fmove *c, const char *text, int *status)
{
	if (text[0] == '/')
		return name_path(s, c, text, status);
	return strchr(text, ':') ? 0 : name_here(s, c, text, status);
}

/* Where huggingface_hub looks, in its order. */
static bool find_own_cache(char *out, size_t cap)
{
	static const struct {
		const char *variable, *below;
	} places[] = {
		{"HF_HUB_CACHE", ""},
		{"HUGGINGFACE_HUB_CACHE", ""},
		{"HF_HOME", "/hub"},
		{"XDG_CACHE_HOME", "/huggingface/hub"},
		{"HOME", "/.cache/huggingface/hub"},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *at = getenv(places[i].variable);
		int len = at ? snprintf(out, cap, "%s%s", at, places[i].below) : 0;

		if (at && at[0])
			return len > 0 && (size_t)len < cap;
	}
	return false;
}

bool fm_stage_source_is_own(const struct fm_stage_source *s, char *out, size_t cap)
{
	static const char *const in[] = {"refs", "snapshots"};
	char path[PATH_MAX];

	if (!s->repository || !find_own_cache(out, cap))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		int len = snprintf(path, sizeof(path), "%s/%s/%s/%s", out, s->hub.dir, in[i],
				   s->hub.revision);

		if (len > 0 && (size_t)len < sizeof(path) && access(path, F_OK) == 0)
			return true;
	}
	return false;
}

const char *fm_stage_source_short(const struct fm_stage_source *s)
{
	return s->repository ? s->repository : s->name.path;
}

void fm_stage_source_text(const struct fm_stage_source *s, char *out, size_t cap)
{
	if (s->repository)
		(void)snprintf(out, cap, "%s", s->repository);
	else
		(void)fm_name_text(&s->name, out, cap);
}
