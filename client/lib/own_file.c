/* SPDX-License-Identifier: MIT */
/* own_file - see own_file.h. */
#include "client/lib/own_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_MAX 256u	/* what is more stays open for good */

/*
 * Those of files with a lock, the number plus one; 0: none. Without a lock of their own, which a
 * child could find taken: whoever takes one out has it alone.
 */
static atomic_int kept[KEPT_MAX];

/*
 * The caller may close what is kept, as with closefrom(3), and the number be another file's, or of
 * the same file opened anew. So ours has a mark, which belongs to what was opened: a signal to be
 * sent when it can be read, and nobody to get it. That does nothing, nobody else asks for it, and
 * no file system is asked for it.
 */
static int mark(int own)
{
	return fcntl(own, F_SETSIG, SIGRTMAX);
}

static bool is_marked(int number)
{
	return fcntl(number, F_GETSIG) == SIGRTMAX && fcntl(number, F_GETOWN) == 0;
}

/* By anybody, this process among them; also if nobody can say. */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

static void keep(int own)
{
	for (unsigned i = 0; i < KEPT_MAX; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&kept[i], &none, own + 1))
			return;
	}
}

static void close_or_keep(int own)
{
	if (is_locked(own))
		keep(own);
	else
		(void)close(own);	/* only read */
}

static void look_again(void)
{
	for (unsigned i = 0; i < KEPT_MAX; i++) {
		int number = atomic_load(&kept[i]);

		if (number > 0 && atomic_compare_exchange_strong(&kept[i], &number, 0) &&
		    is_marked(number - 1))
			close_or_keep(number - 1);
	}
}

int fm_own_file_open(int fd)
{
	char link[64];
	struct stat st, again;
	int own;

	look_again();
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || lseek(fd, 0, SEEK_CUR) != 0 ||
	    is_locked(fd))
		return -1;
	/* of this thread, which may have descriptors of its own; it fits */
	(void)snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
	/* who has a lease is not waited for */
	own = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own < 0)
		return -1;
	if (fstat(own, &again) < 0 || again.st_dev != st.st_dev || again.st_ino != st.st_ino ||
	    mark(own) < 0) {
		close_or_keep(own);
		return -1;
	}
	(void)fcntl(own, F_SETFL, 0);	/* to the daemon it makes no difference */
	return own;
}

void fm_own_file_close(int own)
{
	if (own >= 0)
		close_or_keep(own);
}
