package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/store"
)

// An upload is a file that is being written. A file that fits in one part is held in memory until
// Commit, and sent with one PUT. The parts of a larger file are sent as soon as they are full.
type upload struct {
	c      *client
	name   string
	key    string
	create store.Create
	source *file // source that the server copies at Commit; nil if data is written
	part   int64 // size of each part but the last, in bytes
	most   int   // largest number of parts held in memory
	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	reserve func() error           // calls takeMemory; runs only once
	start   func() (string, error) // calls begin; runs only once

	mu     sync.Mutex
	moved  *sync.Cond                 // signalled when a part was sent, or the upload failed or ended
	size   int64                      // size of the file so far, in bytes; guarded by mu
	parts  map[int64]*part            // parts that were written, by number from 0; guarded by mu
	free   [][]byte                   // unused buffers, to be used again; guarded by mu
	held   int                        // number of buffers in use; guarded by mu
	writes int64                      // number of writes so far; guarded by mu
	multi  bool                       // there is more than one part; guarded by mu
	taken  bool                       // takeMemory has succeeded; guarded by mu
	id     string                     // ID of the multipart upload; "" before it begins; guarded by mu
	known  map[int64]minio.ObjectPart // parts that an earlier run has sent; guarded by mu
	err    error                      // why the upload failed; guarded by mu
	ended  bool                       // Commit or Close was called; guarded by mu
}

var _ store.Located = (*upload)(nil)

// Location returns the URL of the file.
func (u *upload) Location() store.Location { return store.Location{Path: u.c.url(u.name)} }

// takeMemory waits until there is memory for several parts, and reserves it.
func (u *upload) takeMemory() error {
	if err := u.c.memory.take(u.ctx, u.weight()); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken = true
	return nil
}

func (u *upload) weight() int64 { return min(int64(u.most)*u.part, u.c.config.Memory) }

// begin begins a multipart upload, unless there is one already, and returns its ID.
func (u *upload) begin() (id string, err error) {
	u.mu.Lock()
	id = u.id
	u.mu.Unlock()
	if id != "" {
		return id, nil
	}
	err = u.c.do(u.ctx, func(ctx context.Context) error {
		id, err = u.c.server.NewMultipartUpload(ctx, u.c.bucket, u.key, minio.PutObjectOptions{})
		return err
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.id = id
	return id, err
}

// clone makes the server copy a whole object. That happens only at Commit, so that the file does
// not get its name earlier. Both objects must be on the same server, and accessible with the same
// keys.
func clone(_ context.Context, to store.Upload, from store.File, copied func(n int64)) (int64, error) {
	u, isUpload := store.As[*upload](to)
	src, isFile := store.As[*file](from)
	if !isUpload || !isFile || src.c.host != u.c.host || src.c.secure != u.c.secure || src.info.version() == "" || src.info.etag == "" && src.c.bucket != u.c.bucket {
		return 0, errors.ErrUnsupported
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.source, u.size = src, src.info.size
	copied(u.size)
	return u.size, nil
}

// fail stores err as the reason why the upload failed, unless there is one already.
func (u *upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
	u.moved.Broadcast()
}

// usable returns the reason why nothing more can be written, or nil. The caller holds mu.
func (u *upload) usable() error {
	if u.ended {
		return fs.ErrClosed
	}
	return u.err
}

// WriteAt stores p at off, and sends parts that become full. If the upload's memory is used up, it
// waits until a part was sent.
func (u *upload) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off > maxParts*maxPart {
		return 0, u.c.fail("write", u.name, fs.ErrInvalid)
	}
	if end := off + int64(len(p)); end > u.part {
		if end > maxParts*u.part {
			return 0, u.c.fail("write", u.name, fmt.Errorf("%w: %d parts of %d bytes were begun", errTooLarge, maxParts, u.part))
		}
		if err := u.reserve(); err != nil {
			return 0, u.c.fail("write", u.name, err)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.usable(); err != nil {
		return 0, u.c.fail("write", u.name, err)
	}
	for n < len(p) {
		at := off + int64(n)
		number, within := at/u.part, at%u.part
		piece := p[n:min(len(p), n+int(u.part-within))]
		t, err := u.open(number)
		if err != nil {
			return n, u.c.fail("write", u.name, err)
		}
		t.write(piece, within)
		u.writes++
		t.touched = u.writes
		n += len(piece)
		u.size = max(u.size, at+int64(len(piece)))
		u.multi = u.multi || u.size > u.part
		u.sendFull(t, number)
	}
	return n, nil
}

// open returns a part to which data can be written. The caller holds mu, which open may release for
// a while.
func (u *upload) open(number int64) (*part, error) {
	for {
		if err := u.usable(); err != nil {
			return nil, err
		}
		switch t := u.parts[number]; {
		case t != nil && t.state == filling:
			return t, nil
		case t != nil:
			return nil, errSent
		case u.held < u.most:
			t := &part{buf: u.buffer(number)}
			u.parts[number] = t
			u.held++
			return t, nil
		}
		if !u.evict() {
			u.moved.Wait()
		}
	}
}

// buffer returns an empty buffer whose capacity contains only zeros. The buffer of the first part
// starts small, because many files are small.
func (u *upload) buffer(number int64) []byte {
	if n := len(u.free); n > 0 {
		b := u.free[n-1]
		u.free = u.free[:n-1]
		clear(b[:cap(b)])
		return b[:0]
	}
	if number == 0 && u.create.Size <= u.part {
		return make([]byte, 0, max(0, u.create.Size))
	}
	return make([]byte, 0, u.part)
}

// evict sends the part whose last write was the longest time ago, even if it is not full: gaps
// become zeros, and a later write to them fails. If a part is being sent already, evict does
// nothing and returns false.
func (u *upload) evict() bool {
	var oldest *part
	number := int64(-1)
	for n, t := range u.parts {
		switch {
		case t.state == sending:
			return false
		case t.state == filling && (oldest == nil || t.touched < oldest.touched):
			oldest, number = t, n
		}
	}
	if oldest == nil {
		return false
	}
	n := u.part
	if last := u.create.Size - number*u.part; last > 0 && last < n {
		n = last
	}
	u.send(oldest, number, n)
	return true
}

// sendFull sends a part if it is full. The first part may turn out to be the whole file, so it is
// not sent before a second part exists; then sendFull for that part sends the first one too.
func (u *upload) sendFull(t *part, number int64) {
	if !u.multi && u.create.Size <= u.part {
		return
	}
	if t.isFull(u.part) {
		u.send(t, number, u.part)
	}
	if first := u.parts[0]; first != nil && first.state == filling && first.isFull(u.part) {
		u.send(first, 0, u.part)
	}
}

// send sends the first n bytes of a part. The caller holds mu.
func (u *upload) send(t *part, number, n int64) {
	if grow := n - int64(len(t.buf)); grow > 0 {
		if int64(cap(t.buf)) < n {
			t.buf = append(make([]byte, 0, u.part), t.buf...)
		}
		t.buf = t.buf[:n]
	}
	t.state, t.size = sending, n
	was := u.known[number]
	u.work.Go(func() {
		data := t.buf[:n]
		sum := md5.Sum(data)
		etag, err := hex.EncodeToString(sum[:]), error(nil)
		if was.Size != n || was.ETag != etag {
			etag, err = u.put(number, data, sum[:])
		}
		u.mu.Lock()
		t.state, t.etag, t.sum = sent, etag, sum
		u.free = append(u.free, t.buf)
		t.buf, t.spans = nil, nil
		u.held--
		u.mu.Unlock()
		if err != nil {
			u.fail(err)
		}
		u.moved.Broadcast()
	})
}

// put sends a part, and returns the ETag that the server assigned to it.
func (u *upload) put(number int64, data, sum []byte) (etag string, err error) {
	id, err := u.start()
	if err != nil {
		return "", err
	}
	err = u.c.do(u.ctx, func(ctx context.Context) error {
		o := minio.PutObjectPartOptions{Md5Base64: base64.StdEncoding.EncodeToString(sum), Sha256Hex: u.c.contentHash(data), DisableContentSha256: true}
		p, err := u.c.server.PutObjectPart(ctx, u.c.bucket, u.key, id, int(number)+1, bytes.NewReader(data), int64(len(data)), o)
		etag = p.ETag
		return err
	})
	if err == nil && etag == "" {
		err = fmt.Errorf("%w: a part has no ETag", ErrProtocol)
	}
	return etag, err
}

// Truncate sets the size of the file. It can remove a part that was already sent, but not
// shorten it.
func (u *upload) Truncate(size int64) error {
	if size < 0 || size > maxParts*u.part {
		return u.c.fail("truncate", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		if err := u.usable(); err != nil {
			return u.c.fail("truncate", u.name, err)
		}
		busy := false
		for n, t := range u.parts {
			busy = busy || t.state == sending && (n+1)*u.part > size && size < u.size
		}
		if !busy {
			break
		}
		u.moved.Wait()
	}
	last, within := size/u.part, size%u.part
	if t := u.parts[last]; t != nil && t.state == sent && within > 0 && size < u.size && t.size > within {
		return u.c.fail("truncate", u.name, errSent)
	}
	for n, t := range u.parts {
		switch {
		case n > last || n == last && within == 0:
			if t.state == filling {
				u.free = append(u.free, t.buf)
				u.held--
			}
			delete(u.parts, n)
		case n == last && t.state == filling:
			t.cut(within)
		}
	}
	u.size = size
	u.multi = u.multi || size > u.part
	return nil
}

// Close ends the upload. It discards the parts on the server, unless the upload can be resumed.
func (u *upload) Close() error {
	u.mu.Lock()
	ended := u.ended
	u.ended = true
	u.mu.Unlock()
	if !ended {
		u.finish(u.create.Resume == "")
	}
	return nil
}

// finish ends the upload and its requests. With abort, it also discards the parts on the server.
func (u *upload) finish(abort bool) {
	u.cancel(fs.ErrClosed)
	u.moved.Broadcast()
	u.work.Wait()
	u.mu.Lock()
	id, taken := u.id, u.taken
	u.taken, u.parts, u.free = false, nil, nil
	u.mu.Unlock()
	if taken {
		u.c.memory.give(u.weight())
	}
	if u.create.Resume != "" {
		u.c.uploads.leave(u.key)
	}
	if id != "" && abort {
		u.c.abort(u.ctx, u.key, id)
	}
}
