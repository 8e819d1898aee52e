/* SPDX-License-Identifier: MIT */
/*
 * rotation_record - see rotation_record.h.
 *
 *   fmove rotation 2\n  LINK\0  for each  <16 hex inode> <16 hex origin> NAME\0
 *   and at last  <8 hex CRC32C of all before>\0
 *
 * Names end with a NUL, since any other byte may be in one. Version 1, without the checksum, is
 * read.
 */
#include "mover/store/rotation_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/component.h"
#include "mover/base/crc32c.h"
#include "mover/store/made_dir.h"
#include "mover/store/path.h"
#include "mover/store/sys.h"
#include "mover/tree/tsys.h"

#define HEAD "fmove rotation 2\n"
#define HEAD_UNCHECKED "fmove rotation 1\n"
#define HEAD_LEN (sizeof(HEAD) - 1)
#define TAIL_LEN sizeof("01234567")
#define HEX "0123456789abcdef"
#define HEX_LEN 16u
#define IDENTITY_LEN (2 * (HEX_LEN + 1))	/* of an entry, before its name */
_Static_assert(FM_ROTATION_RECORD_MAX >= HEAD_LEN + FM_NAME_LEN_MAX + 1 +
					       FM_ROTATION_ENTRIES_MAX *
						       (IDENTITY_LEN + FM_NAME_LEN_MAX + 1) +
					       TAIL_LEN,
	       "the longest record fits");
#define NAME_LEN (sizeof(".fmove.") - 1 + HEX_LEN + sizeof(".rotation") - 1)

static void name_of(const char *link, char out[static NAME_LEN + 1])
{
	(void)snprintf(out, NAME_LEN + 1, FM_PATH_RESERVED "%016" PRIx64 ".rotation",
		       fm_partial_hash(link));
}

/* ---- its text ---- */

/* Takes a name and the NUL behind it. The length of both, or 0: it is none. */
static size_t take_name(const char *text, size_t len, char out[static FM_NAME_LEN_MAX + 1])
{
	size_t name_len = strnlen(text, len);

	if (name_len == len || name_len > FM_NAME_LEN_MAX || !fm_is_component(text) ||
	    fm_path_is_reserved(text))
		return 0;
	memcpy(out, text, name_len + 1);
	return name_len + 1;
}

static size_t take_entry(const char *text, size_t len, struct fm_rotation_entry *e)
{
	char hex[HEX_LEN + 1] = "";
	size_t name_len;

	if (len < IDENTITY_LEN || strspn(text, HEX) != HEX_LEN || text[HEX_LEN] != ' ' ||
	    strspn(text + HEX_LEN + 1, HEX) != HEX_LEN || text[IDENTITY_LEN - 1] != ' ')
		return 0;
	e->ino = strtoull(memcpy(hex, text, HEX_LEN), NULL, 16);
	e->origin = strtoull(memcpy(hex, text + HEX_LEN + 1, HEX_LEN), NULL, 16);
	name_len = take_name(text + IDENTITY_LEN, len - IDENTITY_LEN, e->name);
	return name_len > 0 ? IDENTITY_LEN + name_len : 0;
}

static void make_tail(const char *text, size_t len, char out[static TAIL_LEN])
{
	(void)snprintf(out, TAIL_LEN, "%08" PRIx32, fm_crc32c(0, text, len));
}

/* The length of what is before the checksum, if that is right; 0: it is none. */
static size_t check(const char *text, size_t len)
{
	char tail[TAIL_LEN];

	if (len > HEAD_LEN && memcmp(text, HEAD_UNCHECKED, HEAD_LEN) == 0)
		return len;
	if (len <= HEAD_LEN + TAIL_LEN || memcmp(text, HEAD, HEAD_LEN) != 0)
		return 0;
	len -= TAIL_LEN;
	make_tail(text, len, tail);
	return memcmp(text + len, tail, TAIL_LEN) == 0 ? len : 0;
}

int fm_rotation_record_parse(const char *text, size_t size, struct fm_rotation_record *out)
{
	size_t at = HEAD_LEN, more, len = check(text, size);

	out->count = 0;
	/* with the last byte a NUL, every search for the end of something ends */
	if (len == 0 || text[len - 1] != '\0')
		return -EBADMSG;
	more = take_name(text + at, len - at, out->link);
	if (more == 0)
		return -EBADMSG;
	for (at += more; at < len; at += more) {
		more = out->count < FM_ROTATION_ENTRIES_MAX
			       ? take_entry(text + at, len - at, &out->entry[out->count])
			       : 0;
		if (more == 0)
			return -EBADMSG;
		out->count++;
	}
	return 0;
}

size_t fm_rotation_record_print(const struct fm_rotation_record *r,
				char out[static FM_ROTATION_RECORD_MAX])
{
	size_t len = (size_t)snprintf(out, FM_ROTATION_RECORD_MAX, HEAD "%s", r->link) + 1;

	for (unsigned i = 0; i < r->count; i++) {
		const struct fm_rotation_entry *e = &r->entry[i];

		len += (size_t)snprintf(out + len, FM_ROTATION_RECORD_MAX - len,
					"%016" PRIx64 " %016" PRIx64 " %s", e->ino,
					e->origin, e->name) + 1;
	}
	make_tail(out, len, out + len);
	return len + TAIL_LEN;
}

/* ---- the file ---- */

/* Whether only we can have written it. */
static bool is_ours(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 022) == 0 &&
	       st->st_size >= 0 && (size_t)st->st_size <= FM_ROTATION_RECORD_MAX;
}

/* Its bytes, malloc()ed. -ENOENT: there is none that counts. */
static int64_t read_text(int dir, const char *link, char **out)
{
	char name[NAME_LEN + 1];
	struct stat st;
	int64_t ret;
	int fd;

	name_of(link, name);
	fd = fm_tsys_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -ELOOP ? -ENOENT : fd;
	ret = fm_sys_fstat(fd, &st);
	if (ret == 0 && !is_ours(&st))
		ret = -ENOENT;
	*out = ret == 0 ? fm_sys_alloc((size_t)st.st_size + 1) : NULL;
	if (*out)
		ret = fm_call_read_all(fd, *out, (size_t)st.st_size, 0);
	else if (ret == 0)
		ret = -ENOMEM;
	if (ret < 0)
		free(*out);
	close(fd);
	return ret;
}

int fm_rotation_record_read(int dir, const char *link, struct fm_rotation_record *out)
{
	char *text;
	int64_t len = read_text(dir, link, &text);

	if (len >= 0) {
		if (fm_rotation_record_parse(text, (size_t)len, out) < 0)
			len = -EBADMSG;
		else if (strcmp(out->link, link) != 0)
			len = -ENOENT;
		free(text);
	}
	if (len < 0)
		out->count = 0;
	(void)snprintf(out->link, sizeof(out->link), "%s", link);
	return len < 0 && len != -ENOENT ? (int)len : 0;
}

static int write_made(int private, const struct fm_rotation_record *record)
{
	char *text = fm_sys_alloc(FM_ROTATION_RECORD_MAX);
	int fd = -ENOMEM, ret;

	if (text)
		fd = fm_tsys_open(private, FM_MADE_RECORD, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ret = fd;
	if (fd >= 0)
		ret = fm_tsys_write_all(fd, text, fm_rotation_record_print(record, text), 0);
	if (ret == 0)
		ret = fm_sys_fsync(fd);
	if (fd >= 0 && close(fd) < 0 && ret == 0)
		ret = -errno;
	free(text);
	return ret;
}

int fm_rotation_record_write(int dir, const struct fm_rotation_record *record, bool is_synced)
{
	char temp[FM_STAGING_NAME_LEN + 1], name[NAME_LEN + 1];
	int private = fm_made_private(dir, temp), ret;

	if (private < 0)
		return private;
	name_of(record->link, name);
	ret = write_made(private, record);
	if (ret == 0)
		ret = fm_sys_rename(private, FM_MADE_RECORD, dir, name, 0);
	if (ret < 0)
		(void)unlinkat(private, FM_MADE_RECORD, 0);
	close(private);
	(void)unlinkat(dir, temp, AT_REMOVEDIR);	/* what stays is swept */
	return ret == 0 && is_synced ? fm_tsys_fsync(dir) : ret;
}

/* ---- what is in it ---- */

void fm_rotation_record_drop(struct fm_rotation_record *record, unsigned i)
{
	record->count--;
	memmove(&record->entry[i], &record->entry[i + 1],
		(record->count - i) * sizeof(record->entry[0]));
}

void fm_rotation_record_add(struct fm_rotation_record *record,
			    const struct fm_rotation_entry *entry)
{
	for (unsigned i = record->count; i-- > 0;)
		if (strcmp(record->entry[i].name, entry->name) == 0)
			fm_rotation_record_drop(record, i);
	if (record->count == FM_ROTATION_ENTRIES_MAX)
		fm_rotation_record_drop(record, 0);
	record->entry[record->count++] = *entry;
}
