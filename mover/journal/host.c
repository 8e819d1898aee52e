/* SPDX-License-Identifier: MIT */
/*
 * host - the machine's ID is hashed (machine-id(5) asks that it be shown to nobody, and a journal
 * may lie on a shared volume); the kernel's boot ID is what it is.
 */
#include "mover/journal/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "mover/base/boot.h"
#include "mover/base/bytes.h"
#include "mover/base/fault.h"
#include "mover/journal/siphash.h"

#define MACHINE_ID_PATH "/etc/machine-id"
#define TEXT_MAX 63

/* The keys are known to all: they only keep the two kinds of ID, and fmove's from other programs',
 * apart. */
static const struct fm_sip key_of_id = { .low = UINT64_C(0x6e6a2d65766f6d66), .high = 1 };
static const struct fm_sip key_of_name = { .low = UINT64_C(0x6e6a2d65766f6d66), .high = 2 };

/* 1: text holds what the file says. 0: there is no such file, or nothing in it, or it is not for
 * us. */
static int read_machine_id(char text[TEXT_MAX + 1])
{
	int fd = open(MACHINE_ID_PATH, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (FM_FAULT("journal.host")) {
		if (fd >= 0)
			close(fd);
		return -EMFILE;
	}
	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	len = read(fd, text, TEXT_MAX);
	if (len < 0)
		len = -errno;
	close(fd);
	if (len <= 0)
		return (int)len;
	text[len] = '\0';
	return 1;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The 32 hexadecimal digits of text, dashes between them skipped; false: it has no such number. */
static bool parse_id(const char *text, uint8_t id[FM_JOURNAL_ID_LEN])
{
	unsigned digits = 0;

	memset(id, 0, FM_JOURNAL_ID_LEN);
	for (; *text != '\0' && *text != '\n'; text++) {
		int value = digit_value(*text);

		if (*text == '-')
			continue;
		if (value < 0 || digits == 2 * FM_JOURNAL_ID_LEN)
			return false;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | value);
		digits++;
	}
	return digits == 2 * FM_JOURNAL_ID_LEN;
}

static void hash_into(const struct fm_sip *key, const void *data, size_t len,
		      uint8_t id[FM_JOURNAL_ID_LEN])
{
	struct fm_sip hash = fm_siphash(key, data, len);
	struct fm_writer w = { .at = id, .end = id + FM_JOURNAL_ID_LEN };

	fm_put_le64(&w, hash.low);
	fm_put_le64(&w, hash.high);
}

void fm_journal_host_of(const char *machine_id, const char *boot_id, const char *name,
			struct fm_journal_host *out)
{
	uint8_t id[FM_JOURNAL_ID_LEN];

	if (machine_id && parse_id(machine_id, id))
		hash_into(&key_of_id, id, sizeof(id), out->machine);
	else	/* small images and containers have none, or "uninitialized" */
		hash_into(&key_of_name, name, strlen(name), out->machine);
	if (!boot_id || !parse_id(boot_id, out->boot))
		memset(out->boot, 0, sizeof(out->boot));
}

int fm_journal_host_here(struct fm_journal_host *out)
{
	char machine_id[TEXT_MAX + 1], boot_id[FM_BOOT_ID_LEN + 1];
	int has_machine = read_machine_id(machine_id), boot = fm_boot_id(boot_id);
	struct utsname names;

	if (has_machine < 0)
		return has_machine;
	if (boot < 0 && boot != -ENOENT && boot != -EACCES && boot != -EBADMSG)
		return boot;
	if (uname(&names) < 0)
		return -errno;
	fm_journal_host_of(has_machine ? machine_id : NULL, boot == 0 ? boot_id : NULL,
			   names.nodename, out);
	return 0;
}

bool fm_journal_host_is_same(const uint8_t a[FM_JOURNAL_ID_LEN], const uint8_t b[FM_JOURNAL_ID_LEN])
{
	static const uint8_t unknown[FM_JOURNAL_ID_LEN];

	return memcmp(a, b, FM_JOURNAL_ID_LEN) == 0 && memcmp(a, unknown, FM_JOURNAL_ID_LEN) != 0;
}
