#define _GNU_SOURCE
#include "tftp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RRQ = 1, WRQ, DATA, ACK, ERROR, OACK };

enum { BUCKETS = 16384 };

static struct image *images[BUCKETS];
static int image_count;

/* An upload that was stored. One a name; a newer one takes its place. */
struct upload {
	struct upload *next;
	char *name;
	unsigned char *bytes;
	uint64_t size;
};

static struct upload *uploads[BUCKETS];

_Noreturn void fail(const char *what, const char *on)
{
	fprintf(stderr, "floor: cannot %s %s: %s\n", what, on, strerror(errno));
	exit(1);
}

static void *must(void *p)
{
	if (!p)
		fail("allocate", "memory");
	return p;
}

uint32_t floor_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint32_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

static _Noreturn void usage(const char *name)
{
	fprintf(stderr, "usage: %s --address IPV4 --port N [--batch 1..64] [--single-port] [--store] DIR\n"
			"(floor-epoll knows neither --batch nor --single-port)\n", name);
	exit(2);
}

void floor_options(struct floor *f, int argc, char **argv, struct sockaddr_in *addr, int *batch, bool *single)
{
	static const struct option names[] = {
		{"address", required_argument, NULL, 'a'}, {"port", required_argument, NULL, 'p'},
		{"batch", required_argument, NULL, 'b'}, {"single-port", no_argument, NULL, '1'},
		{"store", no_argument, NULL, 's'}, {0},
	};
	*addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(69)};
	for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		if (c == 'a' && inet_pton(AF_INET, optarg, &addr->sin_addr) == 1)
			continue;
		if (c == 'p' && atoi(optarg) > 0 && atoi(optarg) < 65536)
			addr->sin_port = htons((uint16_t)atoi(optarg));
		else if (c == 'b' && batch && atoi(optarg) >= 1 && atoi(optarg) <= 64)
			*batch = atoi(optarg);
		else if (c == '1' && single)
			*single = true;
		else if (c == 's')
			f->store = true;
		else
			usage(argv[0]);
	}
	if (optind != argc - 1)
		usage(argv[0]);
	f->dir = open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir < 0)
		fail("open the directory", argv[optind]);
}

int floor_socket(const struct sockaddr_in *addr)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = SOCKET_BUFFER;
	if (s < 0)
		fail("open", "a UDP socket");
	/* Only root may exceed the system's limit; others get what it allows. */
	if (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
		setsockopt(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size))
		setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (bind(s, (const struct sockaddr *)addr, sizeof *addr))
		fail("bind to", inet_ntoa(addr->sin_addr));
	return s;
}

static uint16_t get16(const unsigned char *p) { return (uint16_t)(p[0] << 8 | p[1]); }

static void put16(unsigned char *p, int64_t v)
{
	p[0] = (unsigned char)(v >> 8);
	p[1] = (unsigned char)v;
}

static unsigned bucket(const char *name)
{
	unsigned h = 2166136261u; /* FNV-1a */
	while (*name)
		h = (h ^ (unsigned char)*name++) * 16777619u;
	return h % BUCKETS;
}

static void image_free(struct image *m)
{
	free(m->packets);
	free(m);
	image_count--;
}

/* Reads n bytes, or says why it cannot. */
static bool read_all(int fd, unsigned char *p, uint64_t n)
{
	while (n > 0) {
		ssize_t got = read(fd, p, n);
		if (got <= 0)
			return false;
		p += got;
		n -= (uint64_t)got;
	}
	return true;
}

/* Cuts a file, open as fd or given as bytes, into an image. NULL if it cannot be read. */
static struct image *image_cut(const char *name, uint32_t block, int fd, const unsigned char *bytes, uint64_t size)
{
	struct image *m = must(calloc(1, sizeof *m));
	strcpy(m->name, name); /* MAX_NAME was checked with the request */
	m->block = block;
	m->size = size;
	m->blocks = (int64_t)(size / block) + 1;
	m->packets = must(malloc(size + 4 * (uint64_t)m->blocks));
	image_count++;
	unsigned char *to = m->packets;
	for (int64_t n = 1; n <= m->blocks; n++) {
		uint64_t len = size < block ? size : block;
		put16(to, DATA);
		put16(to + 2, n);
		if (bytes) {
			memcpy(to + 4, bytes, len);
			bytes += len;
		} else if (!read_all(fd, to + 4, len)) {
			image_free(m);
			return NULL;
		}
		to += 4 + len;
		size -= len;
	}
	return m;
}

static struct upload *upload_find(const char *name)
{
	struct upload *u = uploads[bucket(name)];
	while (u && strcmp(u->name, name))
		u = u->next;
	return u;
}

static struct image *image_load(struct floor *f, const char *name, uint32_t block)
{
	struct upload *u = upload_find(name);
	if (u)
		return image_cut(name, block, -1, u->bytes, u->size);
	int fd = openat(f->dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	struct stat st;
	struct image *m = NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		m = image_cut(name, block, fd, NULL, (uint64_t)st.st_size);
	close(fd);
	return m;
}

/* Returns the image of a file, loading it on first use; NULL if there is none. */
static struct image *image_get(struct floor *f, const char *name, uint32_t block)
{
	struct image **list = &images[bucket(name)], *m;
	for (m = *list; m; m = m->next)
		if (m->block == block && !strcmp(m->name, name))
			return m;
	if (image_count >= MAX_IMAGES || !(m = image_load(f, name, block)))
		return NULL;
	m->next = *list;
	return *list = m;
}

/* Takes the images of a name out of use: its content has been replaced. */
static void image_drop(const char *name)
{
	for (struct image **at = &images[bucket(name)], *m; (m = *at);) {
		if (strcmp(m->name, name)) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		m->stale = true;
		if (!m->users)
			image_free(m);
	}
}

/* Makes a transfer's bytes the content of its name. */
static void upload_publish(struct transfer *t)
{
	struct upload *u = upload_find(t->kept_name);
	if (!u) {
		u = must(calloc(1, sizeof *u));
		u->name = t->kept_name;
		t->kept_name = NULL;
		u->next = uploads[bucket(u->name)];
		uploads[bucket(u->name)] = u;
	}
	free(u->bytes);
	u->bytes = t->kept ? t->kept : must(malloc(1));
	u->size = t->kept_len;
	t->kept = NULL;
	image_drop(u->name);
}

static void keep(struct transfer *t, const unsigned char *p, size_t n)
{
	if (t->kept_len + n > t->kept_cap) {
		t->kept_cap = 2 * t->kept_cap + 65536;
		t->kept = must(realloc(t->kept, t->kept_cap));
	}
	memcpy(t->kept + t->kept_len, p, n);
	t->kept_len += n;
}

static void say(struct floor *f, struct transfer *t, const unsigned char *p, size_t n)
{
	t->since = f->now;
	f->emit(f->ctx, t, p, n, 0, true);
}

static void ack(struct floor *f, struct transfer *t)
{
	unsigned char p[4];
	put16(p, ACK);
	put16(p + 2, t->acked);
	say(f, t, p, sizeof p);
}

static bool refuse(struct floor *f, struct transfer *t, int code, const char *why)
{
	unsigned char p[64];
	put16(p, ERROR);
	put16(p + 2, code);
	say(f, t, p, 4 + (size_t)snprintf((char *)p + 4, sizeof p - 4, "%s", why) + 1);
	transfer_end(t);
	return false;
}

/* Sends the window after the last block acknowledged. */
static void send_window(struct floor *f, struct transfer *t)
{
	struct image *m = t->image;
	uint64_t stride = t->block + 4, total = m->size + 4 * (uint64_t)m->blocks;
	int64_t at = t->acked, end = at + t->window;
	if (end > m->blocks)
		end = m->blocks;
	uint64_t most = stride > MAX_SEGMENT ? 1 : MAX_MESSAGE / stride;
	if (most > MAX_SEGMENTS)
		most = MAX_SEGMENTS;
	t->sent = end;
	t->since = f->now;
	while (at < end) {
		int64_t n = end - at < (int64_t)most ? end - at : (int64_t)most;
		uint64_t from = (uint64_t)at * stride, len = (uint64_t)n * stride;
		if (from + len > total)
			len = total - from;
		f->emit(f->ctx, t, m->packets + from, len, n > 1 ? stride : 0, false);
		at += n;
	}
}

bool is_request(const unsigned char *p, size_t n)
{
	return n >= 6 && (get16(p) == RRQ || get16(p) == WRQ);
}

/* What a request asks for. Options not asked for are 0, or -1 for tsize. */
struct request {
	const char *name;
	bool write;
	int64_t block, window, tsize;
};

/* Takes the next string of a request, NULL if there is none. */
static const char *next_string(const unsigned char **p, const unsigned char *end)
{
	const char *s = (const char *)*p;
	const unsigned char *zero = memchr(s, 0, (size_t)(end - *p));
	if (!zero)
		return NULL;
	*p = zero + 1;
	return s;
}

static bool parse(struct request *r, const unsigned char *p, size_t n)
{
	const unsigned char *end = p + n;
	*r = (struct request){.write = get16(p) == WRQ, .tsize = -1};
	p += 2;
	r->name = next_string(&p, end);
	if (!r->name || !next_string(&p, end)) /* the mode: octet is taken for granted */
		return false;
	while (*r->name == '/')
		r->name++;
	for (const char *key, *value; (key = next_string(&p, end)) && (value = next_string(&p, end));) {
		int64_t v = strtoll(value, NULL, 10);
		if (!strcasecmp(key, "blksize") && v >= 8)
			r->block = v < 65464 ? v : 65464;
		else if (!strcasecmp(key, "windowsize") && v >= 1)
			r->window = v < MAX_WINDOW ? v : MAX_WINDOW;
		else if (!strcasecmp(key, "tsize") && v >= 0)
			r->tsize = v;
	}
	return *r->name && strlen(r->name) <= MAX_NAME && !strstr(r->name, "..");
}

static size_t add_option(unsigned char *p, const char *key, int64_t value)
{
	return (size_t)sprintf((char *)p, "%s%c%lld", key, 0, (long long)value) + 1;
}

/* Confirms the options asked for. False if there were none. */
static bool confirm(struct floor *f, struct transfer *t, const struct request *r)
{
	unsigned char p[128];
	size_t n = 2;
	put16(p, OACK);
	if (r->block)
		n += add_option(p + n, "blksize", r->block);
	if (r->window)
		n += add_option(p + n, "windowsize", r->window);
	/* curl takes a size of 0 for an error. */
	if (r->tsize >= 0 && (r->write || t->image->size > 0))
		n += add_option(p + n, "tsize", r->write ? r->tsize : (int64_t)t->image->size);
	if (n > 2)
		say(f, t, p, n);
	return n > 2;
}

bool transfer_begin(struct floor *f, struct transfer *t, const unsigned char *p, size_t n)
{
	struct request r;
	transfer_end(t);
	if (!parse(&r, p, n))
		return refuse(f, t, 4, "a floor does not understand this request");
	t->block = r.block ? (uint32_t)r.block : 512;
	t->window = r.window ? (uint32_t)r.window : 1;
	if (!r.write) {
		t->image = image_get(f, r.name, t->block);
		if (!t->image)
			return refuse(f, t, 1, "no such file");
		t->image->users++;
	} else if (f->store) {
		t->kept_name = must(strdup(r.name));
	}
	if (confirm(f, t, &r))
		return true;
	if (r.write)
		ack(f, t);
	else
		send_window(f, t);
	return true;
}

/*
 * Takes an ACK. A repeated one is answered only if the window has been out for
 * REPEAT_MS: that is a client whose timer ran because a full socket buffer lost
 * the packet, and without an answer it would never finish. Sooner it is a
 * duplicate, and answering it would double every packet from there on.
 */
static bool take_ack(struct floor *f, struct transfer *t, uint16_t n)
{
	int64_t ahead = (uint16_t)(n - (uint16_t)t->acked);
	if (ahead > t->sent - t->acked)
		return true;
	if (ahead == 0 && t->sent > 0 && f->now - t->since < REPEAT_MS)
		return true;
	t->acked += ahead;
	if (t->acked == t->image->blocks) {
		transfer_end(t);
		return false;
	}
	send_window(f, t);
	return true;
}

/* Takes a DATA packet. The transfer is kept after its end to repeat the last ACK. */
static bool take_data(struct floor *f, struct transfer *t, const unsigned char *p, size_t n)
{
	uint16_t ahead = (uint16_t)(get16(p + 2) - (uint16_t)t->acked);
	if (ahead != 1 || t->over) {
		/* A gap is reported once (RFC 7440 section 4), a repeated block as in take_ack. */
		bool repeated = ahead == 0 || ahead > 32767;
		if ((repeated && f->now - t->since >= REPEAT_MS) || (!repeated && !t->gap)) {
			t->gap = !repeated;
			t->sent = t->acked;
			ack(f, t);
		}
		return true;
	}
	t->gap = false;
	t->acked++;
	if (t->kept_name)
		keep(t, p + 4, n - 4);
	t->over = n - 4 < t->block;
	if (t->over && t->kept_name)
		upload_publish(t);
	if (t->over || t->acked - t->sent == t->window) {
		t->sent = t->acked; /* the last block acknowledged, for an upload */
		ack(f, t);
	}
	return true;
}

bool transfer_packet(struct floor *f, struct transfer *t, const unsigned char *p, size_t n)
{
	if (n < 4)
		return true;
	switch (get16(p)) {
	case ACK:
		return t->image ? take_ack(f, t, get16(p + 2)) : true;
	case DATA:
		return t->image ? true : take_data(f, t, p, n);
	case ERROR:
		transfer_end(t);
		return false;
	}
	return true;
}

void transfer_repeat(struct floor *f, struct transfer *t, const unsigned char *p, size_t n)
{
	if (n >= 4 && get16(p) == DATA)
		take_data(f, t, p, n);
}

void transfer_end(struct transfer *t)
{
	if (t->image && --t->image->users == 0 && t->image->stale)
		image_free(t->image);
	free(t->kept);
	free(t->kept_name);
	*t = (struct transfer){.peer = t->peer};
}
