package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/haul-project/haul/store"
)

// A Store is a [store.Tree] of the objects below a prefix of a bucket. S3 does not support making
// directories, writing files in place, links, and setting attributes: these calls return
// errors.ErrUnsupported.
//
// Any goroutine may call its methods.
type Store struct{ *client }

var _ store.Tree = (*Store)(nil)

// New returns a store of the objects below a prefix of a bucket; "" and "." mean the whole bucket.
// It does not connect to the server yet.
func New(bucket, prefix string, c Config) (*Store, error) {
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return nil, fmt.Errorf("s3: %w: the name of the bucket is %q: %w", fs.ErrInvalid, bucket, err)
	}
	prefix = strings.Trim(prefix, "/")
	switch {
	case prefix == "" || prefix == ".":
		prefix = ""
	case !store.ValidName(prefix) || !utf8.ValidString(prefix):
		return nil, fmt.Errorf("s3: %w: the prefix is %q", fs.ErrInvalid, prefix)
	default:
		prefix += "/"
	}
	s := &Store{&client{bucket: bucket, prefix: prefix, config: c, pause: firstPause}}
	s.config.fill()
	s.memory.free, s.streams.most = s.config.Memory, max(1, s.config.Conns/maxOfConns)
	s.life, s.end = context.WithCancelCause(context.Background())
	s.http = newTransport(&s.config, s.life)
	if err := s.connect(newEnvironment(c.Getenv)); err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	return s, nil
}

// ParseURL splits a URL of the form s3://BUCKET/KEY. The key has no leading slash, and is
// unescaped.
func ParseURL(s string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(s, "s3://")
	if !ok {
		return "", "", errors.New("it does not begin with s3://")
	}
	if strings.ContainsAny(rest, "?#") {
		return "", "", errors.New("a ? or a # in a name is written %3F or %23")
	}
	bucket, key, _ = strings.Cut(rest, "/")
	if key, err = url.PathUnescape(key); err != nil {
		return "", "", err
	}
	switch {
	case bucket == "":
		return "", "", errors.New("the URL has no bucket; write s3://BUCKET/KEY")
	case strings.ContainsAny(bucket, "@:%"):
		return "", "", errors.New("an S3 URL has the bucket alone before the path; the endpoint is AWS_ENDPOINT_URL, and the keys are AWS_PROFILE's")
	case strings.IndexByte(key, 0) >= 0:
		return "", "", errors.New("a name cannot hold a NUL")
	}
	return bucket, key, nil
}

// Close ends all calls in progress, and closes the connections.
func (s *Store) Close() error {
	s.end(fs.ErrClosed)
	s.streams.closeAll()
	s.http.http.CloseIdleConnections()
	return nil
}

// URL returns the URL of a name, for messages.
func (s *Store) URL(name string) string { return s.url(name) }

// Endpoint returns the URL of the server: the scheme, which is http or https, and the host with its
// port.
func (s *Store) Endpoint() *url.URL {
	if s.secure {
		return &url.URL{Scheme: "https", Host: s.host}
	}
	return &url.URL{Scheme: "http", Host: s.host}
}

// Stat describes the object of that name or, if there is no such object, the directory. A directory
// exists if a key begins with its name and a slash.
func (s *Store) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := s.stat(ctx, name)
	if err != nil {
		return nil, s.fail("stat", name, err)
	}
	return fi, nil
}

// Lstat is the same as Stat, because S3 has no symbolic links.
func (s *Store) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return s.Stat(ctx, name)
}

func (s *Store) stat(ctx context.Context, name string) (info, error) {
	if name == "." {
		_, err := s.dirPrefix(ctx, name)
		return info{name: ".", dir: true}, err
	}
	key, err := s.key(ctx, name)
	if err != nil {
		return info{}, err
	}
	i, err := s.head(ctx, name, key)
	if errors.Is(err, fs.ErrNotExist) {
		return s.dirInstead(ctx, name, err)
	}
	return i, err
}

// dirInstead describes the directory of that name, after no object of that name was found. If there
// is no such directory either, it returns err, which is the error for the object.
func (s *Store) dirInstead(ctx context.Context, name string, err error) (info, error) {
	there, e := s.hasAny(ctx, s.prefix+name+"/")
	switch {
	case e != nil && errors.Is(e, fs.ErrPermission) && !errors.Is(e, ErrLogin):
		// The keys permit reading, but not listing.
		return info{}, s.why(ctx, s.prefix+name, err)
	case e != nil:
		return info{}, e
	case there:
		return info{name: path.Base(name), dir: true}, nil
	}
	return info{}, err
}
