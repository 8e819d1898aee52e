/* SPDX-License-Identifier: MIT */
/* group_record - see group_record.h. */
#include "mover/store/group_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/plain.h"
#include "mover/store/path.h"
#include "mover/store/sys.h"
#include "mover/tree/tsys.h"

#define VERSION 2
#define VERSION_UNCHECKED 1	/* without the checksum */
#define TAIL_LEN (sizeof("\n01234567\n") - 1)
#define HEX "0123456789abcdef"

void fm_group_digest(const uint8_t id[static FM_GROUP_ID_LEN],
		     char out[static FM_GROUP_DIGEST_LEN + 1])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	/* It needs no memory of its own; what a failure leaves equals no digest. */
	if (EVP_Digest(id, FM_GROUP_ID_LEN, hash, &len, EVP_sha256(), NULL) != 1)
		len = 0;
	out[0] = '\0';
	for (unsigned i = 0; i < len && i < FM_GROUP_DIGEST_LEN / 2; i++)
		(void)snprintf(out + 2 * (size_t)i, 3, "%02x", hash[i]);
}

/* ---- the text ---- */

/*
 * Behind the JSON, on a line of its own, is its CRC32C: a damaged inode would say that an open
 * group was committed.
 */
static void make_tail(const char *json, size_t len, char out[static TAIL_LEN + 1])
{
	(void)snprintf(out, TAIL_LEN + 1, "\n%08" PRIx32 "\n", fm_crc32c(0, json, len));
}

static bool has_tail(const char *text, size_t len)
{
	char tail[TAIL_LEN + 1];

	if (len < TAIL_LEN)
		return false;
	make_tail(text, len - TAIL_LEN, tail);
	return memcmp(text + len - TAIL_LEN, tail, TAIL_LEN) == 0;
}

static int take_text(const struct fm_json *json, const char *key, size_t max, char *out,
		     size_t *len)
{
	return fm_json_name(fm_json_get(json, key), out, max + 1, len);
}

/* It stands in errors and in the log as it is. */
static bool is_plain(const char *text, size_t len)
{
	size_t step = 1;

	for (const char *end = text + len; text < end && step > 0; text += step)
		step = fm_plain_len(text, (size_t)(end - text));
	return step > 0;
}

static int take_names(const struct fm_json *json, struct fm_group_record *r)
{
	size_t len;

	if (take_text(json, "digest", FM_GROUP_DIGEST_LEN, r->digest, &len) < 0 ||
	    len != FM_GROUP_DIGEST_LEN || strspn(r->digest, HEX) != len)
		return -EINVAL;
	if (take_text(json, "name", FM_NAME_LEN_MAX, r->name, &len) < 0 || len == 0 ||
	    strchr(r->name, '/') || fm_path_check(r->name, NULL) < 0)
		return -EINVAL;
	if (take_text(json, "peer", FM_GROUP_PEER_MAX, r->peer, &len) < 0 ||
	    strchr(r->peer, '/') || !is_plain(r->peer, len))
		return -EINVAL;
	return take_text(json, "expect", FM_GROUP_EXPECT_MAX, r->expect, &r->expect_len);
}

static int take_numbers(const struct fm_json *json, uint64_t version_expected,
			struct fm_group_record *r)
{
	uint64_t version, uid, members;
	int64_t origin;

	if (fm_json_u64(fm_json_get(json, "version"), &version) < 0 || version != version_expected)
		return -EINVAL;
	if (fm_json_u64(fm_json_get(json, "uid"), &uid) < 0 || uid > UINT32_MAX ||
	    fm_json_u64(fm_json_get(json, "members"), &members) < 0 || members > UINT32_MAX)
		return -EINVAL;
	r->uid = (uint32_t)uid;
	r->members = (uint32_t)members;
	if (fm_json_u64(fm_json_get(json, "dir_ino"), &r->dir_ino) < 0 ||
	    fm_json_u64(fm_json_get(json, "ino"), &r->ino) < 0 ||
	    fm_json_i64(fm_json_get(json, "begun_ns"), &r->begun_ns) < 0 ||
	    fm_json_i64(fm_json_get(json, "expires_ns"), &r->expires_ns) < 0)
		return -EINVAL;
	if (r->begun_ns < 0 || r->expires_ns < 0)
		return -EINVAL;
	if (fm_json_i64(fm_json_get(json, "origin"), &origin) < 0)
		origin = 0;
	r->origin = (uint64_t)origin;
	if (fm_json_bool(fm_json_get(json, "notes"), &r->has_notes) < 0)
		r->has_notes = false;
	return fm_json_bool(fm_json_get(json, "replace"), &r->may_replace);
}

int fm_group_record_parse(const char *text, size_t len, struct fm_group_record *out,
			  struct fm_err *err)
{
	bool is_checked = has_tail(text, len);
	struct fm_json *json;
	int ret = fm_json_parse(text, is_checked ? len - TAIL_LEN : len, &json, err);

	if (ret == -ENOMEM)
		return ret;
	if (ret < 0)
		return fm_err_set(err, -EBADMSG,
				  "the record of the group is damaged, or no JSON");
	ret = take_names(json, out);
	if (ret == 0)
		ret = take_numbers(json, is_checked ? VERSION : VERSION_UNCHECKED, out);
	fm_json_free(json);
	return ret < 0 ? fm_err_set(err, -EBADMSG, "the record of the group is not understood") : 0;
}

int fm_group_record_print(const struct fm_group_record *r, char *buf, size_t cap)
{
	char tail[TAIL_LEN + 1];
	struct fm_json_writer w;
	int len;

	fm_jw_begin(&w, buf, cap);
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "version", VERSION);
	fm_jw_text(&w, "digest", r->digest);
	fm_jw_name(&w, "name", r->name, strlen(r->name));
	fm_jw_text(&w, "peer", r->peer);
	fm_jw_u64(&w, "uid", r->uid);
	fm_jw_u64(&w, "dir_ino", r->dir_ino);
	fm_jw_u64(&w, "ino", r->ino);
	fm_jw_i64(&w, "origin", (int64_t)r->origin);
	fm_jw_i64(&w, "begun_ns", r->begun_ns);
	fm_jw_i64(&w, "expires_ns", r->expires_ns);
	fm_jw_bool(&w, "replace", r->may_replace);
	fm_jw_bool(&w, "notes", r->has_notes);
	fm_jw_u64(&w, "members", r->members);
	fm_jw_name(&w, "expect", r->expect, r->expect_len);
	fm_jw_object_end(&w);
	len = fm_jw_end(&w);
	if (len < 0 || (size_t)len + TAIL_LEN >= cap)
		return -EMSGSIZE;
	make_tail(buf, (size_t)len, tail);
	memcpy(buf + len, tail, sizeof(tail));
	return len + (int)TAIL_LEN;
}

/* ---- the file ---- */

static int read_all(int dir, char *text, size_t *len)
{
	int fd = fm_tsys_open(dir, FM_GROUP_RECORD_NAME, O_RDONLY | O_NONBLOCK, 0);
	ssize_t got = 1;

	if (fd < 0)
		return fd == -ELOOP ? -EBADMSG : fd;	/* none of ours is a link ... */
	for (*len = 0; got > 0 && *len <= FM_GROUP_RECORD_MAX; *len += got > 0 ? (size_t)got : 0)
		got = read(fd, text + *len, FM_GROUP_RECORD_MAX + 1 - *len);
	got = got < 0 ? -errno : got;
	close(fd);
	if (got == -EISDIR)	/* ... or a directory */
		return -EBADMSG;
	return got < 0 ? -EIO : *len > FM_GROUP_RECORD_MAX ? -EBADMSG : 0;
}

int fm_group_record_read(int dir, struct fm_group_record *out, struct fm_err *err)
{
	char *text = fm_sys_alloc(FM_GROUP_RECORD_MAX + 1);
	size_t len = 0;
	int ret = text ? read_all(dir, text, &len) : -ENOMEM;

	if (ret == 0)
		ret = fm_group_record_parse(text, len, out, err);
	else
		ret = fm_err_sys(err, ret == -ENOENT ? -EBADMSG : ret,
				 "read the record of the group");
	free(text);
	return ret;
}

int fm_group_record_write(int dir, const struct fm_group_record *record, bool is_synced)
{
	char *text = fm_sys_alloc(FM_GROUP_RECORD_MAX);
	int len = text ? fm_group_record_print(record, text, FM_GROUP_RECORD_MAX) : -ENOMEM,
	    fd = len, ret;

	if (len >= 0)
		fd = fm_tsys_open(dir, FM_GROUP_RECORD_NAME, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ret = fd < 0 ? fd : fm_tsys_write_all(fd, text, (size_t)len, 0);
	if (ret == 0 && is_synced)
		ret = fm_sys_fsync(fd);
	if (fd >= 0 && close(fd) < 0 && ret == 0)
		ret = -errno;
	free(text);
	return ret;
}
