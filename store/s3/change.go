package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

const (
	// maxCopy is the largest object, in bytes, that S3 copies in one request. A larger one is
	// copied in ranges of copyPart bytes, copyLanes at a time.
	maxCopy   = 5 << 30
	copyPart  = 512 << 20
	copyLanes = 4

	// removeBatch is how many objects are removed in one request.
	removeBatch = 1000
)

// lacks returns an error that S3 does not support an operation, if the name is valid.
func (s *Store) lacks(ctx context.Context, name, text string) error {
	if _, err := s.key(ctx, name); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errors.ErrUnsupported, text)
}

// Mkdir returns an error: a directory exists as soon as it has a file.
func (s *Store) Mkdir(ctx context.Context, name string, _ fs.FileMode) error {
	return s.fail("mkdir", name, s.lacks(ctx, name, "S3 has no directories to make: one comes with its first file"))
}

// Link returns an error.
func (s *Store) Link(ctx context.Context, from, to string) error {
	_, err := s.key(ctx, from)
	if err == nil {
		err = s.lacks(ctx, to, "an object has one name")
	}
	return s.fail("link", to, err)
}

// Symlink returns an error.
func (s *Store) Symlink(ctx context.Context, _, name string) error {
	return s.fail("symlink", name, s.lacks(ctx, name, "S3 has no symbolic links"))
}

// Readlink returns an error: there are no symbolic links.
func (s *Store) Readlink(ctx context.Context, name string) (string, error) {
	_, err := s.stat(ctx, name)
	if err == nil {
		err = rules.ErrNotLink
	}
	return "", s.fail("readlink", name, err)
}

// SetAttr returns an error.
func (s *Store) SetAttr(ctx context.Context, name string, a store.Attr, _ bool) error {
	err := a.Check()
	if err == nil {
		err = s.lacks(ctx, name, "an object has the time of its upload, and neither owner nor permissions")
	}
	return s.fail("setattr", name, err)
}

// Space returns an error.
func (s *Store) Space(ctx context.Context, name string) (store.Space, error) {
	return store.Space{}, s.fail("statfs", name, s.lacks(ctx, name, "S3 does not say how much room there is"))
}

// Remove removes a file.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.fail("remove", name, s.remove(ctx, name))
}

func (s *Store) remove(ctx context.Context, name string) error {
	if name == "." {
		return rules.ErrIsDir
	}
	switch i, err := s.stat(ctx, name); {
	case err != nil:
		return err
	case i.dir:
		return rules.ErrIsDir
	}
	return s.removeKey(ctx, s.prefix+name)
}

func (s *Store) removeKey(ctx context.Context, key string) error {
	return s.do(ctx, func(ctx context.Context) error {
		return s.server.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
	})
}

// RemoveDir removes a directory that consists only of an object whose key ends in a slash, as
// consoles make them.
func (s *Store) RemoveDir(ctx context.Context, name string) error {
	return s.fail("rmdir", name, s.removeDir(ctx, name))
}

func (s *Store) removeDir(ctx context.Context, name string) error {
	if name == "." {
		return rules.ErrRoot
	}
	prefix, err := s.dirPrefix(ctx, name)
	if err != nil {
		return err
	}
	l := s.list(ctx, prefix, true)
	defer l.close()
	only, err := l.entry()
	if err == io.EOF {
		return fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	if _, err := l.entry(); err != io.EOF || only.Key != prefix {
		if err == nil || err == io.EOF {
			err = fs.ErrExist
		}
		return err
	}
	return s.removeKey(ctx, prefix)
}

// removeTree removes all objects in a directory, including those whose keys are not valid file
// names.
func (s *Store) removeTree(ctx context.Context, name string) error {
	return s.fail("remove", name, s.removeAll(ctx, name))
}

func (s *Store) removeAll(ctx context.Context, name string) error {
	prefix, err := s.dirPrefix(ctx, name)
	if err != nil {
		return err
	}
	l := s.list(ctx, prefix, true)
	defer l.close()
	var batch []string
	for n := 0; ; n++ {
		o, err := l.entry()
		switch {
		case err == io.EOF && n == 0 && name != ".":
			return fs.ErrNotExist
		case err != nil && err != io.EOF:
			return err
		case err == nil:
			batch = append(batch, o.Key)
		}
		if len(batch) == removeBatch || err == io.EOF && len(batch) > 0 {
			if err := s.removeKeys(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if err == io.EOF {
			return nil
		}
	}
}

// removeKeys removes objects in one request.
func (s *Store) removeKeys(ctx context.Context, keys []string) error {
	return s.do(ctx, func(ctx context.Context) error {
		objects := make(chan minio.ObjectInfo, len(keys))
		for _, k := range keys {
			objects <- minio.ObjectInfo{Key: k}
		}
		close(objects)
		var first error
		for e := range s.server.RemoveObjects(ctx, s.bucket, objects, minio.RemoveObjectsOptions{}) {
			if first == nil {
				first = e.Err
			}
		}
		return first
	})
}

// Rename copies a file and then removes the original, as S3 has no other way. So both names exist
// for a while, or for good if the process dies in between. Renaming a directory is
// errors.ErrUnsupported. Without replace, a name that is taken meanwhile is not replaced.
func (s *Store) Rename(ctx context.Context, from, to string, replace bool) error {
	return s.fail("rename", from, s.rename(ctx, from, to, replace))
}

func (s *Store) rename(ctx context.Context, from, to string, replace bool) error {
	if from == "." || to == "." {
		return rules.ErrRoot
	}
	target, err := s.key(ctx, to)
	if err != nil {
		return err
	}
	i, err := s.stat(ctx, from)
	switch {
	case err != nil:
		return err
	case i.dir:
		return s.lacks(ctx, from, "S3 renames nothing: haul copies a file to its new name and removes it, and does not do that with directories")
	case i.version() == "":
		return errUnsettled
	}
	switch old, err := s.stat(ctx, to); {
	case err == nil && (!replace || old.dir):
		return fmt.Errorf("%s: %w", s.URL(to), fs.ErrExist)
	case err == nil && from == to:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := s.copy(ctx, s.bucket, s.prefix+from, target, i, replace); err != nil {
		return fmt.Errorf("to copy it to %s: %w", s.URL(to), err)
	}
	now, err := s.head(ctx, from, s.prefix+from)
	if err == nil && !now.same(i) {
		err = store.ErrChanged
	}
	if err == nil {
		err = s.removeKey(ctx, s.prefix+from)
	}
	if err != nil {
		return fmt.Errorf("it is at %s now, and could not be removed here: %w", s.URL(to), err)
	}
	return nil
}

// copy makes the server copy an object of a bucket.
func (s *Store) copy(ctx context.Context, bucket, from, to string, i info, replace bool) error {
	src := minio.CopySrcOptions{Bucket: bucket, Object: from, MatchETag: i.etag}
	if i.etag == "" {
		src.MatchUnmodifiedSince = i.unmodifiedSince()
	}
	if replace && i.size <= maxCopy {
		return s.do(withPatience(ctx, maxJoin), func(ctx context.Context) error {
			// CopyObject of Core would not send the ETag.
			_, err := s.server.Client.CopyObject(ctx, minio.CopyDestOptions{Bucket: s.bucket, Object: to}, src)
			return err
		})
	}
	var o minio.ObjectInfo
	err := s.do(ctx, func(ctx context.Context) (err error) {
		o, err = s.server.StatObject(ctx, bucket, from, minio.StatObjectOptions{})
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
		return taken(s.do(ctx, func(ctx context.Context) error {
			_, err := s.server.PutObject(ctx, s.bucket, to, bytes.NewReader(nil), 0, "", s.contentHash(nil), guarded)
			return err
		}))
	}
	var id string
	err = s.do(ctx, func(ctx context.Context) (err error) {
		id, err = s.server.NewMultipartUpload(ctx, s.bucket, to, put)
		return err
	})
	if err != nil {
		return err
	}
	list, err := s.copyParts(ctx, bucket, from, to, id, i)
	if err == nil && i.etag == "" { // an older file may have the name now, and match unmodifiedSince
		if now, e := s.head(ctx, i.name, from); e != nil || !now.same(i) {
			err = cmp.Or(e, store.ErrChanged)
		}
	}
	if err == nil {
		join := minio.PutObjectOptions{}
		if !replace {
			join.SetMatchETagExcept("*")
		}
		err = taken(s.do(withPatience(ctx, maxJoin), func(ctx context.Context) error {
			_, err := s.server.CompleteMultipartUpload(ctx, s.bucket, to, id, list, join)
			return err
		}))
	}
	if err != nil {
		u := &upload{s: s, key: to, ctx: ctx}
		u.abort(id)
	}
	return err
}

// taken converts the refusal of a name that must be free to fs.ErrExist.
func taken(err error) error {
	if errors.Is(err, store.ErrChanged) {
		return fs.ErrExist
	}
	return err
}

// copyParts makes the server copy an object into the parts of a multipart upload.
func (s *Store) copyParts(ctx context.Context, bucket, from, to, id string, i info) ([]minio.CompletePart, error) {
	size := max(copyPart, i.size/maxParts+1)
	list := make([]minio.CompletePart, (i.size+size-1)/size)
	ctx, cancel := context.WithCancelCause(withPatience(ctx, maxJoin))
	defer cancel(nil)
	guard := map[string]string{"x-amz-copy-source-if-match": i.etag}
	if i.etag == "" {
		guard = map[string]string{"x-amz-copy-source-if-unmodified-since": i.unmodifiedSince().Format(http.TimeFormat)}
	}
	lanes := make(chan struct{}, copyLanes)
	var work sync.WaitGroup
	for n := range list {
		lanes <- struct{}{}
		work.Go(func() {
			defer func() { <-lanes }()
			off := int64(n) * size
			err := s.do(ctx, func(ctx context.Context) (err error) {
				list[n], err = s.server.CopyObjectPart(ctx, bucket, from, s.bucket, to, id, n+1, off, min(size, i.size-off), guard)
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
