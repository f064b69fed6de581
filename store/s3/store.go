package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// maxKey is the most bytes that a key may have.
const maxKey = 1024

// A Store is a [store.Tree] of the objects below a prefix of a bucket. Calls that S3 does not
// support return errors.ErrUnsupported: making directories, writing files in place, links, and
// setting attributes.
//
// Any goroutine may call its methods.
type Store struct {
	bucket  string
	prefix  string // "", or it ends in a slash
	config  Config
	server  *minio.Core
	host    string
	secure  bool // TLS
	signer  *signer
	http    *transport
	life    context.Context // cancelled by Close
	end     context.CancelCauseFunc
	pause   time.Duration // firstPause, except in tests
	reached atomic.Bool   // whether the server has ever answered
	streams streams
	memory  memory
	uploads sources
}

var _ store.Tree = (*Store)(nil)

// New returns the store of the objects below a prefix in a bucket; "" and "." mean the whole
// bucket. It does not connect yet.
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
	s := &Store{bucket: bucket, prefix: prefix, config: c, pause: firstPause}
	s.config.fill()
	s.memory.free = s.config.Memory
	s.life, s.end = context.WithCancelCause(context.Background())
	s.http = newTransport(s)
	if err := s.connect(newEnvironment(c.Getenv)); err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	return s, nil
}

// fill sets fields that are zero to their defaults.
func (c *Config) fill() {
	for _, d := range []struct {
		field *time.Duration
		usual time.Duration
	}{{&c.ConnectTimeout, DefaultConnectTimeout}, {&c.AnswerTimeout, DefaultAnswerTimeout}, {&c.StallTimeout, DefaultStallTimeout}} {
		if *d.field <= 0 {
			*d.field = d.usual
		}
	}
	if c.Conns <= 0 {
		c.Conns = DefaultConns
	}
	if c.Lanes <= 0 {
		c.Lanes = DefaultLanes
	}
	if c.Memory <= 0 {
		c.Memory = DefaultMemory
	}
	c.UserAgent = cmp.Or(c.UserAgent, "haul")
}

// connect makes the client of package minio, which does not connect yet.
func (s *Store) connect(e *environment) error {
	files, err := e.read()
	if err != nil {
		return err
	}
	endpoint := cmp.Or(s.config.Endpoint, e.endpoint(files), "https://s3.amazonaws.com")
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%w: the endpoint is no URL of a server, such as https://s3.example.com", fs.ErrInvalid)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("%w: the endpoint is to have a host and nothing else, such as https://s3.example.com", fs.ErrInvalid)
	}
	s.host, s.secure = u.Host, u.Scheme == "https"
	region := cmp.Or(s.config.Region, e.region(files))
	if region == "" && !isAmazon(u.Hostname()) {
		region = "us-east-1"
	}
	o := &minio.Options{Secure: s.secure, Transport: s.http, Region: region, MaxRetries: 1, BucketLookup: minio.BucketLookupAuto}
	switch {
	case s.config.Anonymous:
		s.signer = &signer{creds: credentials.NewStaticV4("", "", "")} // no keys
	case s.config.Keys != nil:
		s.signer = newSigner(s.config.Keys, nil)
	default:
		s.signer = newSigner(e.keys, e.changed)
	}
	o.Creds = s.signer.creds
	if s.server, err = minio.NewCore(u.Host, o); err != nil {
		return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return nil
}

// isAmazon reports whether a host is one of Amazon's, which can be asked for the region of a
// bucket.
func isAmazon(host string) bool {
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
}

// ParseURL splits s3://BUCKET/KEY. The key has no leading slash, and is unescaped as in any URL.
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

// Close ends everything that is under way, and closes the connections.
func (s *Store) Close() error {
	s.end(fs.ErrClosed)
	s.streams.closeAll()
	s.http.http.CloseIdleConnections()
	return nil
}

// URL returns the URL of a name, for messages.
func (s *Store) URL(name string) string {
	if name == "." {
		name = ""
	}
	return "s3://" + s.bucket + "/" + s.prefix + name
}

// Endpoint returns the host and the port of the server.
func (s *Store) Endpoint() string { return s.host }

// Secure reports whether the server is reached over TLS.
func (s *Store) Secure() bool { return s.secure }

// key returns the key of a name, or fs.ErrInvalid if no key can have it.
func (s *Store) key(ctx context.Context, name string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	key := s.prefix + name
	if err := rules.CheckName(ctx, name); err != nil {
		return "", err
	}
	if len(key) > maxKey || !utf8.ValidString(key) || strings.TrimSpace(key) == "" {
		return "", fmt.Errorf("%w: a key has 1 to %d bytes of UTF-8, and not white space alone", fs.ErrInvalid, maxKey)
	}
	return key, nil
}

// dirPrefix returns the prefix of the keys in a directory.
func (s *Store) dirPrefix(ctx context.Context, name string) (string, error) {
	if name == "." {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return s.prefix, nil
	}
	key, err := s.key(ctx, name)
	return key + "/", err
}

// Stat describes the object of that name, or else the directory. There is a directory if a key
// begins with the name and a slash.
func (s *Store) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := s.stat(ctx, name)
	if err != nil {
		return nil, s.fail("stat", name, err)
	}
	return fi, nil
}

// Lstat is Stat: S3 has no symbolic links.
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

// dirInstead describes the directory of a name that no object has. If there is none, it returns
// err, the error of the object.
func (s *Store) dirInstead(ctx context.Context, name string, err error) (info, error) {
	there, e := s.hasAny(ctx, s.prefix+name+"/")
	switch {
	case e != nil && errors.Is(e, fs.ErrPermission) && !errors.Is(e, ErrLogin): // the keys allow reading, but not listing
		return info{}, s.why(ctx, s.prefix+name, err)
	case e != nil:
		return info{}, e
	case there:
		return info{name: path.Base(name), dir: true}, nil
	}
	return info{}, err
}

// head describes an object. A refusal of a HEAD has no body, so for any refusal, except that of a
// missing file, head asks for the reason. It believes that a file is missing only if another
// request shows that the server speaks S3 and accepts the keys: with wrong keys, a HEAD may get the
// same answer.
func (s *Store) head(ctx context.Context, name, key string) (i info, err error) {
	a := new(answer)
	err = s.do(context.WithValue(ctx, answerKey{}, a), func(ctx context.Context) error {
		o, err := s.server.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
		if err == nil {
			i, err = settledInfo(name, o, a)
		}
		return err
	})
	r, refused := errors.AsType[*RefusedError](err)
	if !refused || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrLost) || r.Code != "" && r.Code != "AccessDenied" && r.Code != "Conflict" {
		return i, err
	}
	return i, s.why(ctx, key, err)
}

// why asks for the first byte of an object, to find out the reason for a refused HEAD. If that
// request succeeds, it returns the refusal itself.
func (s *Store) why(ctx context.Context, key string, refusal error) error {
	why := s.do(ctx, func(ctx context.Context) error {
		o := minio.GetObjectOptions{}
		_ = o.SetRange(0, 0)
		body, _, _, err := s.server.GetObject(ctx, s.bucket, key, o)
		if err == nil {
			_ = body.Close()
		}
		return err
	})
	e, refused := errors.AsType[*RefusedError](why)
	if why == nil || refused && e.Status == http.StatusRequestedRangeNotSatisfiable { // an empty object
		return refusal
	}
	return why
}

// hasAny reports whether any key begins with a prefix.
func (s *Store) hasAny(ctx context.Context, prefix string) (there bool, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		there = false
		for o := range s.server.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, MaxKeys: 1, Recursive: true, FetchOwner: new(bool)}) {
			there = o.Err == nil
			return o.Err
		}
		return nil
	})
	return there, err
}

// An info describes an object, or a directory.
type info struct {
	name string // the last element
	dir  bool
	size int64
	time time.Time
	etag string // without quotes; "" if there is none
	md5  bool   // whether the ETag is the MD5 of the content
	told bool   // whether md5 is known: an answer about this object says it, a listing does not

	// settled says that the server's clock is at least settleTime after time, so that a later write
	// gets another time. Only then can time distinguish versions without an ETag (RFC 9110
	// §8.8.2.2).
	settled bool
}

const settleTime = 2 * time.Second

// unmodifiedSince returns a time for a condition on an object without an ETag: its last change is
// before that time, and any later change is not. The second is added because versitygw treats a
// change at exactly the given time as later.
func (i info) unmodifiedSince() time.Time { return i.time.UTC().Add(time.Second) }

// errUnsettled says that two versions of an object cannot be distinguished.
var errUnsettled = fmt.Errorf("%w (%w): it has no ETag, as files that were not put there by S3, and by the server's clock it has changed within the last 2 s, or will; open it again later", store.ErrUnsettled, ErrProtocol)

// version returns a string that two objects of one name share only if they have the same content,
// or "" if nothing shows that.
func (i info) version() string {
	if i.etag == "" && i.settled {
		return i.time.UTC().Format(http.TimeFormat)
	}
	return i.etag
}

// same reports whether two descriptions are of the same version.
func (i info) same(o info) bool {
	return i.etag == o.etag && i.size == o.size && (i.etag != "" || i.time.Equal(o.time))
}

// settledInfo describes the object that an answer is about. From the date of the answer it also
// determines whether the object is settled.
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

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.time }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

// Version returns the ETag, as for an open file.
func (i info) Version() string { return i.etag }

// Mode returns default permissions, as S3 has none.
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// Capabilities returns the capabilities of S3: a directory exists as soon as it has a file, a file
// has the time of its upload, and a listing describes a thousand files in one request.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{
		Features:   store.Features{OwnTimes: true, ImpliedDirs: true, CheapListings: true, NoModes: true},
		RemoveAll:  s.removeTree,
		OpenListed: s.openListed,
		Clone:      s.clone,
		Match:      s.match,
		Distance:   &store.Distance{RoundTrip: s.roundTrip, OpenFiles: openFiles, TooManyOpen: tooManyOpen},
	}
}
