/* SPDX-License-Identifier: MIT */
/*
 * mount_options - see mount_options.h. A table says what each word means to the kernel, and which
 * words are refused (bind, remount, loop). libmount is not used: the table of refused words would
 * stay, and the options come from root's configuration, not from a stranger.
 */
#include "nvmetcp/mount_options.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>

#include "mover/base/err.h"

enum kind {
	SET,
	CLEAR,
	IGNORED,
	REFUSED,	/* it would make another kind of mount of this */
};

static const struct mount_option {
	const char *name;
	enum kind kind;
	unsigned long flag;
} words[] = {
	{ "ro", SET, MS_RDONLY },	{ "rw", CLEAR, MS_RDONLY },
	{ "nosuid", SET, MS_NOSUID },	{ "suid", CLEAR, MS_NOSUID },
	{ "nodev", SET, MS_NODEV },	{ "dev", CLEAR, MS_NODEV },
	{ "noexec", SET, MS_NOEXEC },	{ "exec", CLEAR, MS_NOEXEC },
	{ "sync", SET, MS_SYNCHRONOUS }, { "async", CLEAR, MS_SYNCHRONOUS },
	{ "dirsync", SET, MS_DIRSYNC },	{ "noatime", SET, MS_NOATIME },
	{ "atime", CLEAR, MS_NOATIME },	{ "nodiratime", SET, MS_NODIRATIME },
	{ "diratime", CLEAR, MS_NODIRATIME }, { "relatime", SET, MS_RELATIME },
	{ "norelatime", CLEAR, MS_RELATIME }, { "strictatime", SET, MS_STRICTATIME },
	{ "nostrictatime", CLEAR, MS_STRICTATIME }, { "lazytime", SET, MS_LAZYTIME },
	{ "nolazytime", CLEAR, MS_LAZYTIME }, { "silent", SET, MS_SILENT },
	{ "loud", CLEAR, MS_SILENT },
	{ "defaults", IGNORED, 0 },	{ "_netdev", IGNORED, 0 },
	{ "nofail", IGNORED, 0 },	{ "auto", IGNORED, 0 },
	{ "noauto", IGNORED, 0 },	{ "nouser", IGNORED, 0 },
	{ "user", REFUSED, 0 },		{ "users", REFUSED, 0 },
	{ "owner", REFUSED, 0 },	{ "group", REFUSED, 0 },
	{ "remount", REFUSED, 0 },	{ "bind", REFUSED, 0 },
	{ "rbind", REFUSED, 0 },	{ "move", REFUSED, 0 },
	{ "loop", REFUSED, 0 },
};

static bool is_word(const char *at, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(at, name, len) == 0;
}

static bool has_prefix(const char *at, size_t len, const char *prefix)
{
	return len >= strlen(prefix) && memcmp(at, prefix, strlen(prefix)) == 0;
}

static int check_word(const char *at, size_t len, struct fm_err *err)
{
	if (len == 0)
		return fm_err_set(err, -EINVAL, "an empty word among the mount options");
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
			return fm_err_set(err, -EINVAL,
					  "a control character among the mount options");
	if (has_prefix(at, len, "loop=") || has_prefix(at, len, "offset=") ||
	    has_prefix(at, len, "sizelimit="))
		return fm_err_set(err, -EINVAL, "mount option \"%.*s\" is not for a volume",
				  (int)(len < 64 ? len : 64), at);
	return 0;
}

static int add_data(struct fm_mount_options *out, const char *at, size_t len, struct fm_err *err)
{
	size_t used = strlen(out->data);

	if (used + 1 + len >= sizeof(out->data))
		return fm_err_set(err, -E2BIG, "the mount options are longer than %d bytes",
				  FM_MOUNT_DATA_MAX - 1);
	if (used > 0)
		out->data[used++] = ',';
	memcpy(out->data + used, at, len);
	out->data[used + len] = '\0';
	return 0;
}

static int take_word(const char *at, size_t len, struct fm_mount_options *out, struct fm_err *err)
{
	int ret = check_word(at, len, err);

	if (ret < 0 || has_prefix(at, len, "x-") || has_prefix(at, len, "X-") ||
	    has_prefix(at, len, "comment="))
		return ret;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!is_word(at, len, words[i].name))
			continue;
		if (words[i].kind == REFUSED)
			return fm_err_set(err, -EINVAL, "mount option \"%s\" is not for a volume",
					  words[i].name);
		if (words[i].kind == SET)
			out->flags |= words[i].flag;
		else if (words[i].kind == CLEAR)
			out->flags &= ~words[i].flag;
		return 0;
	}
	return add_data(out, at, len, err);
}

int fm_mount_options_parse(const char *text, struct fm_mount_options *out, struct fm_err *err)
{
	int ret = 0;

	assert(text && out);
	*out = (struct fm_mount_options){ 0 };
	while (*text && ret == 0) {
		size_t len = strcspn(text, ",");

		ret = take_word(text, len, out, err);
		text += len;
		/* A comma has a word behind it. */
		if (ret == 0 && *text == ',' && !*++text)
			ret = check_word(text, 0, err);
	}
	return ret;
}
