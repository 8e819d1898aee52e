/* SPDX-License-Identifier: MIT */
/* peer_book - see peer_book.h. */
#include "mover/daemon/peer_book.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/files.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/worker.h"

#define LINE_MAX_BYTES 128		/* an address, a port */
/* after each file: a peer may say something else a thousand times a second */
#define PAUSE_NS (100 * FM_NS_PER_MS)
#define TEXT_MAX (FM_VALUE_KEY_TEXT_MAX + 1 + FM_PEER_ADDRS_MAX * LINE_MAX_BYTES)

/* One file to write. The first of the list is the worker's. */
struct page {
	struct fm_list at;
	char path[PATH_MAX];
	char text[TEXT_MAX];
};

struct fm_peer_book {
	char dir[PATH_MAX];
	struct fm_worker *worker;
	struct fm_loop *loop;
	struct fm_peer_keeper keeper;
	struct fm_list pages;
	struct fm_work work;
	struct fm_timer pause;
	bool is_busy;
	bool is_stopped;
	int ret;
	struct fm_err err;
};

/* ---- writing ---- */

static struct page *first(struct fm_peer_book *book)
{
	return fm_container_of(book->pages.next, struct page, at);
}

static void write_run(struct fm_work *work)
{
	struct fm_peer_book *book = fm_container_of(work, struct fm_peer_book, work);
	struct fm_file_write how = {
		.path = first(book)->path, .mode = 0600, .may_replace = true, .is_volatile = true};

	book->ret = fm_dir_make(book->dir, 0700, &book->err);
	if (book->ret == 0)
		book->ret = fm_file_write(&how, first(book)->text, &book->err);
}

static void write_next(struct fm_peer_book *book);

static void write_done(struct fm_work *work)
{
	struct fm_peer_book *book = fm_container_of(work, struct fm_peer_book, work);
	struct page *page = first(book);

	if (book->ret < 0)
		fm_log_warn("%s: after the next start a peer is dialled where the configuration "
			    "says, not where else it is",
			    book->err.text);
	fm_list_del(&page->at);
	free(page);
	book->is_busy = false;
	if (!book->is_stopped)
		fm_timer_set(book->loop, &book->pause, fm_loop_now(book->loop) + PAUSE_NS);
}

static void pause_over(struct fm_timer *timer)
{
	write_next(fm_container_of(timer, struct fm_peer_book, pause));
}

static void write_next(struct fm_peer_book *book)
{
	if (book->is_busy || book->is_stopped || fm_timer_is_set(&book->pause) ||
	    fm_list_is_empty(&book->pages))
		return;
	book->is_busy = true;
	book->work = (struct fm_work){ .run = write_run, .done = write_done };
	fm_worker_submit(book->worker, &book->work, book->loop);
}

static void print(char text[static TEXT_MAX], const uint8_t key[FM_KEY_LEN],
		  const struct fm_endpoint *to, unsigned count)
{
	char key_text[FM_VALUE_KEY_TEXT_MAX];
	size_t len;

	fm_value_key_print(key, key_text);
	len = (size_t)snprintf(text, TEXT_MAX, "%s\n", key_text);
	for (unsigned i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, LINE_MAX_BYTES,
					strchr(to[i].host, ':') ? "[%.100s]:%u\n" : "%.100s:%u\n",
					to[i].host, to[i].port);
}

/* What waits for that file is out of date. */
static void drop_waiting(struct fm_peer_book *book, const char *path)
{
	fm_list_each(at, next, &book->pages) {
		struct page *page = fm_container_of(at, struct page, at);

		if ((book->is_busy && page == first(book)) || strcmp(page->path, path) != 0)
			continue;
		fm_list_del(at);
		free(page);
	}
}

static void told(void *ctx, const char *peer, const uint8_t key[FM_KEY_LEN],
		 const struct fm_endpoint *learned, unsigned count)
{
	struct fm_peer_book *book = ctx;
	struct page *page = calloc(1, sizeof(*page));

	/* It is only for comfort. */
	if (!page || fm_path_join(book->dir, peer, page->path, NULL) < 0) {
		free(page);
		return;
	}
	print(page->text, key, learned, count);
	drop_waiting(book, page->path);
	fm_list_append(&book->pages, &page->at);
	write_next(book);
}

/* ---- reading ---- */

/* A plain file of ours that is no longer than we write them, or NULL. */
static FILE *open_page(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	FILE *f = NULL;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_size < TEXT_MAX)
		f = fdopen(fd, "r");
	if (!f)
		close(fd);
	return f;
}

static bool read_line(FILE *f, char line[static LINE_MAX_BYTES])
{
	size_t len;

	if (!fgets(line, LINE_MAX_BYTES, f))
		return false;
	len = strlen(line);
	if (len == 0 || line[len - 1] != '\n')
		return false;	/* too long, or cut off */
	line[len - 1] = '\0';
	return true;
}

static bool is_of(const char *line, const uint8_t key[FM_KEY_LEN])
{
	uint8_t there[FM_VALUE_KEY_LEN];

	return fm_value_key(line, there) == 0 && memcmp(there, key, FM_KEY_LEN) == 0;
}

/* A name would be looked up somewhere: only a person gives those. */
static bool is_endpoint(const char *line, struct fm_endpoint *out)
{
	struct in6_addr any;

	return fm_value_address(line, false, out->host, sizeof(out->host), &out->port) == 0 &&
	       (inet_pton(AF_INET, out->host, &any) == 1 ||
		inet_pton(AF_INET6, out->host, &any) == 1);
}

unsigned fm_peer_book_read(const struct fm_peer_book *book, const char *peer,
			   const uint8_t key[FM_KEY_LEN], struct fm_endpoint out[FM_PEER_ADDRS_MAX])
{
	char path[PATH_MAX], line[LINE_MAX_BYTES];
	unsigned count = 0;
	FILE *f;

	if (!book || fm_path_join(book->dir, peer, path, NULL) < 0)
		return 0;
	f = open_page(path);
	if (!f)
		return 0;
	if (read_line(f, line) && is_of(line, key))
		while (count < FM_PEER_ADDRS_MAX && read_line(f, line) &&
		       is_endpoint(line, &out[count]))
			count++;
	(void)fclose(f);	/* only read */
	return count;
}

/* ---- the whole ---- */

int fm_peer_book_new(const char *state, struct fm_worker *worker, struct fm_loop *loop,
		     struct fm_peer_book **out, struct fm_err *err)
{
	struct fm_peer_book *book = calloc(1, sizeof(*book));
	int ret;

	if (!book)
		return fm_err_set(err, -ENOMEM, "out of memory");
	ret = fm_path_join(state, FM_CONFIG_BOOK_DIR, book->dir, err);
	if (ret < 0) {
		free(book);
		return ret;
	}
	book->worker = worker;
	book->loop = loop;
	book->keeper = (struct fm_peer_keeper){ told, book };
	book->pause.fire = pause_over;
	fm_list_init(&book->pages);
	*out = book;
	return 0;
}

const struct fm_peer_keeper *fm_peer_book_keeper(struct fm_peer_book *book)
{
	return &book->keeper;
}

void fm_peer_book_stop(struct fm_peer_book *book)
{
	if (!book)
		return;
	book->is_stopped = true;
	fm_timer_clear(book->loop, &book->pause);
}

void fm_peer_book_free(struct fm_peer_book *book)
{
	if (!book)
		return;
	fm_list_each(at, next, &book->pages)
		free(fm_container_of(at, struct page, at));
	free(book);
}
