package s3

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/store"
)

const (
	// maxUploadPages is the largest number of pages of unfinished uploads that are searched for one
	// to resume. maxCandidates is the largest number of uploads of the same name that are examined.
	maxUploadPages = 10
	maxCandidates  = 16
)

// find looks for a multipart upload that an earlier run left. If the keys do not allow listing
// uploads, it finds nothing.
func (u *upload) find() error {
	if !u.c.uploads.enter(u.key) {
		return store.ErrBusy
	}
	err := u.look()
	if errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrLogin) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		u.c.uploads.leave(u.key)
	}
	return err
}

func (u *upload) look() error {
	if u.create.Size <= u.part {
		return nil
	}
	var found []minio.ObjectMultipartInfo
	var after, marker string
	for range maxUploadPages {
		var page minio.ListMultipartUploadsResult
		err := u.c.do(u.ctx, func(ctx context.Context) (err error) {
			page, err = u.c.server.ListMultipartUploads(ctx, u.c.bucket, u.key, after, marker, "", 0)
			return err
		})
		if err != nil {
			return err
		}
		for _, m := range page.Uploads {
			if m.Key == u.key {
				found = append(found, m)
			}
		}
		// Uploads are listed in the order of their keys.
		past := len(page.Uploads) > 0 && page.Uploads[len(page.Uploads)-1].Key > u.key
		if !page.IsTruncated || past || page.NextKeyMarker == after && page.NextUploadIDMarker == marker {
			break
		}
		after, marker = page.NextKeyMarker, page.NextUploadIDMarker
	}
	slices.SortStableFunc(found, func(a, b minio.ObjectMultipartInfo) int { return b.Initiated.Compare(a.Initiated) })
	for _, m := range found[:min(len(found), maxCandidates)] {
		parts, err := u.partsOf(m.UploadID)
		if err != nil && !errors.Is(err, errNoUpload) {
			return err
		}
		if len(parts) > 0 {
			u.id, u.known = m.UploadID, parts
			return nil
		}
	}
	return nil
}

// partsOf returns the parts of a multipart upload. It returns no parts if they belong to a
// different source.
func (u *upload) partsOf(id string) (map[int64]minio.ObjectPart, error) {
	parts := map[int64]minio.ObjectPart{}
	marker := 0
	for {
		var page minio.ListObjectPartsResult
		err := u.c.do(u.ctx, func(ctx context.Context) (err error) {
			page, err = u.c.server.ListObjectParts(ctx, u.c.bucket, u.key, id, marker, 0)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, p := range page.ObjectParts {
			n := int64(p.PartNumber) - 1
			if n < 0 || n*u.part >= u.create.Size || p.Size != min(u.part, u.create.Size-n*u.part) {
				return nil, nil
			}
			p.ETag = strings.Trim(p.ETag, `"`)
			parts[n] = p
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			return parts, nil
		}
		marker = page.NextPartNumberMarker
	}
}

// A resumable is an upload that a later run can resume.
type resumable struct{ *upload }

var _ store.Resumer = (*resumable)(nil)

// Unwrap is for [store.As].
func (r *resumable) Unwrap() any { return r.upload }

// Resumed returns 0: the parts that an earlier upload left must first be compared with the source.
// match does that.
func (*resumable) Resumed() int64 { return 0 }

// match returns how many bytes, from the start of the source, an earlier run has sent. It reads
// these bytes, and compares the MD5 of each part with the MD5 that the server reports. The caller
// continues to write after them. Any further parts on the server are compared when the same parts
// are written.
func match(ctx context.Context, to store.Upload, src io.ReaderAt) (int64, error) {
	u, ok := store.As[*upload](to)
	if !ok || len(u.known) == 0 {
		return 0, nil
	}
	if err := u.reserve(); err != nil {
		return 0, u.c.fail("resume", u.name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	buf := u.buffer(1)
	defer func() { u.free = append(u.free, buf) }()
	for n := int64(0); ; n++ {
		was, there := u.known[n]
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if !there {
			return min(n*u.part, u.create.Size), nil
		}
		got, err := src.ReadAt(buf[:was.Size], n*u.part)
		if err != nil && err != io.EOF {
			return 0, err
		}
		sum := md5.Sum(buf[:got])
		if int64(got) != was.Size || was.ETag != hex.EncodeToString(sum[:]) {
			return n * u.part, nil
		}
		u.parts[n] = &part{state: sent, size: was.Size, etag: was.ETag, sum: sum}
		u.size = n*u.part + was.Size
		u.multi = true
	}
}

// Discard ends the upload and removes its parts.
func (r *resumable) Discard() error {
	u := r.upload
	u.mu.Lock()
	ended := u.ended
	u.ended = true
	u.mu.Unlock()
	if !ended {
		u.finish(true)
	}
	return nil
}
