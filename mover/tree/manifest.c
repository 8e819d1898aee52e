/* SPDX-License-Identifier: MIT */
/*
 * manifest - packs in a file, each with its CRC.
 */
#include "mover/tree/manifest.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/tree/staging_names.h"
#include "mover/tree/tree.h"
#include "mover/tree/tsys.h"

#define MAGIC "FMOVEMAN"
#define VERSION 1u
#define CRC_AT 12u
#define BLOCK_HEAD 8u
#define SUFFIX ".manifest"
/* a directory that is renamed while names are read may be missed once */
#define SCANS 2u

_Static_assert(FM_MANIFEST_PACK_MAX > FM_PACK_HEAD + FM_PACK_ENTRY_HEAD + 2 * FM_TREE_PATH_MAX + 16,
	       "the longest entry fits");

/* ---- which directory ---- */

static int key_of(const struct statx *stx, struct fm_manifest_key *out)
{
	if (!(stx->stx_mask & STATX_BTIME) || !(stx->stx_mask & STATX_INO))
		return -EOPNOTSUPP;
	*out = (struct fm_manifest_key){.ino = stx->stx_ino,
					.birth_ns = stx->stx_btime.tv_sec * INT64_C(1000000000) +
						    stx->stx_btime.tv_nsec};
	return 0;
}

int fm_manifest_key(int fd, struct fm_manifest_key *out)
{
	return fm_manifest_key_at(fd, "", out);
}

int fm_manifest_key_at(int dir, const char *name, struct fm_manifest_key *out)
{
	struct statx stx = { .stx_mask = 0 };

	if (FM_FAULT("manifest.statx"))
		return -EIO;
	if (statx(dir, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &stx) <
	    0)
		return -errno;
	return key_of(&stx, out);
}

static bool is_same_key(const struct fm_manifest_key *a, const struct fm_manifest_key *b)
{
	return a->ino == b->ino && a->birth_ns == b->birth_ns;
}

/* Two may get one name some day: the head tells them apart. */
void fm_manifest_name(const struct fm_manifest_key *key, char out[FM_MANIFEST_NAME_LEN + 1])
{
	uint64_t mixed = (key->ino * UINT64_C(0x9e3779b97f4a7c15)) ^
			 ((uint64_t)key->birth_ns * UINT64_C(0xc2b2ae3d27d4eb4f));

	snprintf(out, FM_MANIFEST_NAME_LEN + 1, FM_STAGING_PREFIX "%016llx" SUFFIX,
		 (unsigned long long)mixed);
}

bool fm_manifest_is_name(const char *name)
{
	size_t prefix = strlen(FM_STAGING_PREFIX);

	return strlen(name) == FM_MANIFEST_NAME_LEN &&
	       strncmp(name, FM_STAGING_PREFIX, prefix) == 0 &&
	       strspn(name + prefix, "0123456789abcdef") == 16 &&
	       strcmp(name + prefix + 16, SUFFIX) == 0;
}

/* ---- writing ---- */

static void begin_pack(struct fm_manifest *m)
{
	fm_pack_begin(&m->w, m->buf + BLOCK_HEAD, FM_MANIFEST_PACK_MAX, FM_PACK_OFFER);
}

int fm_manifest_begin(struct fm_manifest *m, int fd)
{
	*m = (struct fm_manifest){.fd = fd,
				  .bytes = FM_MANIFEST_HEAD,
				  .buf = fm_tsys_alloc(BLOCK_HEAD + FM_MANIFEST_PACK_MAX)};
	pthread_mutex_init(&m->lock, NULL);
	if (!m->buf) {
		fm_manifest_close(m);
		return -ENOMEM;
	}
	begin_pack(m);
	return 0;
}

void fm_manifest_close(struct fm_manifest *m)
{
	close(m->fd);
	fm_tsys_free(m->buf);
	pthread_mutex_destroy(&m->lock);
}

static int flush(struct fm_manifest *m)
{
	struct fm_writer head = { .at = m->buf, .end = m->buf + BLOCK_HEAD };
	size_t len = fm_pack_end(&m->w);
	int ret;

	if (len == 0)
		return 0;
	if (m->bytes + BLOCK_HEAD + len > FM_MANIFEST_BYTES_MAX || FM_FAULT("manifest.full"))
		return -EFBIG;
	fm_put_le32(&head, (uint32_t)len);
	fm_put_le32(&head, fm_crc32c(0, m->buf + BLOCK_HEAD, len));
	ret = fm_tsys_write_all(m->fd, m->buf, BLOCK_HEAD + len, m->bytes);
	if (ret < 0)
		return ret;
	m->bytes += BLOCK_HEAD + len;
	begin_pack(m);
	return 0;
}

int fm_manifest_add(struct fm_manifest *m, const struct fm_pack_entry *e)
{
	struct fm_pack_entry plain = {.type = e->type,
				      .path = e->path,
				      .path_len = e->path_len,
				      .target = e->target,
				      .target_len = e->target_len,
				      .mtime_ns = e->mtime_ns};
	int ret = 0;

	assert(e->type == FM_PACK_FILE || e->type == FM_PACK_HARD || e->type == FM_PACK_LINK);
	if (e->type == FM_PACK_FILE) {
		plain.size = e->size;
		plain.flags = e->flags & FM_PACK_HAS_CRC;
		plain.crc = plain.flags ? e->crc : 0;
	}
	pthread_mutex_lock(&m->lock);
	if (fm_pack_room(&m->w, plain.path_len, plain.target_len, 0) < 0)
		ret = flush(m);
	if (ret == 0) {
		(void)fm_pack_add(&m->w, &plain);
		m->entries++;
	}
	pthread_mutex_unlock(&m->lock);
	return ret;
}

static void put_head(uint8_t head[FM_MANIFEST_HEAD], const struct fm_manifest *m,
		     const struct fm_manifest_key *key, const char *name)
{
	struct fm_writer w = { .at = head, .end = head + FM_MANIFEST_HEAD };
	size_t len = strlen(name);

	memset(head, 0, FM_MANIFEST_HEAD);
	fm_put_bytes(&w, MAGIC, 8);
	fm_put_le32(&w, VERSION);
	fm_put_le32(&w, 0);
	fm_put_le64(&w, key->ino);
	fm_put_le64(&w, (uint64_t)key->birth_ns);
	fm_put_le64(&w, m->entries);
	fm_put_le64(&w, m->bytes);
	fm_put_le16(&w, (uint16_t)len);
	fm_put_bytes(&w, name, len);
	assert(!w.failed);
	w = (struct fm_writer){ .at = head + CRC_AT, .end = head + CRC_AT + 4 };
	fm_put_le32(&w, fm_crc32c(0, head, FM_MANIFEST_HEAD));	/* with zeros in its place */
}

int fm_manifest_end(struct fm_manifest *m, const struct fm_manifest_key *key, const char *name)
{
	uint8_t head[FM_MANIFEST_HEAD];
	int ret = flush(m);

	if (ret < 0)
		return ret;
	put_head(head, m, key, name);
	return fm_tsys_write_all(m->fd, head, sizeof(head), 0);
}

/* ---- reading ---- */

static int read_exactly(int fd, void *buf, size_t len, uint64_t offset)
{
	int64_t n = FM_FAULT("manifest.read") ? -EIO : fm_call_read_all(fd, buf, len, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n < len ? -EBADMSG : 0;
}

static int get_head(struct fm_manifest_reader *m, uint8_t head[FM_MANIFEST_HEAD])
{
	struct fm_reader r = { .at = head, .end = head + FM_MANIFEST_HEAD };
	uint8_t magic[8];
	uint32_t version, crc;
	size_t len;

	fm_get_bytes(&r, magic, sizeof(magic));
	version = fm_get_le32(&r);
	crc = fm_get_le32(&r);
	memset(head + CRC_AT, 0, 4);
	if (memcmp(magic, MAGIC, sizeof(magic)) != 0 || version != VERSION ||
	    crc != fm_crc32c(0, head, FM_MANIFEST_HEAD))
		return -EBADMSG;
	m->key.ino = fm_get_le64(&r);
	m->key.birth_ns = (int64_t)fm_get_le64(&r);
	m->entries = fm_get_le64(&r);
	m->bytes = fm_get_le64(&r);
	len = fm_get_le16(&r);
	if (len == 0 || len > FM_MANIFEST_FINAL_MAX || m->bytes < FM_MANIFEST_HEAD)
		return -EBADMSG;
	fm_get_bytes(&r, m->name, len);
	m->name[len] = '\0';
	return fm_pack_is_good_path(m->name, len) && !strchr(m->name, '/') ? 0 : -EBADMSG;
}

int fm_manifest_read(struct fm_manifest_reader *m, int fd)
{
	uint8_t head[FM_MANIFEST_HEAD];
	int ret;

	*m = (struct fm_manifest_reader){ .fd = fd, .at = FM_MANIFEST_HEAD };
	ret = read_exactly(fd, head, sizeof(head), 0);
	if (ret == 0)
		ret = get_head(m, head);
	if (ret == 0) {
		m->buf = fm_tsys_alloc(FM_MANIFEST_PACK_MAX);
		ret = m->buf ? 0 : -ENOMEM;
	}
	if (ret < 0)
		fm_manifest_free(m);
	return ret;
}

static int check_plain(int fd)
{
	struct stat st;
	int ret = fm_tsys_fstat(fd, &st);

	return ret < 0 ? ret : S_ISREG(st.st_mode) ? 0 : -EBADMSG;
}

int fm_manifest_open(struct fm_manifest_reader *m, int parent, const struct fm_manifest_key *key)
{
	char name[FM_MANIFEST_NAME_LEN + 1];
	int fd, ret;

	fm_manifest_name(key, name);
	fd = fm_tsys_open(parent, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd == -ELOOP || fd == -ENXIO ? -EBADMSG : fd;
	ret = check_plain(fd);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	ret = fm_manifest_read(m, fd);
	if (ret < 0 || is_same_key(&m->key, key))
		return ret;
	fm_manifest_free(m);
	return -EBADMSG;
}

static int next_block(struct fm_manifest_reader *m)
{
	uint8_t head[BLOCK_HEAD];
	struct fm_reader r = { .at = head, .end = head + BLOCK_HEAD };
	uint32_t len, crc;
	int ret = read_exactly(m->fd, head, sizeof(head), m->at);

	if (ret < 0)
		return ret;
	len = fm_get_le32(&r);
	crc = fm_get_le32(&r);
	if (len > FM_MANIFEST_PACK_MAX || m->bytes - m->at < BLOCK_HEAD + (uint64_t)len)
		return -EBADMSG;
	ret = read_exactly(m->fd, m->buf, len, m->at + BLOCK_HEAD);
	if (ret == 0 && fm_crc32c(0, m->buf, len) != crc)
		ret = -EBADMSG;
	if (ret == 0)
		ret = fm_pack_open(&m->r, m->buf, len);
	if (ret == 0 && !(m->r.flags & FM_PACK_OFFER))
		ret = -EBADMSG;
	m->at += BLOCK_HEAD + len;
	return ret;
}

int fm_manifest_next(struct fm_manifest_reader *m, struct fm_pack_entry *e)
{
	int ret = m->r.left > 0 || m->at >= m->bytes ? 0 : next_block(m);

	if (ret < 0)
		return ret;
	ret = m->r.left > 0 ? fm_pack_next(&m->r, e) : 0;
	if (ret < 0)
		return ret;
	if (ret == 0)
		return m->entries == 0 && m->at == m->bytes ? 0 : -EBADMSG;
	if (m->entries == 0 ||
	    (e->type != FM_PACK_FILE && e->type != FM_PACK_HARD && e->type != FM_PACK_LINK))
		return -EBADMSG;
	m->entries--;
	return 1;
}

void fm_manifest_free(struct fm_manifest_reader *m)
{
	close(m->fd);
	fm_tsys_free(m->buf);
	m->buf = NULL;
}

/* ---- the end of one ---- */

void fm_manifest_remove(int parent, const struct fm_manifest_key *key)
{
	char name[FM_MANIFEST_NAME_LEN + 1];

	fm_manifest_name(key, name);
	(void)unlinkat(parent, name, 0);	/* most have none */
}

/* Whether the directory `name` has that key: 1 or 0. On an error nobody knows. */
static int is_at(int parent, const char *name, const struct fm_manifest_key *key)
{
	struct fm_manifest_key there;
	int ret = fm_manifest_key_at(parent, name, &there);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	return is_same_key(&there, key);
}

/*
 * Whether the directory `name` is the one that this manifest belongs to: 1, 0, or an error. The
 * names are compared, since the head of the manifest may be damaged.
 */
static int is_owner(int parent, const char *name, const char *manifest)
{
	char own[FM_MANIFEST_NAME_LEN + 1];
	struct fm_manifest_key key;
	int ret = fm_manifest_key_at(parent, name, &key);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	fm_manifest_name(&key, own);
	return strcmp(own, manifest) == 0;
}

/* 1: under some name; 0; or an error. key: NULL, it is not known. */
static int find_directory(int parent, const struct fm_manifest_key *key, const char *manifest)
{
	int fd = fm_tsys_open(parent, ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int ret = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	while (ret == 0) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(d);
		if (!entry)
			break;
		if (!key)
			ret = is_owner(parent, entry->d_name, manifest);
		else
			ret = entry->d_ino == key->ino ? is_at(parent, entry->d_name, key) : 0;
	}
	if (ret == 0)
		ret = -errno;
	closedir(d);
	return ret;
}

bool fm_manifest_is_orphan(int parent, const char *manifest)
{
	struct fm_manifest_reader m;
	int fd = fm_tsys_open(parent, manifest, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	int ret = fd < 0 ? fd : fm_manifest_read(&m, fd);
	/* it stays as long as its tree, so that fm_verify_run() goes on saying so */
	bool is_damaged = ret == -EBADMSG;

	if (ret < 0 && !is_damaged)
		return false;
	if (!is_damaged)
		fm_manifest_free(&m);
	ret = is_damaged ? 0 : is_at(parent, m.name, &m.key);
	for (unsigned i = 0; ret == 0 && i < SCANS; i++)
		ret = find_directory(parent, is_damaged ? NULL : &m.key, manifest);
	return ret == 0;
}
