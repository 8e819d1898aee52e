/* SPDX-License-Identifier: MIT */
/* hub_name - see hub_name.h. */
#include "mover/base/hub_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/show.h"

static const char *const kinds[] = { "models", "datasets", "spaces", NULL };

/* ---- parts ---- */

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* ORG or NAME: the hub's own rules, by which "--" and "/" can stand for each other. */
static bool is_part(const char *at, size_t len)
{
	if (len == 0 || len > FM_HUB_ID_MAX || strchr("-.", at[0]) || strchr("-.", at[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++) {
		bool is_twice = i > 0 && at[i] == at[i - 1];

		if (!is_alnum(at[i]) && at[i] != '_' &&
		    ((at[i] != '-' && at[i] != '.') || is_twice))
			return false;
	}
	return true;
}

/* Of a path that stays where it is; no control characters, which a terminal would obey. */
bool fm_hub_is_revision(const char *text)
{
	size_t len = strlen(text), part;

	if (len == 0 || len > FM_HUB_REVISION_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	for (const char *at = text;; at += part + 1) {
		part = strcspn(at, "/");
		if (part == 0 || at[0] == '.')
			return false;
		if (at[part] == '\0')
			return true;
	}
}

static size_t kind_len(const char *text, const char *divider)
{
	for (const char *const *k = kinds; *k; k++) {
		size_t len = strlen(*k);

		if (strncmp(text, *k, len) == 0 &&
		    strncmp(text + len, divider, strlen(divider)) == 0)
			return len;
	}
	return 0;
}

/* ORG, divider, NAME; or NAME alone. */
static bool is_id(const char *at, size_t len, const char *divider)
{
	size_t gap = strlen(divider);

	for (size_t i = 0; i + gap <= len; i++)
		if (memcmp(at + i, divider, gap) == 0)
			return len - gap + 1 <= FM_HUB_ID_MAX && is_part(at, i) &&
			       is_part(at + i + gap, len - i - gap);
	return is_part(at, len);
}

/* ---- names ---- */

static int refuse(const char *text, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -EINVAL,
			  "hf:%s: a repository is hf:ORG/NAME, hf:datasets/ORG/NAME or "
			  "hf:spaces/ORG/NAME, with @REVISION (a branch, a tag or a commit) or "
			  "without",
			  fm_path_show(text, &shown));
}

int fm_hub_name_parse(const char *text, struct fm_hub_name *out, struct fm_err *err)
{
	size_t kind = kind_len(text, "/"), len = strcspn(text, "@");
	const char *id = kind ? text + kind + 1 : text;
	const char *revision = text[len] ? text + len + 1 : "main";
	const char *slash;
	size_t id_len;

	if (id > text + len)
		return refuse(text, err);
	id_len = (size_t)(text + len - id);
	if (!is_id(id, id_len, "/") || !fm_hub_is_revision(revision))
		return refuse(text, err);
	slash = memchr(id, '/', id_len);
	(void)snprintf(out->dir, sizeof(out->dir), "%.*s--%.*s%s%.*s",
		       kind ? (int)kind : (int)strlen(kinds[0]), kind ? text : kinds[0],
		       slash ? (int)(slash - id) : (int)id_len, id, slash ? "--" : "",
		       slash ? (int)(text + len - slash - 1) : 0, slash ? slash + 1 : "");
	(void)snprintf(out->revision, sizeof(out->revision), "%s", revision);
	return 0;
}

int fm_hub_path_parse(const char *path, struct fm_hub_name *out)
{
	size_t kind = kind_len(path, "--"), len = strcspn(path, "@");

	if (!kind || path[len] != '@' || len < kind + 2 || len > FM_HUB_DIR_MAX ||
	    !is_id(path + kind + 2, len - kind - 2, "--") || !fm_hub_is_revision(path + len + 1))
		return -EINVAL;
	(void)snprintf(out->dir, sizeof(out->dir), "%.*s", (int)len, path);
	(void)snprintf(out->revision, sizeof(out->revision), "%s", path + len + 1);
	return 0;
}

/* ---- commits ---- */

bool fm_hub_is_commit(const char *text)
{
	return strspn(text, "0123456789abcdef") == FM_HUB_COMMIT_LEN &&
	       text[FM_HUB_COMMIT_LEN] == '\0';
}

bool fm_hub_can_be(const char *revision, const char *commit)
{
	return !fm_hub_is_commit(revision) || strcmp(revision, commit) == 0;
}

int fm_hub_ref_parse(const char *bytes, size_t len, char commit[FM_HUB_COMMIT_LEN + 1])
{
	while (len > 0 && strchr(" \t\r\n", bytes[0]) && bytes[0]) {
		bytes++;
		len--;
	}
	while (len > 0 && strchr(" \t\r\n", bytes[len - 1]) && bytes[len - 1])
		len--;
	if (len != FM_HUB_COMMIT_LEN)
		return -EBADMSG;
	memcpy(commit, bytes, len);
	commit[len] = '\0';
	return fm_hub_is_commit(commit) ? 0 : -EBADMSG;
}

/* ---- links ---- */

/* One component more, or one less for ".."; *len: of out. */
static int step(const char *at, size_t part, char *out, size_t *len, size_t max)
{
	bool is_up = part == 2 && at[0] == '.' && at[1] == '.';

	if (part == 0 || (part == 1 && at[0] == '.'))
		return 0;
	if (is_up && *len == 0)
		return -EXDEV;
	if (is_up) {
		while (*len > 0 && out[*len - 1] != '/')
			(*len)--;
		*len -= *len > 0;
		return 0;
	}
	if (*len + 1 + part >= max)
		return -ENAMETOOLONG;
	if (*len > 0)
		out[(*len)++] = '/';
	memcpy(out + *len, at, part);
	*len += part;
	return 0;
}

static int walk(const char *path, char *out, size_t *len, size_t max)
{
	int ret = 0;

	while (ret == 0 && *path) {
		size_t part = strcspn(path, "/");

		ret = step(path, part, out, len, max);
		path += part + (path[part] == '/');
	}
	return ret;
}

int fm_hub_link(const char *dir, const char *target, char *out, size_t max)
{
	size_t len = 0;
	int ret = target[0] == '/' || target[0] == '\0' ? -EXDEV : walk(dir, out, &len, max);

	if (ret == 0)
		ret = walk(target, out, &len, max);
	if (ret == 0 && len == 0)
		ret = -EXDEV;
	if (ret == 0)
		out[len] = '\0';
	return ret;
}
