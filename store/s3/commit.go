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

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/store"
)

// Commit sends the remaining data, and gives the file its name. With Exclusive it fails with
// fs.ErrExist if the name is taken.
func (u *upload) Commit() error {
	err := u.commit()
	if err != nil {
		return u.c.fail("put", u.name, err)
	}
	return nil
}

func (u *upload) commit() error {
	u.mu.Lock()
	if err := u.usable(); err != nil {
		again := u.ended
		u.ended = true
		u.mu.Unlock()
		if !again {
			u.finish(u.create.Resume == "")
		}
		return err
	}
	u.ended = true
	source, size, multi := u.source, u.size, u.multi && u.size > 0
	var whole []byte
	if t := u.parts[0]; t != nil && t.state == filling {
		whole = t.buf
	}
	u.mu.Unlock()
	var err error
	switch {
	case source != nil:
		err = u.c.copy(u.ctx, source.c.bucket, source.key, u.key, source.info, !u.create.Exclusive)
	case multi:
		err = u.commitParts(size)
	default:
		if int64(len(whole)) < size {
			whole = append(whole, make([]byte, size-int64(len(whole)))...)
		}
		err = u.commitWhole(whole)
	}
	// Discard the parts if a later run cannot use them: because the name is taken, or because a
	// small file has no parts.
	u.finish(u.create.Resume == "" || err == nil && !multi || errors.Is(err, fs.ErrExist) || errors.Is(err, errSent))
	return err
}

// putOptions returns the options for the request that gives the file its name.
func (u *upload) putOptions() minio.PutObjectOptions {
	o := minio.PutObjectOptions{DisableContentSha256: true}
	if u.create.Exclusive {
		o.SetMatchETagExcept("*")
	}
	return o
}

// commitWhole uploads a file in one request.
func (u *upload) commitWhole(data []byte) error {
	sum := md5.Sum(data)
	return u.publish(u.ctx, func(ctx context.Context) error {
		_, err := u.c.server.PutObject(ctx, u.c.bucket, u.key, bytes.NewReader(data), int64(len(data)),
			base64.StdEncoding.EncodeToString(sum[:]), u.c.contentHash(data), u.putOptions())
		return err
	}, hex.EncodeToString(sum[:]))
}

// commitParts sends the parts that are still missing, and makes the server join all parts.
func (u *upload) commitParts(size int64) error {
	count := (size + u.part - 1) / u.part
	if err := u.reserve(); err != nil {
		return err
	}
	u.mu.Lock()
	for n, t := range u.parts {
		if t.state == filling {
			u.send(t, n, min(u.part, size-n*u.part))
		}
	}
	err := u.sendGaps(count, size)
	u.mu.Unlock()
	if err != nil {
		return err
	}
	u.work.Wait()
	u.mu.Lock()
	err = u.err
	list := make([]minio.CompletePart, 0, count)
	sums := md5.New()
	for n := range count {
		t := u.parts[n]
		list = append(list, minio.CompletePart{PartNumber: int(n) + 1, ETag: t.etag})
		sums.Write(t.sum[:])
	}
	u.mu.Unlock()
	if err != nil {
		return err
	}
	id, err := u.start()
	if err != nil {
		return err
	}
	err = u.publish(withPatience(u.ctx, maxJoin), func(ctx context.Context) error {
		_, err := u.c.server.CompleteMultipartUpload(ctx, u.c.bucket, u.key, id, list, u.putOptions())
		return err
	}, fmt.Sprintf("%x-%d", sums.Sum(nil), count))
	if err == nil {
		u.mu.Lock()
		u.id = ""
		u.mu.Unlock()
	}
	return err
}

// sendGaps sends zeros for parts that were never written to, and checks the lengths of all other
// parts. The caller holds mu.
func (u *upload) sendGaps(count, size int64) error {
	for n := int64(0); n < count; {
		want := min(u.part, size-n*u.part)
		switch t := u.parts[n]; {
		case u.err != nil:
			return u.err
		case t != nil && t.size != want:
			return errSent
		case t != nil:
			n++
		case u.held < u.most:
			t := &part{buf: u.buffer(n)}
			u.parts[n] = t
			u.held++
			u.send(t, n, want)
		default:
			u.moved.Wait()
		}
	}
	return nil
}

// publish runs `call`, which asks the server to give the file its name. If an answer was lost, the
// file may already have its name; then the object of that name has the ETag `etag`, and publish
// succeeds.
func (u *upload) publish(ctx context.Context, call func(context.Context) error, etag string) error {
	tries := 0
	err := u.c.do(ctx, func(ctx context.Context) error {
		tries++
		return call(ctx)
	})
	switch r, _ := errors.AsType[*RefusedError](err); {
	case errors.Is(err, errNoUpload) && u.isThere(etag):
		return nil // this upload, or another run with the same parts, has given the file its name
	case u.create.Exclusive && errors.Is(err, store.ErrChanged) && tries > 1 && u.isThere(etag):
		return fmt.Errorf("%w; all of it was sent when an answer was lost, so what has the name may be this upload", fs.ErrExist)
	case u.create.Exclusive && errors.Is(err, store.ErrChanged):
		return fs.ErrExist
	case r != nil && r.Code == "InvalidPart":
		return fmt.Errorf("%w, and has replaced parts of this one: %w", store.ErrBusy, err)
	}
	return err
}

// isThere reports whether the object of the upload's name has this ETag.
func (u *upload) isThere(etag string) bool {
	i, err := u.c.head(u.ctx, u.name, u.key)
	return err == nil && i.etag == etag
}
