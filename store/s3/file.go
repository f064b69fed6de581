package s3

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/servertext"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// A read requests only the range that it needs. But if reads follow each other in order, the second
// one requests firstRun bytes, and each further request is runGrowth times as large, because each
// request costs a round trip.
const (
	firstRun  = 1 << 20
	runGrowth = 4
)

// A file is an object that is open for reading. Each request contains a condition, so that only the
// opened version is read: its ETag or, if it has none, the time of its last change.
type file struct {
	c      *client
	name   string
	key    string
	info   info
	listed bool            // the file was opened by openListed, without a request
	ctx    context.Context // context that Close cancels
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	next int64 // offset at which the last read ended; guarded by mu
	run  int64 // size, in bytes, of the last range requested while the file was read in order; guarded by mu
	told bool  // like info.told, but updated by later answers; guarded by mu
	md5  bool  // like info.md5, but updated by later answers; guarded by mu
}

var _ store.Identifier = (*file)(nil)

// Open opens an object for reading. It already requests the whole object, so that the first read
// waits for one answer only. The result has FetchTo, Hash and Version, which package treecopy uses.
func (s *Store) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.open(ctx, name)
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	return f, nil
}

// openListed opens a file that a listing, or Stat, has just described, and sends no request. If the
// file has changed since, the first read returns [store.ErrChanged]. A file that is empty or has no
// ETag is opened by Open instead.
func (s *Store) openListed(ctx context.Context, name string, listed fs.FileInfo) (store.File, error) {
	i, ok := listed.(info)
	// If the file is empty, nothing is read from it, so a change would go unnoticed.
	if !ok || i.dir || i.etag == "" || i.size == 0 {
		return s.Open(ctx, name)
	}
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	f := &file{c: s.client, name: name, key: key, info: i, listed: true, told: i.told, md5: i.md5}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	return f, nil
}

func (s *Store) open(ctx context.Context, name string) (*file, error) {
	if name == "." {
		return nil, store.ErrNotRegular
	}
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &file{c: s.client, name: name, key: key}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	opening := context.AfterFunc(ctx, func() { f.cancel(context.Cause(ctx)) })
	body, err := f.getAll()
	if !opening() && err == nil {
		_ = body.Close()
		err = context.Cause(ctx)
	}
	if err == nil {
		s.streams.put(&stream{file: f.ctx, body: body, end: f.info.size})
		return f, nil
	}
	f.cancel(fs.ErrClosed)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = s.dirInstead(ctx, name, err); err == nil {
			err = rules.ErrIsDir
		}
	}
	return nil, err
}

// getAll requests the whole object, and stores its description in f.
func (f *file) getAll() (body io.ReadCloser, err error) {
	a := new(answer)
	ctx := context.WithValue(context.WithValue(f.ctx, wholeKey{}, true), answerKey{}, a)
	err = f.c.do(ctx, func(ctx context.Context) error {
		b, o, h, err := f.c.server.GetObject(ctx, f.c.bucket, f.key, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		if span := h.Get("Content-Range"); span != "" {
			err = fmt.Errorf("%w: it sends %q, where all was asked for", ErrProtocol, servertext.Cut(span))
		} else {
			f.info, err = settledInfo(f.name, o, a)
		}
		if err == nil && f.info.version() == "" {
			err = errUnsettled
		}
		if err != nil {
			_ = b.Close()
			return err
		}
		f.tell(f.info)
		body = b
		return nil
	})
	return body, err
}

// Stat describes the object as it was when it was opened.
func (f *file) Stat() (fs.FileInfo, error) {
	if f.ctx.Err() != nil {
		return nil, f.c.fail("stat", f.name, fs.ErrClosed)
	}
	return f.info, nil
}

// Version returns the ETag or, without an ETag, the time of the last change. If two files of a
// name have the same version, they have the same content.
func (f *file) Version() string { return f.info.version() }

// Identity returns an identity that is computed from the server, the key and the ETag.
func (f *file) Identity() (store.Identity, bool) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s", f.c.host, f.c.bucket, f.key, f.info.etag))
	at := f.info.time.UnixNano()
	return store.Identity{
		Device: binary.BigEndian.Uint64(sum[:]), Inode: binary.BigEndian.Uint64(sum[8:]), Size: f.info.size, Ctime: at, Mtime: at,
	}, true
}

// Location returns the URL of the file.
func (f *file) Location() store.Location { return store.Location{Path: f.c.url(f.name)} }

// Hash returns the MD5 of the whole file, if the ETag is the MD5. If the file was opened from a
// listing and not read yet, Hash has to ask the server whether the ETag is the MD5. If algorithms
// do not include "md5", Hash asks for the SHA-256 or the SHA-1, which the server stores for some
// uploads.
func (f *file) Hash(ctx context.Context, off, n int64, algorithms ...string) (string, []byte, error) {
	if off == 0 && n == f.info.size && !slices.Contains(algorithms, "md5") {
		return f.checksum(ctx, algorithms)
	}
	sum, err := hex.DecodeString(f.info.etag)
	if err != nil || len(sum) != md5.Size || off != 0 || n != f.info.size || !slices.Contains(algorithms, "md5") {
		return "", nil, errors.ErrUnsupported
	}
	f.mu.Lock()
	told, isMD5 := f.told, f.md5
	f.mu.Unlock()
	if !told {
		i, err := f.c.head(ctx, f.name, f.key)
		if err == nil && !i.same(f.info) {
			err = store.ErrChanged
		}
		if err != nil {
			return "", nil, f.c.fail("hash", f.name, err)
		}
		f.tell(i)
		isMD5 = i.md5
	}
	if !isMD5 {
		return "", nil, errors.ErrUnsupported
	}
	return "md5", sum, nil
}

// checksum returns the checksum of the whole object that the server stores, by the first of the
// algorithms for which there is one. For an object of several parts, the server may have only a
// hash of the hashes of the parts, which cannot be used here.
func (f *file) checksum(ctx context.Context, algorithms []string) (string, []byte, error) {
	if !slices.Contains(algorithms, "sha256") && !slices.Contains(algorithms, "sha1") {
		return "", nil, errors.ErrUnsupported
	}
	var o minio.ObjectInfo
	err := f.c.do(ctx, func(ctx context.Context) (err error) {
		o, err = f.c.server.StatObject(ctx, f.c.bucket, f.key, minio.StatObjectOptions{Checksum: true})
		return err
	})
	var now info
	if err == nil {
		now, err = infoOf(f.name, o)
	}
	if err == nil && !now.same(f.info) {
		err = store.ErrChanged
	}
	if err != nil {
		return "", nil, f.c.fail("hash", f.name, err)
	}
	kept := map[string]string{"sha256": o.ChecksumSHA256, "sha1": o.ChecksumSHA1}
	sizes := map[string]int{"sha256": sha256.Size, "sha1": sha1.Size}
	for _, a := range algorithms {
		// The hash of several parts' hashes ends in the number of parts, so it does not decode.
		sum, err := base64.StdEncoding.DecodeString(kept[a])
		if err == nil && kept[a] != "" && len(sum) == sizes[a] && (o.ChecksumMode == "" || o.ChecksumMode == minio.ChecksumFullObjectMode.String()) {
			return a, sum, nil
		}
	}
	return "", nil, errors.ErrUnsupported
}

// tell records whether the ETag is the MD5 of the content. An answer about the object shows that,
// but a listing does not.
func (f *file) tell(i info) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told, f.md5 = true, i.md5
}

// Close cancels all reads in progress.
func (f *file) Close() error {
	if f.ctx.Err() != nil {
		return f.c.fail("close", f.name, fs.ErrClosed)
	}
	f.cancel(fs.ErrClosed)
	f.c.streams.closeOf(f.ctx)
	return nil
}

// get requests n bytes at off; n is at least 1.
func (f *file) get(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	o := minio.GetObjectOptions{}
	if err := o.SetRange(off, off+n-1); err != nil {
		return nil, err
	}
	guard := func() error { return o.SetMatchETag(f.info.etag) }
	if f.info.etag == "" {
		guard = func() error { return o.SetUnmodified(f.info.unmodifiedSince()) }
	}
	if err := guard(); err != nil {
		return nil, err
	}
	if off == 0 && n == f.info.size {
		ctx = context.WithValue(ctx, wholeKey{}, true) // the answer may be the whole file, of any size
	}
	var body io.ReadCloser
	err := f.c.once(ctx, func(ctx context.Context) error {
		b, got, h, err := f.c.server.GetObject(ctx, f.c.bucket, f.key, o)
		if err != nil {
			return err
		}
		if err := f.check(got, h.Get("Content-Range"), off, n); err != nil {
			_ = b.Close()
			return err
		}
		body = b
		return nil
	})
	if r, ok := errors.AsType[*RefusedError](err); ok {
		if r.Status == http.StatusPreconditionFailed || r.Status == http.StatusRequestedRangeNotSatisfiable || errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w since it was opened: %w", store.ErrChanged, err)
		}
	}
	return body, err
}

// check returns an error unless the answer has the requested range of the opened version.
func (f *file) check(got minio.ObjectInfo, span string, off, n int64) error {
	if got.ETag != f.info.etag {
		return fmt.Errorf("%w: its ETag was %q and is %q", store.ErrChanged, servertext.Cut(f.info.etag), servertext.Cut(got.ETag))
	}
	if got.ETag == "" && !got.LastModified.Equal(f.info.time) {
		return fmt.Errorf("%w: it was of %v and is of %v", store.ErrChanged, f.info.time, got.LastModified)
	}
	if want := fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, f.info.size); span != want && (span != "" || off != 0 || n != f.info.size) {
		return fmt.Errorf("%w: it sends %q, where %q was asked for", ErrProtocol, servertext.Cut(span), want)
	}
	if got.Size >= 0 && got.Size != n {
		return fmt.Errorf("%w: it sends %d bytes, where %d were asked for", ErrProtocol, got.Size, n)
	}
	if i, err := infoOf(f.name, got); err == nil {
		f.tell(i)
	}
	return nil
}

// ReadAt reads the file's bytes at off. If the file is read in order, one request serves many
// reads, even small ones.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	switch {
	case f.ctx.Err() != nil:
		return 0, f.c.fail("read", f.name, fs.ErrClosed)
	case off < 0:
		return 0, f.c.fail("read", f.name, fs.ErrInvalid)
	case off >= f.info.size:
		return 0, io.EOF
	}
	end := false
	if int64(len(p)) > f.info.size-off {
		p, end = p[:f.info.size-off], true
	}
	for e := new(attempts); n < len(p); {
		got, err := f.readSome(p[n:], off+int64(n))
		n += got
		if got > 0 {
			*e = attempts{}
		}
		if err == nil {
			continue
		}
		if f.ctx.Err() != nil {
			return n, f.c.fail("read", f.name, context.Cause(f.ctx))
		}
		pause, again := f.c.again(e, err)
		if !again {
			return n, f.c.fail("read", f.name, given(err, e.tries))
		}
		if err := rate.Sleep(f.ctx, pause); err != nil {
			return n, f.c.fail("read", f.name, err)
		}
	}
	if end {
		return n, io.EOF
	}
	return n, nil
}

// readSome reads some bytes at off: from an open answer that contains them, or from a new one.
func (f *file) readSome(p []byte, off int64) (int, error) {
	st := f.c.streams.take(f.ctx, off)
	if st == nil {
		body, n, err := f.begin(off, int64(len(p)))
		if err != nil {
			return 0, err
		}
		st = &stream{file: f.ctx, body: body, at: off, end: off + n}
	}
	if int64(len(p)) > st.end-off {
		p = p[:st.end-off]
	}
	n, err := io.ReadFull(st, p)
	f.mu.Lock()
	f.next = off + int64(n)
	f.mu.Unlock()
	if err != nil {
		_ = st.body.Close()
		return n, err
	}
	f.c.streams.put(st)
	return n, nil
}

// begin requests data at off: `need` bytes or, if the file is being read in order, more.
func (f *file) begin(off, need int64) (io.ReadCloser, int64, error) {
	f.mu.Lock()
	run := need
	switch {
	case off == 0 && f.listed && f.run == 0:
		f.run, run = firstRun, f.info.size // request the whole file, as Open does
	case off == f.next && off > 0:
		f.run = min(max(runGrowth*f.run, firstRun), f.info.size)
		run = max(f.run, need)
	}
	f.mu.Unlock()
	run = min(run, f.info.size-off)
	body, err := f.get(f.ctx, off, run)
	return body, run, err
}

// OpenFile opens a file for reading. Writing returns errors.ErrUnsupported, as an object cannot be
// written in place.
func (s *Store) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	err := a.Check()
	if err == nil && a.Writes() {
		err = s.lacks(ctx, name, "an object cannot be changed where it is, only replaced")
	}
	var f *file
	if err == nil {
		f, err = s.open(ctx, name)
	}
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	return handle{f, s}, nil
}

// A handle is a file opened by OpenFile. It can only be read.
type handle struct {
	*file
	s *Store
}

func (h handle) refuse(op string) error { return h.c.fail(op, h.name, rules.ErrNotWriting) }

// WriteAt returns an error, because the handle is open for reading only.
func (h handle) WriteAt([]byte, int64) (int, error) { return 0, h.refuse("write") }

// Truncate returns an error, because the handle is open for reading only.
func (h handle) Truncate(int64) error { return h.refuse("truncate") }

// SetAttr returns an error, because the attributes of an object cannot be set.
func (h handle) SetAttr(a store.Attr) error { return h.s.SetAttr(h.ctx, h.name, a, true) }

// Sync does nothing, because nothing can be written.
func (h handle) Sync() error { return nil }
