package s3

import (
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/store"
)

// An info describes an object, or a directory.
type info struct {
	name string // last element of the name
	dir  bool
	size int64
	time time.Time
	etag string // without quotes; "" if the object has no ETag
	md5  bool   // the ETag is the MD5 of the content
	told bool   // the value of md5 is known, because an answer about this object showed it; a listing does not

	// settled says that the last change was at least settleTime ago, by the server's clock, so that
	// a later change results in a different time. Only then does the time distinguish versions of
	// an object without an ETag (RFC 9110 §8.8.2.2).
	settled bool
}

const settleTime = 2 * time.Second

// unmodifiedSince returns a time for the If-Unmodified-Since condition on an object without an ETag.
// It is after the object's last change, and before any later change if the object is settled. It is
// one second after the last change, because versitygw treats a change at exactly the given time as
// later.
func (i info) unmodifiedSince() time.Time { return i.time.UTC().Add(time.Second) }

// errUnsettled says that the object may change without a visible difference, because it has no ETag
// and its last change was too recent.
var errUnsettled = fmt.Errorf("%w (%w): it has no ETag, as files that were not put there by S3, and by the server's clock it has changed within the last 2 s, or will; open it again later", store.ErrUnsettled, ErrProtocol)

// version returns a string that identifies the content: if it is the same for two objects of one
// name, they have the same content. It returns "" if nothing identifies the content.
func (i info) version() string {
	if i.etag == "" && i.settled {
		return i.time.UTC().Format(http.TimeFormat)
	}
	return i.etag
}

// same reports whether two descriptions are of the same version of an object.
func (i info) same(o info) bool {
	return i.etag == o.etag && i.size == o.size && (i.etag != "" || i.time.Equal(o.time))
}

// settledInfo describes the object that an answer is about. It compares the date of the answer with
// the object's time to set settled.
func settledInfo(name string, o minio.ObjectInfo, a *answer) (info, error) {
	i, err := infoOf(name, o)
	i.settled = !a.date.IsZero() && !i.time.After(a.date.Add(-settleTime))
	return i, err
}

func infoOf(name string, o minio.ObjectInfo) (info, error) {
	if o.Size < 0 {
		return info{}, fmt.Errorf("%w: it has no size", ErrProtocol)
	}
	i := info{name: path.Base(name), size: o.Size, time: o.LastModified, etag: o.ETag, told: true}
	encrypted := o.Metadata.Get("X-Amz-Server-Side-Encryption")
	i.md5 = len(o.ETag) == 32 && (encrypted == "" || encrypted == "AES256") && o.Metadata.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") == ""
	return i, nil
}

func (i info) Name() string { return i.name }

func (i info) Size() int64 { return i.size }

func (i info) ModTime() time.Time { return i.time }

func (i info) IsDir() bool { return i.dir }

func (i info) Sys() any { return nil }

// Version returns the ETag, or "" if the object has none. The Version of an open file then uses the
// time of the last change instead.
func (i info) Version() string { return i.etag }

// Mode returns default permissions, because S3 has no permissions.
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
