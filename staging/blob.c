/* SPDX-License-Identifier: MIT */
/* blob - see blob.h. */
#include "staging/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"

#define PIECE_BYTES (4u << 20)
#define SHA1_HEX 40
#define SHA256_HEX 64

static const EVP_MD *kind_of(const char *name)
{
	size_t len = strlen(name);

	if (strspn(name, "0123456789abcdef") != len)
		return NULL;
	return len == SHA256_HEX ? EVP_sha256() : len == SHA1_HEX ? EVP_sha1() : NULL;
}

static int add(EVP_MD_CTX *sum, const void *bytes, size_t len)
{
	return EVP_DigestUpdate(sum, bytes, len) == 1 ? 0 : -ENOMEM;
}

/* Adds the header that git puts before the content of a blob. */
static int add_head(EVP_MD_CTX *sum, uint64_t size)
{
	char head[32];
	int len = snprintf(head, sizeof(head), "blob %llu", (unsigned long long)size);

	return add(sum, head, (size_t)len + 1);
}

static int add_content(EVP_MD_CTX *sum, int fd, const atomic_bool *is_stopped,
		       _Atomic uint64_t *done)
{
	void *buf = FM_FAULT("blob.alloc") ? NULL : malloc(PIECE_BYTES);
	uint64_t at = 0;
	int64_t len = buf ? 1 : -ENOMEM;

	while (len > 0) {
		len = atomic_load(is_stopped) ? -ECANCELED
					      : fm_call_read_all(fd, buf, PIECE_BYTES, at);
		if (len > 0 && add(sum, buf, (size_t)len) < 0)
			len = -ENOMEM;
		if (len > 0) {
			at += (uint64_t)len;
			atomic_fetch_add(done, (uint64_t)len);
		}
	}
	/* on some machines the page cache is the GPU's memory */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	free(buf);
	return (int)len;
}

static int compare(EVP_MD_CTX *sum, const char *name)
{
	unsigned char bytes[EVP_MAX_MD_SIZE];
	char hex[2 * EVP_MAX_MD_SIZE + 1];
	unsigned len;

	if (EVP_DigestFinal_ex(sum, bytes, &len) != 1)
		return -ENOMEM;
	for (unsigned i = 0; i < len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	return strcmp(hex, name) == 0 ? 1 : -EBADMSG;
}

int fm_stage_blob_check(int fd, const char *name, const atomic_bool *is_stopped,
			_Atomic uint64_t *done, struct fm_err *err)
{
	const EVP_MD *kind = kind_of(name);
	EVP_MD_CTX *sum = NULL;
	struct stat st;
	int ret;

	if (!kind)
		return 0;
	ret = fm_call(fstat(fd, &st));
	if (ret == 0)
		sum = FM_FAULT("blob.alloc") ? NULL : EVP_MD_CTX_new();
	if (ret == 0 && (!sum || EVP_DigestInit_ex(sum, kind, NULL) != 1))
		ret = -ENOMEM;
	if (ret == 0 && strlen(name) == SHA1_HEX)
		ret = add_head(sum, (uint64_t)st.st_size);
	if (ret == 0)
		ret = add_content(sum, fd, is_stopped, done);
	if (ret == 0)
		ret = compare(sum, name);
	EVP_MD_CTX_free(sum);
	if (ret == -EBADMSG)
		return fm_err_set(err, ret,
				  "blob %s is not what its name says: it is damaged where it came "
				  "from; download it again there",
				  name);
	return ret < 0 ? fm_err_sys(err, ret, "read blob %s", name) : ret;
}
