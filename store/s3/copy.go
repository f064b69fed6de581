package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/store"
)

// copy makes the server copy an object, which may be in another bucket, to the key `to` of this
// bucket.
func (c *client) copy(ctx context.Context, bucket, from, to string, i info, replace bool) error {
	src := minio.CopySrcOptions{Bucket: bucket, Object: from, MatchETag: i.etag}
	if i.etag == "" {
		src.MatchUnmodifiedSince = i.unmodifiedSince()
	}
	if replace && i.size <= maxCopy {
		return c.do(withPatience(ctx, maxJoin), func(ctx context.Context) error {
			// The method CopyObject of minio.Core does not send the ETag as a condition; the method
			// of minio.Client does.
			_, err := c.server.Client.CopyObject(ctx, minio.CopyDestOptions{Bucket: c.bucket, Object: to}, src)
			return err
		})
	}
	var o minio.ObjectInfo
	err := c.do(ctx, func(ctx context.Context) (err error) {
		o, err = c.server.StatObject(ctx, bucket, from, minio.StatObjectOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if now, err := infoOf(i.name, o); err != nil || !now.same(i) {
		return cmp.Or(err, store.ErrChanged)
	}
	put := minio.PutObjectOptions{ContentType: o.ContentType, UserMetadata: o.UserMetadata, ContentEncoding: o.Metadata.Get("Content-Encoding")}
	guarded := minio.PutObjectOptions{ContentType: put.ContentType, UserMetadata: put.UserMetadata, ContentEncoding: put.ContentEncoding, DisableContentSha256: true}
	if !replace {
		guarded.SetMatchETagExcept("*")
	}
	if i.size == 0 {
		return taken(c.do(ctx, func(ctx context.Context) error {
			_, err := c.server.PutObject(ctx, c.bucket, to, bytes.NewReader(nil), 0, "", c.contentHash(nil), guarded)
			return err
		}))
	}
	var id string
	err = c.do(ctx, func(ctx context.Context) (err error) {
		id, err = c.server.NewMultipartUpload(ctx, c.bucket, to, put)
		return err
	})
	if err != nil {
		return err
	}
	list, err := c.copyParts(ctx, bucket, from, to, id, i)
	// Without an ETag, unmodifiedSince also matches an older file that was given the name
	// meanwhile.
	if err == nil && i.etag == "" {
		if now, e := c.head(ctx, i.name, from); e != nil || !now.same(i) {
			err = cmp.Or(e, store.ErrChanged)
		}
	}
	if err == nil {
		join := minio.PutObjectOptions{}
		if !replace {
			join.SetMatchETagExcept("*")
		}
		err = taken(c.do(withPatience(ctx, maxJoin), func(ctx context.Context) error {
			_, err := c.server.CompleteMultipartUpload(ctx, c.bucket, to, id, list, join)
			return err
		}))
	}
	if err != nil {
		c.abort(ctx, to, id)
	}
	return err
}

// taken converts the error for a name that had to be free, but is taken, to fs.ErrExist.
func taken(err error) error {
	if errors.Is(err, store.ErrChanged) {
		return fs.ErrExist
	}
	return err
}

// copyParts makes the server copy an object, range by range, to the parts of a multipart upload.
func (c *client) copyParts(ctx context.Context, bucket, from, to, id string, i info) ([]minio.CompletePart, error) {
	size := max(copyPart, i.size/maxParts+1)
	list := make([]minio.CompletePart, (i.size+size-1)/size)
	ctx, cancel := context.WithCancelCause(withPatience(ctx, maxJoin))
	defer cancel(nil)
	guard := map[string]string{"x-amz-copy-source-if-match": i.etag}
	if i.etag == "" {
		guard = map[string]string{"x-amz-copy-source-if-unmodified-since": i.unmodifiedSince().Format(http.TimeFormat)}
	}
	parallel := make(chan struct{}, copyParallel)
	var work sync.WaitGroup
	for n := range list {
		parallel <- struct{}{}
		work.Go(func() {
			defer func() { <-parallel }()
			off := int64(n) * size
			err := c.do(ctx, func(ctx context.Context) (err error) {
				list[n], err = c.server.CopyObjectPart(ctx, bucket, from, c.bucket, to, id, n+1, off, min(size, i.size-off), guard)
				if err == nil && list[n].ETag == "" {
					err = fmt.Errorf("%w: a copied part has no ETag", ErrProtocol)
				}
				return err
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return list, nil
}

// maxJoin is how long a server may take to join parts into an object, or to copy an object.
const maxJoin = 15 * time.Minute
