package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
)

// maxForget limits the time that a server may take to discard an upload.
const maxForget = 10 * time.Second

// head describes an object. A refusal of a HEAD has no body, so if the server refuses, head sends a
// second request to learn the reason. With wrong keys, some servers answer as if the file were
// missing, so head trusts that answer only if another request shows that the server speaks S3 and
// accepts the keys.
func (c *client) head(ctx context.Context, name, key string) (i info, err error) {
	a := new(answer)
	err = c.do(context.WithValue(ctx, answerKey{}, a), func(ctx context.Context) error {
		o, err := c.server.StatObject(ctx, c.bucket, key, minio.StatObjectOptions{})
		if err == nil {
			i, err = settledInfo(name, o, a)
		}
		return err
	})
	r, refused := errors.AsType[*RefusedError](err)
	if !refused || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrLost) || r.Code != "" && r.Code != "AccessDenied" && r.Code != "Conflict" {
		return i, err
	}
	return i, c.why(ctx, key, err)
}

// why requests the first byte of an object, to learn why a HEAD was refused. If that request
// succeeds, it returns the parameter `refusal`.
func (c *client) why(ctx context.Context, key string, refusal error) error {
	why := c.do(ctx, func(ctx context.Context) error {
		o := minio.GetObjectOptions{}
		_ = o.SetRange(0, 0)
		body, _, _, err := c.server.GetObject(ctx, c.bucket, key, o)
		if err == nil {
			_ = body.Close()
		}
		return err
	})
	e, refused := errors.AsType[*RefusedError](why)
	if why == nil || refused && e.Status == http.StatusRequestedRangeNotSatisfiable { // the object is empty
		return refusal
	}
	return why
}

// hasAny reports whether at least one key begins with a prefix.
func (c *client) hasAny(ctx context.Context, prefix string) (there bool, err error) {
	err = c.do(ctx, func(ctx context.Context) error {
		there = false
		for o := range c.server.ListObjectsIter(ctx, c.bucket, minio.ListObjectsOptions{Prefix: prefix, MaxKeys: 1, Recursive: true, FetchOwner: new(bool)}) {
			there = o.Err == nil
			return o.Err
		}
		return nil
	})
	return there, err
}

func (c *client) removeKey(ctx context.Context, key string) error {
	return c.do(ctx, func(ctx context.Context) error {
		return c.server.RemoveObject(ctx, c.bucket, key, minio.RemoveObjectOptions{})
	})
}

// removeKeys removes objects in a single request.
func (c *client) removeKeys(ctx context.Context, keys []string) error {
	return c.do(ctx, func(ctx context.Context) error {
		objects := make(chan minio.ObjectInfo, len(keys))
		for _, k := range keys {
			objects <- minio.ObjectInfo{Key: k}
		}
		close(objects)
		var first error
		for e := range c.server.RemoveObjects(ctx, c.bucket, objects, minio.RemoveObjectsOptions{}) {
			if first == nil {
				first = e.Err
			}
		}
		return first
	})
}

// contentHash returns the SHA-256 of a request's body, which the signature includes. It returns ""
// with TLS, which already protects the body.
func (c *client) contentHash(data []byte) string {
	if c.secure {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// abort discards a multipart upload on the server. If that fails, a lifecycle rule of the bucket
// must discard it: see docs/guide.md.
func (c *client) abort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxForget)
	defer cancel()
	_ = c.once(ctx, func(ctx context.Context) error {
		return c.server.AbortMultipartUpload(ctx, c.bucket, key, id)
	})
}
