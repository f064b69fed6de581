package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/haul-project/haul/store/internal/rules"
)

// maxKey is the length, in bytes, of the longest key that S3 allows.
const maxKey = 1024

// A client sends requests for the objects below a prefix of a bucket. object.go contains the
// requests, and attempts.go the rules for retries.
type client struct {
	bucket  string
	prefix  string // "", or a prefix that ends in a slash
	config  Config
	server  *minio.Core
	host    string
	secure  bool // requests use TLS
	signer  *signer
	http    *transport
	life    context.Context // context that Store.Close cancels
	end     context.CancelCauseFunc
	pause   time.Duration // firstPause; shorter in tests
	streams streams
	memory  memory // limits the bytes that uploads hold in memory
	uploads keySet // keys to which a resumable upload is in progress
}

// connect creates the client of package minio. It does not send anything yet.
func (c *client) connect(e *environment) error {
	files, err := e.read()
	if err != nil {
		return err
	}
	endpoint := cmp.Or(c.config.Endpoint, e.endpoint(files), "https://s3.amazonaws.com")
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%w: the endpoint is no URL of a server, such as https://s3.example.com", fs.ErrInvalid)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("%w: the endpoint is to have a host and nothing else, such as https://s3.example.com", fs.ErrInvalid)
	}
	c.host, c.secure = u.Host, u.Scheme == "https"
	region := cmp.Or(c.config.Region, e.region(files))
	if region == "" && !isAmazon(u.Hostname()) {
		region = "us-east-1"
	}
	o := &minio.Options{Secure: c.secure, Transport: c.http, Region: region, MaxRetries: 1, BucketLookup: minio.BucketLookupAuto}
	switch {
	case c.config.Anonymous:
		// The keys are empty, so that requests are not signed.
		c.signer = &signer{creds: credentials.NewStaticV4("", "", "")}
	case c.config.Keys != nil:
		c.signer = newSigner(c.config.Keys, nil)
	default:
		c.signer = newSigner(e.keys, e.changed)
	}
	o.Creds = c.signer.creds
	if c.server, err = minio.NewCore(u.Host, o); err != nil {
		return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return nil
}

// isAmazon reports whether a host belongs to Amazon. Such a host can be asked for the region of a
// bucket.
func isAmazon(host string) bool {
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
}

// key returns the key for a name. It returns fs.ErrInvalid if the name cannot be part of a key.
func (c *client) key(ctx context.Context, name string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	key := c.prefix + name
	if err := rules.CheckName(ctx, name); err != nil {
		return "", err
	}
	if len(key) > maxKey || !utf8.ValidString(key) || strings.TrimSpace(key) == "" {
		return "", fmt.Errorf("%w: a key has 1 to %d bytes of UTF-8, and not white space alone", fs.ErrInvalid, maxKey)
	}
	return key, nil
}

// dirPrefix returns the prefix of all keys in a directory.
func (c *client) dirPrefix(ctx context.Context, name string) (string, error) {
	if name == "." {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return c.prefix, nil
	}
	key, err := c.key(ctx, name)
	return key + "/", err
}

// url returns the URL of a name, for messages.
func (c *client) url(name string) string {
	if name == "." {
		name = ""
	}
	return "s3://" + c.bucket + "/" + c.prefix + name
}

// fail adds the operation and the name to an error, unless the error has them already.
func (c *client) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	_, marked := errors.AsType[remoteError](err)
	if !marked && !errors.Is(err, context.Canceled) && !errors.Is(err, fs.ErrClosed) {
		err = remoteError{err}
	}
	return &fs.PathError{Op: op, Path: c.url(name), Err: err}
}

// A keySet is a set of object keys. Any goroutine may use it.
type keySet struct {
	mu   sync.Mutex
	keys map[string]bool // guarded by mu
}

func (k *keySet) enter(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[key] {
		return false
	}
	if k.keys == nil {
		k.keys = map[string]bool{}
	}
	k.keys[key] = true
	return true
}

func (k *keySet) leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
}
